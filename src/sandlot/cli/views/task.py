"""Findings about a spreadsheet, and tasks as the agent and the grader see them, on the screen."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sandlot.cli.views.columns import print_columns
from sandlot.core.text import one_line, printable
from sandlot.interop.sheets.draft import DraftReport
from sandlot.interop.sheets.preview import TaskPreview
from sandlot.interop.sheets.table import CellFinding

_COLORS = {"error": "red", "warning": "yellow", "info": "dim"}
_LONGEST = 100


def print_findings(file: Path, findings: Sequence[CellFinding]) -> None:
    """One finding after the other: cell, value, what is wrong, the fix."""
    console = Console(highlight=False, soft_wrap=True)
    for each in findings:
        value = f" [dim]{escape(repr(each.value))}[/]" if each.value else " [dim](empty)[/]"
        place = f"[{_COLORS[each.severity]}]{each.severity:<7}[/]  [bold]{escape(each.place)}[/]"
        console.print(f"{place}{value}: {escape(one_line(each.message))}")
        if each.fix:
            console.print(f"         {escape(one_line(each.fix))}")
    errors = sum(each.severity == "error" for each in findings)
    console.print(f"{escape(str(file))}: {errors or 'no'} error{'s' * (errors != 1)}, {len(findings) - errors} other findings")


def print_previews(previews: Sequence[TaskPreview], findings: Sequence[CellFinding], file: Path) -> None:
    """Each task: what the agent sees, then what only the grader sees."""
    console = Console(highlight=False, soft_wrap=True)
    for each in previews:
        console.print(f"[bold]{escape(each.id)}[/]  [dim]up to {each.turns} turn{'s' * (each.turns != 1)}[/]")
        console.print("  [dim]the agent sees[/]")
        for name, text in (("system", each.system), ("prompt", each.prompt)):
            if text:
                console.print(_block(name, text))
        console.print(f"    tools: {escape(', '.join(each.tools) or 'none')}")
        for path, size in each.given.items():
            console.print(f"    file: {escape(path)} ({size:,} bytes)")
        console.print("  [dim]only the grader sees[/]")
        console.print(_block("golden answer", each.answer or "(none)"))
        for path, text in each.golden.items():
            console.print(_block(f"golden file {path}", text))
        rows = [
            (
                f"    {escape(check.id)}",
                f"{check.points:g}" + (" gate" if check.gate else ""),
                escape(check.check.removeprefix("sandlot:")),
                escape(one_line(", ".join(f"{name}={value!r}" for name, value in check.args.items()), _LONGEST)),
                escape(check.golden),
                escape(one_line(check.reason, _LONGEST)),
            )
            for check in each.checks
        ]
        print_columns(console, ("    check", "points", "kind", "with", "golden", "reason"), rows)
        console.print(f"    points possible: {each.points:g}\n")
    errors = sum(each.severity == "error" for each in findings)
    if errors:
        console.print(f"[red]{errors} errors[/]: sandlot task lint {escape(str(file))}")


def print_draft(report: DraftReport) -> None:
    """What was drafted, the mutation score, and what was left out."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{escape(report.file)}: task `{escape(report.task)}` with {report.checks} checks")
    share = f" ({report.noticed / report.mutants:.0%})" if report.mutants else ""
    console.print(f"mutation score: {report.noticed} of {report.mutants} wrong solutions noticed{share}")
    for what in report.survivors:
        console.print(f"  not noticed: {escape(one_line(what, _LONGEST))}")
    for each in report.left_out:
        console.print(f"[yellow]left out[/]  {escape(one_line(each.what, _LONGEST))}: {escape(one_line(each.why))}")


def _block(name: str, text: str) -> str:
    lines = printable(text).strip().split("\n")
    indent = " " * (6 + len(name))
    return escape(f"    {name}: " + f"\n{indent}".join(lines))
