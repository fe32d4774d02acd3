"""The summary of a run for a person: scores with intervals, failures, where the time went."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console
from rich.markup import escape

from sandlot.core.stats.intervals import Interval
from sandlot.core.text import printable
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import End
from sandlot.run.declared import OverriddenLimit
from sandlot.run.results import Run
from sandlot.run.summary import Summary

_BLOCKS = " ▁▂▃▄▅▆▇█"
_OWN = re.compile(r"\bsandlot_env_[0-9a-f]{12}\.")
"""The private package an author's files are loaded into; left out of what is printed."""

_LIMITS = 8
"""Overridden limits that are printed; `sandlot show RUN --json` and the page have all."""
_DIGITS = re.compile(r"\d+")


def print_summary(run: Run, summary: Summary) -> None:
    """Print the summary to stdout, on one screen."""
    print_numbers(run, summary)
    print_notable(run, summary)


def print_numbers(run: Run, summary: Summary) -> None:
    """What was run, its verdict and its numbers."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{run.manifest.environment}[/] with [bold]{escape(run.manifest.config.model.spec)}[/]: {_verdict(run, summary)}"
    )
    for name, value in _lines(run, summary):
        console.print(f"[dim]{name:>10}[/]  {value}")
    admission = run.sittings[-1].admission if run.sittings else None
    if admission is not None:
        console.print(f"[dim]{'at once':>10}[/]  {escape(clean(admission.describe()))}")
    for function in run.sittings[-1].blocked_by[:3] if run.sittings else ():
        if _OWN.match(function):  # not Sandlot's own functions, which a busy machine delays too
            console.print(
                f"[yellow]`{escape(clean(function))}` blocked all other rollouts: make it a plain `def`, or await in it[/]"
            )


def clean(text: str) -> str:
    """Text that is safe in a terminal, without the private package name of an author's functions: `tools.buy`."""
    return _OWN.sub("", printable(text))


def end_text(end: str) -> str:
    """Why the agent stopped, as a person reads it; in JSON an end keeps its own word."""
    return "ended by a failure or a stop" if end == End.CUT else end


def _verdict(run: Run, summary: Summary) -> str:
    if summary.verdict == "complete":
        return "[green]complete[/]"
    stopped = (
        next((sitting.stopped for sitting in reversed(run.sittings) if sitting.stopped), None)
        or "not all rollouts are done; the same command continues it"
    )
    colour = "red" if summary.verdict == "stopped" else "yellow"
    return f"[{colour}]{summary.verdict}[/]: {escape(clean(stopped))}"


def _lines(run: Run, summary: Summary) -> list[tuple[str, str]]:
    tasks = f"{summary.tasks} task{'s' if summary.tasks != 1 else ''}"
    so_far = f" of {run.planned} planned," if run.planned is not None and summary.rollouts < run.planned else " of"
    lines = [("rollouts", f"{summary.rollouts}{so_far} {tasks}, {summary.scored} scored{_dropped(summary)}")]
    if summary.scored:
        lines += [
            ("score", f"[bold]{summary.score.value or 0:.3f}[/]  {_range(summary.score)} at 95%   {_bars(summary.histogram)}"),
            ("full marks", f"[bold]{summary.pass_rate.value or 0:.1%}[/]  {_percent(summary.pass_rate)}"),
        ]
        lines += [(seat, f"{own.value or 0:.3f}  {_range(own)}   its own score") for seat, own in summary.seats.items()]
        lines += [("pass@k", _pass_at(summary))] if len(summary.pass_at) > 1 else []
        lines += [
            (name, f"{part.score.value or 0:.3f}  {_range(part.score)}   {part.scored} scored" if part.scored else "none scored")
            for name, part in summary.splits.items()
            if len(summary.splits) > 1
        ]
    if run.manifest.other_setting:
        lines.append(
            ("setting", f"[yellow]not the one the model was trained in: {escape('; '.join(run.manifest.other_setting))}[/]")
        )
    lines += [("limits", f"[yellow]{escape(clean(limit.describe()))}[/]") for limit in _limits(run)]
    if run.manifest.reported_checks:
        names = ", ".join(f"`{name}`" for name in run.manifest.reported_checks)
        said = "what it reads was reported by the agent's program, and proves nothing"
        lines.append(("judge", f"[yellow]{escape(clean(names))}: {said}[/]"))
    lines.append(("ends", ", ".join(f"{end_text(name)} {count}" for name, count in summary.ends.items()) or "none"))
    lines.append(("turns", f"{summary.turns:,}{_calls(summary)}"))
    if summary.prompt_tokens or summary.completion_tokens:
        cost = f", {summary.usd:.4f} USD" if summary.usd else ""
        lines.append(("tokens", f"{summary.prompt_tokens:,} in, {summary.completion_tokens:,} out{cost}"))
    lines.append(("time", f"{summary.wall_s:.1f} s, {summary.cpu_s:.1f} s of CPU{_phases(summary)}"))
    if summary.reward_latency is not None and summary.reward_latency.p99 >= 1.0:
        late = summary.reward_latency
        lines.append(("rewards", f"{late.p50:.2f} s after the agent's end, 99 % within {late.p99:.2f} s"))
    if summary.slowest and summary.slowest[0].seconds >= 1.0:
        slow = summary.slowest[0]
        lines.append(("slowest", f"{slow.task}/{slow.rollout}: {slow.seconds:.1f} s, mostly {slow.phase}"))
    return lines


def _limits(run: Run) -> tuple[OverriddenLimit, ...]:
    return run.manifest.overridden_limits[:_LIMITS]


def _calls(summary: Summary) -> str:
    errors = f", {summary.tool_errors:,} answered with an error" if summary.tool_errors else ""
    return f" with {summary.calls:,} tool call{'s' if summary.calls != 1 else ''}{errors}" if summary.calls else ""


def _dropped(summary: Summary) -> str:
    failed = ", ".join(f"{count} {side}" for side, count in summary.failed.items() if count)
    pieces = ([f"failed: {failed}"] if failed else []) + ([f"cancelled: {summary.cancelled}"] if summary.cancelled else [])
    return f"; [red]{'; '.join(pieces)}[/] ({summary.dropped:.0%} unscored)" if pieces else ""


def _range(interval: Interval) -> str:
    return f"[dim]{interval.low:.3f} to {interval.high:.3f}[/]"


def _percent(interval: Interval) -> str:
    return f"[dim]{interval.low:.1%} to {interval.high:.1%}[/]"


def _bars(histogram: tuple[int, ...]) -> str:
    most = max(histogram) or 1
    return "0 " + "".join(_BLOCKS[-(-count * 8 // most)] for count in histogram) + " 1"


def _pass_at(summary: Summary) -> str:
    return "   ".join(f"{each.k}: {each.share.value or 0:.1%}" for each in summary.pass_at[1:5])


def _phases(summary: Summary) -> str:
    largest = [(name, phase.share) for name, phase in summary.phases.items() if phase.share >= 0.01][:4]
    return "".join(f"{', ' if place else '; '}{name} {share:.0%}" for place, (name, share) in enumerate(largest))


@dataclass(slots=True)
class Notable:
    """The rollouts worth naming, found in one pass over the rows of a run of any size."""

    failed: dict[str, tuple[int, TraceRow]] = field(default_factory=dict[str, tuple[int, TraceRow]])
    """Count and first row of each message; messages that differ only in numbers are counted together."""
    imperfect: int = 0
    """Rollouts that lost points or met a tool error."""
    lowest: TraceRow | None = None
    """The lowest score; among equals the one with the most tool errors, then the first by task and number."""

    @classmethod
    def of(cls, rows: Iterable[TraceRow]) -> Self:
        """Look at each once."""
        found = cls()
        best = (math.inf, 0, "", 0)
        for row in rows:
            if row.outcome == "failed":
                alike = _DIGITS.sub("", row.message or "")
                count, first = found.failed.get(alike, (0, row))
                found.failed[alike] = (count + 1, first)
            if row.score is None:
                continue
            found.imperfect += row.passed is False or row.tool_errors > 0
            rank = (row.score, -row.tool_errors, row.task, row.rollout)  # not by the order in which they happened to end
            if rank < best:
                best, found.lowest = rank, row
        return found


def print_notable(run: Run, summary: Summary) -> None:
    """Failures with an example of each, and the command that shows the lowest rollout."""
    console = Console(highlight=False, soft_wrap=True)
    notable = Notable.of(run.rows)
    if summary.kinds:
        console.print("[red]failures[/]: " + ", ".join(f"{escape(kind)} {count}" for kind, count in summary.kinds.items()))
    for count, row in sorted(notable.failed.values(), key=lambda each: -each[0])[:3]:
        console.print(f"{count:>5} x  {escape(_short(clean(row.message or '')))}")
        console.print(f"         [dim]sandlot show {run.path}/{row.task}/{row.rollout}[/]")
    if run.manifest.config.model.spec == "scripted:golden" and notable.imperfect:
        # A mistake in the solution, a tool or a check, which would look like a weak model.
        console.print(f"[yellow]the golden solution lost points or met a tool error in {notable.imperfect} rollouts[/]")
    if notable.lowest is not None:
        console.print(f"look closer: sandlot show {run.path}/{notable.lowest.task}/{notable.lowest.rollout}")


def _short(text: str, most: int = 400) -> str:
    """The beginning and the end: the fix is at the end of an error message."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"
