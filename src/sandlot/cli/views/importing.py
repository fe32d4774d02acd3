"""An import on the screen: what was taken, what was left out and why, and the first audit."""

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.audit.reports.folder import as_json
from sandlot.audit.verdict import Audit
from sandlot.cli.options import print_json
from sandlot.cli.views.audit import print_audit
from sandlot.cli.views.columns import print_columns
from sandlot.core.ports.importer import ImportReport
from sandlot.core.text import one_line

_SHOWN = 20
"""Maximum number of tasks, and of those left out, on the screen; `import.json` has all."""
_LONGEST = 200


def print_kinds(installed: Mapping[str, EntryPoint], *, json: bool) -> None:
    """The kinds of sources that can be imported, and the packages that bring them."""
    rows = [(name, entry.dist.name if entry.dist else "") for name, entry in sorted(installed.items())]
    if json:
        print_json([{"kind": kind, "package": package} for kind, package in rows])
    else:
        print_columns(Console(highlight=False, soft_wrap=True), ("kind", "package"), rows)


def print_import(report: ImportReport, folder: Path, audit: Audit | None, runs: Path, *, json: bool) -> None:
    """Print the report, then the audit if there was one."""
    if json:
        audited = msgspec.json.decode(as_json(audit)) if audit is not None else None
        return print_json({"folder": str(folder), "import": report, "audit": audited})
    console = Console(highlight=False, soft_wrap=True)
    package = f"  [dim]{escape(f'{report.package} {report.version}'.strip())}[/]" if report.package or report.version else ""
    console.print(f"[bold]{escape(report.kind)}:{escape(_short(report.source))}[/] -> {escape(str(folder))}{package}")
    licences = Counter(task.licence for task in report.tasks)
    said = ", ".join(f"{name} {number}" for name, number in licences.most_common())
    console.print(f"{len(report.tasks)} tasks taken, {len(report.left_out)} left out; licences: {escape(_short(said))}\n")
    rows = [(escape(task.id), escape(task.licence), escape(_short(task.origin))) for task in report.tasks[:_SHOWN]]
    print_columns(console, ("task", "licence", "origin"), rows)
    _print_rest(console, len(report.tasks))
    if report.left_out:
        console.print()
        print_columns(
            console,
            ("left out", "why"),
            [(escape(_short(each.what)), escape(_short(each.why))) for each in report.left_out[:_SHOWN]],
        )
        _print_rest(console, len(report.left_out))
    for note in report.notes:
        console.print(f"[yellow]note[/]  {escape(_short(note))}")
    if audit is not None:
        print_audit(audit, runs, json=False)
    return None


def _print_rest(console: Console, number: int) -> None:
    if number > _SHOWN:
        console.print(f"[dim]and {number - _SHOWN} more, in import.json[/]")


def _short(text: str) -> str:
    """One safe line of limited length: the source is not ours."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
