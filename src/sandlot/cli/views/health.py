"""The health of a run for a person: one line per check, with its mark and where to look."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.analysis.health.item import Health, Item, Mark
from sandlot.cli.views.summary import plain

STYLES = {Mark.OK: "green", Mark.WARN: "yellow", Mark.FAIL: "bold red", Mark.UNKNOWN: "cyan", Mark.NOT_ASKED: "dim"}
WORDS = {Mark.OK: "ok", Mark.WARN: "warn", Mark.FAIL: "FAIL", Mark.UNKNOWN: "?", Mark.NOT_ASKED: "-"}
VERDICTS = {
    Mark.OK: "[green]healthy[/]",
    Mark.WARN: "[yellow]worth a look[/]",
    Mark.FAIL: "[bold red]not healthy[/]: fix it before a model learns from it",
    Mark.UNKNOWN: "[cyan]nothing wrong found[/], but too few rollouts to be sure",
}


def as_json(health: Health) -> dict[str, Any]:
    """Everything, with what follows from it."""
    return {**msgspec.to_builtins(health), "verdict": health.verdict.value, "incomplete": health.incomplete}


def print_health(health: Health) -> None:
    """To stdout, in one screen."""
    console = Console(highlight=False, soft_wrap=True)
    missing = f" of {health.planned:,} planned" if health.planned is not None and health.rollouts < health.planned else ""
    console.print(
        f"[bold]{escape(health.environment)}[/] with [bold]{escape(health.model)}[/]: {VERDICTS[health.verdict]}"
        f"  [dim]{health.rollouts:,} rollouts{missing}[/]"
    )
    for item in health.items:
        _print_item(console, health, item)
    console.print(f"[dim]{_read(health)}[/]")


def health_line(run: Path, items: Iterable[Item]) -> str | None:
    """One line for the end of a run; None if there is nothing to say."""
    worst = [item for item in items if item.mark in {Mark.FAIL, Mark.WARN}]
    if not worst:
        return None
    first = min(worst, key=lambda item: item.mark is Mark.WARN)
    more = f" (and {len(worst) - 1} more)" if len(worst) > 1 else ""
    style = "red" if first.mark is Mark.FAIL else "yellow"
    return f"[{style}]health[/]: {escape(plain(first.said))}{more}  [dim]sandlot health {escape(str(run))}[/]"


def _print_item(console: Console, health: Health, item: Item) -> None:
    needs = f"  [dim]needs {escape(plain(item.needed))}[/]" if item.mark is Mark.UNKNOWN and item.needed else ""
    console.print(f"[{STYLES[item.mark]}]{WORDS[item.mark]:>5}[/]  [bold]{item.name:<10}[/]  {escape(plain(item.said))}{needs}")
    if item.mark in {Mark.WARN, Mark.FAIL} and item.look:
        console.print(f"{'':19}[dim]sandlot show {escape(plain(f'{health.run}/{item.look[0]}'))}[/]")


def _read(health: Health) -> str:
    drawn = f", {health.rows:,} of them sampled for the numbers" if health.rows < health.rollouts else ""
    against = f" against {health.against}" if health.against else ""
    return f"read {health.rollouts:,} rows{drawn} and {health.traces:,} traces{against}; seed {health.seed}"
