"""The health of a run on the screen: one line per check, with its mark and where to look."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.analysis.health.item import Health, HealthItem, HealthMark
from sandlot.cli.views.summary import clean

_MARKS = {
    HealthMark.OK: ("green", "ok"),
    HealthMark.WARN: ("yellow", "warn"),
    HealthMark.FAIL: ("bold red", "FAIL"),
    HealthMark.UNKNOWN: ("cyan", "?"),
    HealthMark.NOT_ASKED: ("dim", "-"),
}
"""The style and the word of each mark."""
_VERDICTS = {
    HealthMark.OK: "[green]healthy[/]",
    HealthMark.WARN: "[yellow]worth a look[/]",
    HealthMark.FAIL: "[bold red]not healthy[/]: fix it before a model learns from it",
    HealthMark.UNKNOWN: "[cyan]nothing wrong found[/], but too few rollouts to be sure",
}


def as_json(health: Health) -> dict[str, Any]:
    """The whole record, with the verdict."""
    return {**msgspec.to_builtins(health), "verdict": health.verdict.value, "incomplete": health.incomplete}


def print_health(health: Health) -> None:
    """Print the health of a run to stdout."""
    console = Console(highlight=False, soft_wrap=True)
    missing = f" of {health.planned:,} planned" if health.planned is not None and health.rollouts < health.planned else ""
    console.print(
        f"[bold]{escape(health.environment)}[/] with [bold]{escape(health.model)}[/]: {_VERDICTS[health.verdict]}"
        f"  [dim]{health.rollouts:,} rollouts{missing}[/]"
    )
    for item in health.items:
        _print_item(console, health, item)
    console.print(f"[dim]{_read(health)}[/]")


def health_line(run: Path, items: Iterable[HealthItem]) -> str | None:
    """One line for the end of a run; None if no check warns or fails."""
    worst = [item for item in items if item.mark in {HealthMark.FAIL, HealthMark.WARN}]
    if not worst:
        return None
    first = min(worst, key=lambda item: item.mark is HealthMark.WARN)
    more = f" (and {len(worst) - 1} more)" if len(worst) > 1 else ""
    style = "red" if first.mark is HealthMark.FAIL else "yellow"
    return f"[{style}]health[/]: {escape(clean(first.said))}{more}  [dim]sandlot health {escape(str(run))}[/]"


def _print_item(console: Console, health: Health, item: HealthItem) -> None:
    needs = f"  [dim]needs {escape(clean(item.needed))}[/]" if item.mark is HealthMark.UNKNOWN and item.needed else ""
    style, word = _MARKS[item.mark]
    console.print(f"[{style}]{word:>5}[/]  [bold]{item.name:<10}[/]  {escape(clean(item.said))}{needs}")
    if item.mark in {HealthMark.WARN, HealthMark.FAIL} and item.look:
        console.print(f"{'':19}[dim]sandlot show {escape(clean(f'{health.run}/{item.look[0]}'))}[/]")


def _read(health: Health) -> str:
    sampled = f", {health.rows:,} of them sampled for the numbers" if health.rows < health.rollouts else ""
    against = f" against {health.against}" if health.against else ""
    return f"read {health.rollouts:,} rows{sampled} and {health.traces:,} traces{against}; seed {health.seed}"
