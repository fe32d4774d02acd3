"""The Python reference: every name of `sandlot`, `sandlot.apps` and `sandlot.train` with signature, meaning, fields or methods.

Everything comes from the code. A docstring is Markdown: prose, a list of parameters, one ```python block as the example.
`tests/test_docs.py` runs the examples, and wants every name of `sandlot` and each of its parameters described, with an example.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any

import sandlot
from sandlot import apps
from sandlot.core.syntax import parse_python
from sandlot.ports import Completed
from sandlot.train import Evaluation, Optimisation

GROUPS = {
    "Write an environment": [
        *("environment", "Ask", "Score", "Environment", "Task", "Split", "World", "Evidence", "Agent", "ToolError"),
        *("Rubric", "JudgeCheck", "Limits", "Constraint", "Persona", "McpServer", "tasks_of", "tasks_from", "load"),
    ],
    "Check it": ["audit", "calibrate"],
    "Run it and read what happened": [
        *("run", "run_async", "Run", "Trace", "End", "Scored", "Failed", "Cancelled", "health", "triage", "SandlotError"),
    ],
    "Train": ["Recipe", "train"],
}
BESIDE = {"World": (Completed,), "Recipe": (Evaluation, Optimisation)}
"""What is not imported from `sandlot` itself, and belongs with a name that is."""
INSIDE = {"new_world", "instructions", "append", "open"}
"""Public for other modules of Sandlot; users do not call these."""

WIDE = 100
"""A longer signature has one parameter per line."""
EXAMPLE = re.compile(r"\n*^```python\n.*?^```$", re.MULTILINE | re.DOTALL)
_ENUM_MEMBER = re.compile(r'^    \w+ = "(\w+)"(?:  #(?: noqa: [\w, ]+ -)? (.*))?$', re.MULTILINE)

Fields = Callable[[type], list[tuple[str, str, str, str]]]


def python_page(fields: Fields) -> str:
    """The whole page; a front-door name without a group stands under `More`."""
    grouped = {name for names in GROUPS.values() for name in names}
    more = [name for name in dir(sandlot) if name not in grouped]
    groups = {title: [name for name in names if name in dir(sandlot)] for title, names in GROUPS.items()}
    groups |= {"More": more} if more else {}
    lines = ["# Python", "", "What `import sandlot` gives you. `help(sandlot)` gives the overview in the interpreter.", ""]
    lines += [f"- {title}: " + ", ".join(f"`{name}`" for name in names) for title, names in groups.items()]
    for title, names in groups.items():
        lines += ["", f"# {title}", ""]
        for name in names:
            lines += _entry(f"sandlot.{name}", getattr(sandlot, name), fields)
            for beside in BESIDE.get(name, ()):
                lines += _entry(f"sandlot.{'ports' if beside is Completed else 'train'}.{beside.__name__}", beside, fields)
    return "\n".join(lines).rstrip() + "\n"


def train_page(fields: Fields) -> str:
    """Every name of `sandlot.train`."""
    train = sys.modules["sandlot.train"]  # `sandlot.train` is the function
    lines = ["# sandlot.train", "", "```text", inspect.cleandoc(train.__doc__ or ""), "```", ""]
    for name in sorted(train.__all__):
        lines += _entry(f"sandlot.train.{name}", getattr(train, name), fields)
    return "\n".join(lines).rstrip() + "\n"


def apps_page(fields: Fields) -> str:
    """Every name of `sandlot.apps`; of a ready app, its tools."""
    lines = ["# sandlot.apps", "", "```text", inspect.cleandoc(apps.__doc__ or ""), "```", ""]
    values = {name: getattr(apps, name) for name in sorted(apps.__all__)}
    for name, value in values.items():
        lines += _app_entry(name, value) if isinstance(value, apps.App) else _entry(f"sandlot.apps.{name}", value, fields)
    return "\n".join(lines).rstrip() + "\n"


def _app_entry(name: str, app: apps.App) -> Iterator[str]:
    known = f"`{app.server.server}` {app.server.version} ({app.server.license})" if app.server else "Sandlot's own tools"
    yield from (
        f"## `sandlot.apps.{name}`",
        "",
        f"`world.apps.{app.name}`. Tools of {known}.",
        "",
        "| tool | description |",
        "|---|---|",
    )
    for tool, made in app.parts.tools.items():
        yield f"| `{tool}` | {' '.join(made.spec.description.split()).replace('|', '/')[:200]} |"
    yield ""


def prose(value: Any) -> str:
    """A docstring without its example."""
    return EXAMPLE.sub("", inspect.cleandoc(value.__doc__ or ""))


def _entry(title: str, value: Any, fields: Fields) -> Iterator[str]:
    yield from (f"## `{title}`", "")
    short = title.rpartition(".")[2]
    documented = fields(value) if inspect.isclass(value) and not issubclass(value, Exception | StrEnum) else []
    if inspect.isfunction(value):
        yield from ("```text", _signature(short, value), "```", "")
    elif getattr(value, "_is_protocol", False):
        pass  # users are given one, they do not make it
    elif documented:
        yield from ("```text", _constructor(short, value, documented), "```", "")
    elif is_dataclass(value):
        yield from ("```text", f"{short}()", "```", "")  # a record without fields
    elif inspect.isfunction(value.__init__) and value not in {sandlot.Agent, sandlot.SandlotError}:
        yield from ("```text", _signature(short, value.__init__), "```", "")
    yield from (inspect.cleandoc(value.__doc__ or ""), "")
    if inspect.isclass(value) and issubclass(value, StrEnum):
        yield from ("| value | meaning |", "|---|---|")
        yield from (f"| `{name}` | {meaning} |" for name, meaning in _ENUM_MEMBER.findall(inspect.getsource(value)))
        yield ""
        return
    if documented:
        yield from ("| name | type | default | meaning |", "|---|---|---|---|")
        yield from (f"| `{field}` | {kind} | {default} | {meaning} |" for field, kind, default, meaning in documented)
        yield ""
    if inspect.isclass(value):
        yield from _members(value)


def _constructor(name: str, record: type, documented: list[tuple[str, str, str, str]]) -> str:
    """`Task(id, prompt='', ...)`, from the fields."""
    kinds = {each.kind for each in inspect.signature(record).parameters.values()}
    pieces = ["*"] if kinds == {inspect.Parameter.KEYWORD_ONLY} else []
    for field, _, default, _ in documented:
        pieces.append(field if default == "required" else f"{field}={'...' if default == 'empty' else default.strip('`')}")
    return _wrapped(name, pieces, "")


def _members(value: type) -> Iterator[str]:
    """Its public methods and properties, in the order they are written, then those of its bases."""
    bases = [kind for kind in value.__mro__ if kind.__module__.startswith("sandlot.")]
    for name, member in (item for kind in bases for item in vars(kind).items()):
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if name.startswith("_") or name in INSIDE or not inspect.isfunction(function) or not function.__doc__:
            continue
        if function is not member:
            said = f".{name}: {_Definition(function).returns_text}"
        elif next(iter([each for each in inspect.signature(function).parameters if each != "self"]), "") == "function":
            keywords = [each for each in _Definition(function).pieces if not each.startswith(("function", "*"))]
            said = _wrapped(f"@env.{name}", keywords, "") if keywords else f"@env.{name}"
        else:
            said = f"{'await ' if inspect.iscoroutinefunction(function) else ''}.{_signature(name, function)}"
        block = ["```text", said, "```"] if "\n" in said or len(said) > WIDE else [f"**`{said}`**"]
        yield from (*block, "", inspect.cleandoc(function.__doc__), "")


class _Definition:
    """A function as it is written: annotations in the author's words."""

    def __init__(self, function: Any) -> None:
        node = parse_python(inspect.cleandoc("\n" + inspect.getsource(function))).body[0]
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        arguments = node.args
        self.returns_text = ast.unparse(node.returns).strip("'") if node.returns else ""
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
        self.pieces = [
            _piece(each, default) for each, default in zip(positional, defaults, strict=True) if each.arg not in {"self", "cls"}
        ]
        if arguments.vararg:
            self.pieces.append("*" + _piece(arguments.vararg, None))
        elif arguments.kwonlyargs:
            self.pieces.append("*")
        self.pieces += [_piece(each, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        if arguments.kwarg:
            self.pieces.append("**" + _piece(arguments.kwarg, None))


def _piece(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation).strip(chr(39))}" if argument.annotation else ""
    if default is None:
        return argument.arg + kind
    return f"{argument.arg}{kind} = {ast.unparse(default)}" if kind else f"{argument.arg}={ast.unparse(default)}"


def _signature(name: str, function: Any) -> str:
    definition = _Definition(function)
    returned = f" -> {definition.returns_text}" if definition.returns_text and definition.returns_text != "None" else ""
    return _wrapped(name, definition.pieces, returned)


def _wrapped(name: str, pieces: list[str], returned: str) -> str:
    line = f"{name}({', '.join(pieces)}){returned}"
    return line if len(line) <= WIDE else f"{name}(\n    " + ",\n    ".join(pieces) + f",\n){returned}"
