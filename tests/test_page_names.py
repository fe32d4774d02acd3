"""Commands, flags, imports and parameters on the pages exist: read and resolved, not run.

`test_docs.py` runs the pages. This holds for all that no test runs as well: blocks marked `no-run`, and commands in a sentence.
"""

import ast
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import typer

from sandlot.cli.main import app
from sandlot.core.syntax import parse_python

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*/*.md"), *ROOT.glob("environments/**/*.md")]
BLOCK = re.compile(r"^```(\w+)(?: [^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(sandlot [^`]*)`")
COMMANDS = typer.main.get_command(app)
SHELL_WORDS = {"|", "||", "&&", ">", "&", ";"}


def command_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each command with `sandlot` in it, and whether it is a whole one: in a sentence, what is not the point is left out."""
    for language, body in BLOCK.findall(text):
        lines = body.replace("\\\n", " ").splitlines()
        if language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        if language in {"console", "sh", "bash"}:
            yield from ((line, True) for line in lines if "sandlot " in line)
    yield from ((" ".join(line.split()), False) for line in INLINE.findall(BLOCK.sub("", text)))


def fault_of(line: str, *, whole: bool) -> str:
    """Why the command line does not accept these words; empty if it does, or if they are the words of another program."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if not words or words.pop(0) != "sandlot":
        return ""
    words = words[: next((place for place, word in enumerate(words) if word in SHELL_WORDS), len(words))]
    words = ["1" if word == "N" else word for word in words]
    command, name = COMMANDS, "sandlot"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command `{name}`"
        command = command.commands[name]
    if hasattr(command, "commands"):
        options = {"--help", *(option for each in command.params for option in each.opts)}
        return "" if set(words) <= options else f"no options {words}"
    if "--help" in words:
        return ""
    try:
        command.make_context(name, words)
    except Exception as exc:  # noqa: BLE001 - the kinds are typer's own, and each is a fault of the page but one
        left_out = type(exc).__name__ == "MissingParameter" or "requires an argument" in str(getattr(exc, "message", ""))
        return "" if left_out and not whole else f"{type(exc).__name__}: {exc}"
    return ""


def test_every_command_line_of_every_page_is_accepted():
    lines = [(page, *found) for page in PAGES for found in command_lines(page.read_text())]
    assert len(lines) > 350
    faults = [(page.name, line, fault_of(line, whole=whole)) for page, line, whole in lines]
    assert [found for found in faults if found[2]] == []


@pytest.mark.parametrize(
    ("line", "whole", "fault"),
    [
        ("sandlot run add.py --model scripted:golden | head -1", True, ""),
        ("PYTHONPATH=. sandlot run add.py --model scripted:golden", True, ""),
        ("sandlot import list", True, ""),
        ("sandlot import --help", True, ""),
        ("sandlot --walk", True, "no options"),
        ("sandlot walk add.py", True, "no command `walk`"),
        ("sandlot task paint x.xlsx", True, "no command `paint`"),
        ("sandlot run add.py --model x --groups 8", True, "NoSuchOption"),
        ("sandlot run add.py --model x --group eight", True, "BadParameter"),
        ("sandlot run add.py --group 8 --model", False, ""),
        ("sandlot show", False, ""),
        ("sandlot show", True, "MissingParameter"),
    ],
)
def test_a_command_line_that_would_be_refused_is_found(line, whole, fault):
    found = fault_of(line, whole=whole)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def missing_names(code: str) -> list[str]:
    """What the code imports from Sandlot or calls there by keyword and is not there."""
    tree = parse_python(code)
    known: dict[str, object] = {}
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "sandlot":
                    known[alias.asname or "sandlot"] = importlib.import_module(alias.name if alias.asname else "sandlot")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sandlot":
            module = module_named(node.module)
            there = [alias for alias in node.names if alias.name != "*" and hasattr(module, alias.name)]
            known |= {alias.asname or alias.name: getattr(module, alias.name) for alias in there}
            missing += [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*" and alias not in there]
    known = {name: value for name, value in known.items() if name not in assigned_names(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if isinstance(known.get(name), ModuleType):
                missing += [] if hasattr(known[name], attribute) else [f"{name}.{attribute}"]
            case ast.Call(func=function, keywords=keywords):
                missing += [f"{ast.unparse(function)}({each})" for each in unknown_parameters(resolve(function, known), keywords)]
            case _:
                pass
    return missing


def module_named(module: str) -> object:
    """The module; the names that it defines, without values, if it needs a package that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("sandlot"):
            raise
        tree = parse_python(Path(importlib.util.find_spec(module).origin).read_text())
        return SimpleNamespace(**{node.name: None for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)})


def assigned_names(tree: ast.AST) -> set[str]:
    """Names that the code gives another meaning, such as `with open_for_trl(...) as sandlot`."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def resolve(function: ast.expr, known: dict[str, object]) -> object:
    match function:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return getattr(known.get(name), attribute, None)
    return None


def unknown_parameters(called: object, keywords: list[ast.keyword]) -> list[str]:
    if called is None or not callable(called):
        return []
    parameters = inspect.signature(called).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return []
    names = {each.name for each in parameters}
    return [each.arg for each in keywords if each.arg is not None and each.arg not in names]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "ports.md"],  # it has signatures without bodies
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_on_a_page_compiles_and_names_what_there_is(page):
    blocks = [body for language, body in BLOCK.findall(page.read_text()) if language == "python"]
    assert [found for body in blocks for found in missing_names(body)] == []


def test_a_name_or_a_parameter_that_is_not_there_is_found():
    assert missing_names("import sandlot\nsandlot.run('x', 'y', groups=8)\nsandlot.walk()\n") == [
        "sandlot.run(groups)",
        "sandlot.walk",
    ]
    assert missing_names("from sandlot import Task, Walk\nTask('x', prompt='y', colour=1)\n") == ["sandlot.Walk", "Task(colour)"]
    assert missing_names("with opened() as sandlot:\n    sandlot.rollouts()\nimport sandlot\n") == []
