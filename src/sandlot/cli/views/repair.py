"""The changes that `sandlot audit --fix` proposes, on the screen."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.audit.repair.repair import Repair
from sandlot.audit.reports.folder import as_json
from sandlot.audit.verdict import Audit
from sandlot.cli.options import print_json
from sandlot.cli.views.audit import print_audit
from sandlot.core.text import one_line


def print_found(audit: Audit, repair: Repair | None, runs: Path | None, *, json: bool) -> int:
    """Print an audit, and what `--fix` made of it; the command's exit code."""
    if repair is None:
        print_audit(audit, runs, json=json)
        return audit.verdict.exit_code
    _print_repair(audit, repair, runs, json=json)
    return (repair.verdict if repair.written else audit.verdict).exit_code


def _print_repair(audit: Audit, repair: Repair, runs: Path | None, *, json: bool) -> None:
    """Print the audit, the changes that were kept, what is left to a person, and the diff."""
    if json:
        print_json({**msgspec.json.decode(as_json(audit)), "fix": msgspec.to_builtins(repair)})
        return
    print_audit(audit, runs, json=False)
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"\n[bold]{len(repair.kept)} kept[/] of {repair.tried} changes tried, {len(repair.left)} findings left to a person"
    )
    for kept in repair.kept:
        console.print(f"[green]kept[/]  {escape(kept.file)} {escape(kept.what)}  [dim]removes {', '.join(kept.gone)}[/]")
    for left in repair.left:
        console.print(f"[yellow]left[/]  {left.code} {escape(one_line(left.title))}: {escape(one_line(left.decide))}")
    if repair.kept:
        after = "written to your files" if repair.written else "nothing was written; repeat with --write, or apply the diff"
        console.print(f"\nthe audit of the changed copy says {repair.verdict.value}; {after}\n")
        console.print(escape(repair.diff), end="")
