"""What `list` prints: environments, then runs with date, state, score, model. Names that others wrote are made printable."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sandlot.cli.views.columns import print_columns
from sandlot.core.text import one_line
from sandlot.env.load import FoundEnvironment
from sandlot.run.catalog import CatalogEntry

_HEADER = ("date", "state", "score", "full marks", "rollouts", "environment", "model", "run")
_MAX_NAME = 240
_COLOURS = {"complete": "green", "incomplete": "yellow", "stopped": "red", "unreadable": "red"}


def print_list(environments: Sequence[FoundEnvironment], runs: Iterable[CatalogEntry]) -> None:
    """To stdout, runs oldest first: the newest is the nearest to the prompt."""
    entries = list(runs)
    console = Console(highlight=False, soft_wrap=True)
    if environments:
        num_runs = Counter(entry.source for entry in entries)
        rows = [
            (_word(each.name), each.form, str(num_runs[str(Path(each.place).resolve())] or "-"), _word(each.place))
            for each in environments
        ]
        print_columns(console, ("environment", "form", "runs", "place"), rows)
    if environments and entries:
        console.print()
    if entries:
        print_columns(console, _HEADER, [_cells(entry) for entry in entries])
        for entry in entries:
            if entry.problem:
                console.print(f"[red]{_word(entry.run)}[/]: {escape(one_line(entry.problem, 400))}")


def _cells(entry: CatalogEntry) -> tuple[str, ...]:
    state = f"[{_COLOURS.get(entry.state, 'default')}]{entry.state}[/]"
    if entry.problem:
        return "-", state, "-", "-", "-", "-", "-", _word(entry.run)
    return (
        _date(entry.created),
        state,
        f"{entry.score:.3f}" if entry.score is not None else "-",
        f"{entry.pass_rate:.0%}" if entry.pass_rate is not None else "-",
        _size(entry),
        _word(entry.environment),
        _word(entry.model),
        _word(entry.run),
    )


def _date(seconds: float) -> str:
    """In local time; `-` for a number that is no time: a damaged manifest is no reason to list nothing."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "-"


def _size(entry: CatalogEntry) -> str:
    if entry.steps is not None:
        return f"step {entry.steps:,} of {entry.planned_steps:,}"
    return f"{entry.rollouts:,}" if entry.rollouts >= entry.planned else f"{entry.rollouts:,} of {entry.planned:,}"


def _word(text: str) -> str:
    return escape(one_line(text, _MAX_NAME))
