"""Write `docs/reference/` from the code: `make docs`. `tests/test_docs.py` fails if a page is stale."""

import ast
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import typer
from python_names import apps_page, prose, python_page, train_page

from sandlot import testing
from sandlot.analysis import own_labels, preferences
from sandlot.analysis.health import item
from sandlot.analysis.taxonomy import LABELS, VERSION
from sandlot.analysis.triage import labels
from sandlot.audit import finding, verdict, waivers
from sandlot.audit.audit import ALL_PROBES
from sandlot.audit.defects import DEFECTS
from sandlot.checks import LIBRARY
from sandlot.cli.main import app
from sandlot.core import errors, limits, ports, rubric, task, trace, trace_row
from sandlot.core.ports import grading, model, sandbox, session, store, world
from sandlot.core.syntax import parse_python
from sandlot.env import folder
from sandlot.grade.loading import rubric_schema
from sandlot.observe import events, training_records
from sandlot.run import config
from sandlot.wiring import config as wiring_config

REFERENCE = Path(__file__).parent / "reference"
HEADER = "<!-- Written by docs/generate.py from the code: change the code, then `make docs`. -->\n\n"


def pages() -> dict[str, str]:
    """Every generated page by file name."""
    return {
        "python.md": HEADER + python_page(_fields),
        "apps.md": HEADER + apps_page(_fields),
        "train.md": HEADER + train_page(_fields),
        "commands.md": HEADER + commands(),
        "config.md": HEADER + records("Configuration", [folder, limits, config, wiring_config]),
        "records.md": HEADER
        + records(
            "Records",
            [
                task,
                rubric,
                trace,
                trace_row,
                events,
                training_records,
                item,
                labels,
                own_labels,
                preferences,
                finding,
                verdict,
                waivers,
            ],
        ),
        "ports.md": HEADER + protocols(),
        "testing.md": HEADER + suites(),
        "errors.md": HEADER + "# Errors\n\n```text\n" + inspect.cleandoc(errors.__doc__ or "") + "\n```\n",
        "checks.md": HEADER + ready_checks(),
        "taxonomy.md": HEADER + taxonomy(),
        "defects.md": HEADER + defects(),
        "rubric.schema.json": json.dumps(rubric_schema(), indent=2, sort_keys=True) + "\n",
    }


def defects() -> str:
    """The page of defects: what an audit looks for, and which probes can find it."""
    lines = [
        "# Defects",
        "",
        "What `sandlot audit` looks for. A finding has one of these codes and a word for the variant, such as `D02.echo`.",
        "",
    ]
    lines += ["| code | defect | what a model learns from it | fix | probes |", "|---|---|---|---|---|"]
    for code, defect in DEFECTS.items():
        probes = ", ".join(f"`{probe.name}`" for probe in ALL_PROBES if code in probe.codes)
        lines.append(f"| {code} | {defect.name} | {defect.harm} | {defect.fix} | {probes or 'none; see `sandlot health`'} |")
    lines += ["", "## Probes", "", "| probe | layer | what must hold | codes |", "|---|---|---|---|"]
    for probe in ALL_PROBES:
        holds = inspect.cleandoc(probe.look.__doc__ or "").partition("\n")[0]
        lines.append(f"| `{probe.name}` | {probe.layer} | {holds} | {', '.join(probe.codes)} |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Each command with its arguments and options."""
    group = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "stdout is the result, stderr is progress. Exit codes: 0 fine, 1 findings or failures, 2 wrong use, 3 incomplete.",
        "",
    ]
    for name, command in sorted(_flat(group)):
        lines += [f"## `sandlot {name}`", "", inspect.cleandoc(command.help or ""), ""]
        for parameter in command.params:
            if parameter.param_type_name == "option" and "--help" not in parameter.opts:
                default = (
                    f" Default: `{parameter.default}`."
                    if parameter.default not in (None, False, (), "") and not callable(parameter.default)
                    else ""
                )
                value = f" {parameter.metavar}" if parameter.metavar else ""
                lines.append(f"- `{', '.join(parameter.opts)}{value}` {parameter.help or ''}{default}")
            elif parameter.param_type_name == "argument":
                lines.append(f"- `{parameter.metavar or parameter.name.upper()}` {getattr(parameter, 'help', None) or ''}")
        lines.append("")
    return "\n".join(lines)


def _flat(group: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, command in group.commands.items():
        found += _flat(command, f"{prefix}{name} ") if hasattr(command, "commands") else [(prefix + name, command)]
    return found


def records(title: str, modules: list[ModuleType]) -> str:
    """A page of records with their fields; the meaning of a field is the string below it in the code."""
    lines = [f"# {title}", ""]
    for module in modules:
        for name, value in vars(module).items():
            if (
                inspect.isclass(value)
                and issubclass(value, msgspec.Struct)
                and value.__module__ == module.__name__
                and not name.startswith("_")
            ):
                tag = f" Tagged `{value.__struct_config__.tag_field}`: `{value.__struct_config__.tag}`." if _tagged(value) else ""
                lines += [f"## {name}", "", f"`{module.__name__}.{name}`: {prose(value)}{tag}", ""]
                lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
                lines += [f"| `{field}` | {kind} | {default} | {meaning} |" for field, kind, default, meaning in _fields(value)]
                lines.append("")
    return "\n".join(lines)


def _tagged(record: type[msgspec.Struct]) -> bool:
    """True if the record's JSON has a tag; a base class is never written."""
    return record.__struct_config__.tag is not None and not record.__subclasses__()


def _fields(record: type) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each field, read from the source code."""
    docs: dict[str, tuple[str, str, str]] = {}
    for owner in reversed([each for each in record.__mro__ if each.__module__.partition(".")[0] == "sandlot"]):
        body = parse_python(inspect.cleandoc("\n" + inspect.getsource(owner))).body[0].body
        for place, statement in enumerate(body):
            if not isinstance(statement, ast.AnnAssign) or statement.target.id.startswith("_"):
                continue
            if "ClassVar" in ast.unparse(statement.annotation):
                continue
            following = body[place + 1] if place + 1 < len(body) else None
            doc = following.value.value if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) else ""
            default = f"`{ast.unparse(statement.value)}`" if statement.value else "required"
            if "default_factory" in default:
                default = "now" if "time.time" in default else "empty"
            kind = ast.unparse(statement.annotation).replace("|", "or").strip("'\"")
            docs[statement.target.id] = (f"`{kind}`", default.replace("|", "or"), " ".join(str(doc).split()))
    names = getattr(record, "__struct_fields__", docs)
    return [(name, *docs[name]) for name in names]


def protocols() -> str:
    """The page of ports: what a plug-in must implement."""
    lines = ["# Ports", "", inspect.cleandoc(ports.__doc__ or ""), ""]
    parts = (sandbox, world, session, model, grading, store)
    own = {name: value for part in parts for name, value in vars(part).items() if _is_of(value, part.__name__)}
    for name, value in own.items():
        if getattr(value, "_is_protocol", False):
            lines += [f"## {name}", "", prose(value), "", "```python"]
            for member, function in vars(value).items():
                if isinstance(function, property):
                    lines.append(f"{member}: {_annotation(function)}  # {inspect.cleandoc(function.fget.__doc__ or '')}")
                elif inspect.isfunction(function) and not member.startswith("_"):
                    prefix = "async def" if inspect.iscoroutinefunction(function) else "def"
                    lines += [f"{prefix} {member}{_signature(function)}", f'    """{inspect.cleandoc(function.__doc__ or "")}"""']
            lines += ["```", ""]
    return "\n".join(lines)


def suites() -> str:
    """The page of suites: what a test file of a plug-in imports, and what is tested then."""
    folder = Path(testing.__file__ or "").parent
    lines = ["# Suites", "", inspect.cleandoc(testing.__doc__ or ""), ""]
    for path in sorted(folder.glob("[a-z]*.py")):
        tree = parse_python(path.read_text())
        names = [each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        tests = [name.removeprefix("test_").replace("_", " ") for name in names if name.startswith("test_")]
        if tests:
            lines += [f"## `sandlot.testing.{path.stem}`", "", ast.get_docstring(tree) or "", ""]
            lines += [f"- {sentence[0].upper()}{sentence[1:]}." for sentence in tests]
            lines.append("")
    return "\n".join(lines)


def _is_of(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module


def _annotation(member: property) -> str:
    return _plain(inspect.formatannotation(inspect.signature(member.fget).return_annotation))


def _signature(function: Any) -> str:
    return _plain(str(inspect.signature(function)))


def _plain(text: str) -> str:
    for noise in (
        *(f"sandlot.core.ports.{part}." for part in ("sandbox", "world", "session", "model", "grading", "store")),
        "sandlot.core.persona.",
        "sandlot.core.trace.",
        "sandlot.core.types.",
        "sandlot.core.task.",
        "sandlot.core.limits.",
        "collections.abc.",
        "contextlib.",
        "typing.",
    ):
        text = text.replace(noise, "")
    return text


def ready_checks() -> str:
    """The page of built-in checks, which a rubric can use without Python code."""
    lines = ["# Built-in checks", "", 'Use them in a rubric as `"ref": "sandlot:NAME"`, with the arguments in `args`.', ""]
    for name, function in sorted(LIBRARY.items()):
        arguments = ", ".join(
            str(each) for each in list(inspect.signature(function).parameters.values()) if each.name not in {"evidence", "task"}
        )
        lines += [f"## `sandlot:{name}`", "", f"`{arguments}`", "", inspect.cleandoc(function.__doc__ or ""), ""]
    return "\n".join(lines)


def taxonomy() -> str:
    """The page of labels of rollouts."""
    lines = ["# Labels of rollouts", "", f"Version {VERSION} of the list. Labels given by people record this version.", ""]
    lines += ["| label | read from | rule | failures (side/kind) |", "|---|---|---|---|"]
    for label in LABELS:
        kinds = ", ".join(sorted(f"`{side}/{kind}`" for side, kind in label.kinds)) or "-"
        lines.append(f"| `{label.name}` | {label.decided_by} | {label.what} | {kinds} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages; with `--check`, only report whether they are stale."""
    stale = []
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    sys.stderr.write(f"stale: {', '.join(stale)}\n" if stale else "up to date\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
