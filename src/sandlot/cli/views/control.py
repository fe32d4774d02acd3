"""What `ps` and the commands that steer a run print. Names that others wrote are made printable."""

import time
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.cli.views.columns import print_columns
from sandlot.core.text import one_line, printable_json
from sandlot.harness.approval import HeldTurn
from sandlot.run.control import RunStatus

_HEADER = ("run", "state", "rollouts", "in flight", "at once", "graded", "for", "pid")
_COLOURS = {"running": "green", "paused": "yellow", "stopping": "red"}


def print_statuses(found: Sequence[RunStatus]) -> None:
    """One line per run, to stdout."""
    print_columns(Console(highlight=False, soft_wrap=True), _HEADER, [_cells(status) for status in found])


def print_status(status: RunStatus) -> None:
    """One run in one sentence, to stdout."""
    later = "; failed rollouts are taken again when the others are done" if status.requeued else ""
    workers = "" if status.workers is None else f", {status.workers:,} workers, {status.waiting:,} rollouts wait for one"
    graded = f", {status.grading:,} being graded" if status.grading else ""
    Console(highlight=False, soft_wrap=True).print(
        f"{escape(one_line(status.run, 240))}: [{_COLOURS[status.state]}]{status.state}[/], {_done(status)} rollouts, "
        f"{status.in_flight:,} in flight, at most {status.at_once:,} at once{_limit(status)}{workers}{graded}{later}"
    )


def print_held(held: Sequence[HeldTurn]) -> None:
    """The turns that wait, to stdout: what the agent wants to call, and how long it waits."""
    console = Console(highlight=False, soft_wrap=True)
    if not held:
        console.print("no turn waits")
    for turn in held:
        left = max(0, turn.until - time.time())
        place = escape(one_line(f"{turn.task}/{turn.rollout}", 240))
        safe = "the rollout stops" if turn.safe is None else f"`{escape(one_line(turn.safe.name, 100))}` is called instead"
        console.print(f"[bold]{turn.id}[/] {place} turn {turn.turn}; without an answer in {left:.0f} s {safe}")
        for call in turn.calls:
            told = printable_json(msgspec.json.encode(call.arguments)).decode()  # all of it: what is not shown is approved unseen
            console.print(f"   {escape(one_line(call.name, len(call.name)))} {escape(told)}")


def _cells(status: RunStatus) -> tuple[str, ...]:
    return (
        escape(one_line(status.run, 240)),
        f"[{_COLOURS[status.state]}]{status.state}[/]",
        _done(status),
        f"{status.in_flight:,}",
        f"{status.at_once:,}{_limit(status)}",
        f"{status.grading:,}",
        _span(time.time() - status.since),
        str(status.pid),
    )


def _limit(status: RunStatus) -> str:
    """The smaller number of a run that adapts, and why it is smaller."""
    if status.limit is None or status.limit >= status.at_once:
        return ""
    return f" (now {status.limit:,}{f': {status.waits}' if status.waits else ''})"


def _done(status: RunStatus) -> str:
    return f"{status.done:,}" if status.planned is None else f"{status.done:,} of {status.planned:,}"


def _span(seconds: float) -> str:
    minutes = max(0, int(seconds)) // 60
    return f"{int(max(0, seconds))} s" if minutes < 1 else f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
