"""The summary of a run as a person likes to read it: what came out, how sure that is, what went wrong, where the time went."""

from itertools import islice

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.env.rendering import printable
from sandlot.run.results import Run
from sandlot.run.summary import Summary
from sandlot.stats import Interval

BLOCKS = " ▁▂▃▄▅▆▇█"


def print_summary(run: Run, summary: Summary) -> None:
    """To stdout, in one screen."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{run.manifest.environment}[/] with [bold]{escape(run.manifest.config.model.spec)}[/]: {_verdict(run, summary)}"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    for name, value in _lines(summary):
        table.add_row(name, value)
    console.print(table)
    _print_failures(console, run, summary)
    for sitting in run.sittings[-1:]:
        for blocked in sitting.blocked_by[:3]:
            console.print(
                f"[yellow]the event loop was blocked by {escape(blocked)}; make it sync or move the work off the loop[/]"
            )
    console.print(f"[dim]{run.path}[/]  look closer: sandlot show {run.path}/TASK/ROLLOUT")


def _verdict(run: Run, summary: Summary) -> str:
    if summary.verdict == "complete":
        return "[green]complete[/]"
    stopped = (
        next((sitting.stopped for sitting in reversed(run.sittings) if sitting.stopped), None)
        or "not everything has been run yet"
    )
    colour = "red" if summary.verdict == "stopped" else "yellow"
    return f"[{colour}]{summary.verdict}[/]: {escape(printable(stopped))}"


def _lines(summary: Summary) -> list[tuple[str, str]]:
    lines = [("rollouts", f"{summary.rollouts} of {summary.tasks} tasks, {summary.scored} scored{_dropped(summary)}")]
    if summary.scored:
        lines += [
            ("score", f"[bold]{summary.score.value or 0:.3f}[/]  {_range(summary.score)}   {_bars(summary.histogram)}"),
            ("full marks", f"[bold]{summary.pass_rate.value or 0:.1%}[/]  {_range(summary.pass_rate)}{_pass_at(summary)}"),
        ]
        lines += [
            (name, f"{part.score.value or 0:.3f}  {_range(part.score)}  {part.scored} scored")
            for name, part in summary.splits.items()
            if len(summary.splits) > 1
        ]
    lines.append(("ends", ", ".join(f"{name} {count}" for name, count in summary.ends.items())))
    lines.append(("turns", f"{summary.turns}, {summary.calls} tool calls, {summary.tool_errors} answered with an error"))
    if summary.prompt_tokens or summary.completion_tokens:
        cost = f", {summary.usd:.4f} USD" if summary.usd else ""
        lines.append(("tokens", f"{summary.prompt_tokens:,} in, {summary.completion_tokens:,} out{cost}"))
    lines.append(("time", f"{summary.wall_s:.1f} s, {summary.cpu_s:.1f} s of CPU; {_phases(summary)}"))
    if summary.slowest and summary.slowest[0].seconds >= 1.0:
        slow = summary.slowest[0]
        lines.append(("slowest", f"{slow.task}/{slow.rollout}: {slow.seconds:.1f} s, mostly {slow.phase}"))
    return lines


def _dropped(summary: Summary) -> str:
    failed = ", ".join(f"{count} {side}" for side, count in summary.failed.items() if count)
    pieces = ([f"failed: {failed}"] if failed else []) + ([f"cancelled: {summary.cancelled}"] if summary.cancelled else [])
    return f"; [red]{'; '.join(pieces)}[/] ({summary.dropped:.1%} without a score)" if pieces else ""


def _range(interval: Interval) -> str:
    return f"[dim]{interval.low:.3f} to {interval.high:.3f}[/]"


def _bars(histogram: tuple[int, ...]) -> str:
    most = max(histogram) or 1
    return "0 " + "".join(BLOCKS[-(-count * 8 // most)] for count in histogram) + " 1"


def _pass_at(summary: Summary) -> str:
    return "".join(f"   pass@{each.k} {each.share.value or 0:.1%}" for each in summary.pass_at if each.k > 1)


def _phases(summary: Summary) -> str:
    return ", ".join(f"{name} {phase.share:.0%}" for name, phase in list(summary.phases.items())[:4]) or "no phases"


def _print_failures(console: Console, run: Run, summary: Summary) -> None:
    """The kinds of failure, and three of them to look at."""
    if not summary.kinds:
        return
    console.print("[red]failures[/]: " + ", ".join(f"{escape(kind)} {count}" for kind, count in summary.kinds.items()))
    guilty = next((sitting.examples for sitting in reversed(run.sittings) if sitting.examples), None)
    shown = guilty or islice((row for row in run.rows if row.outcome == "failed"), 3)
    for each in shown:
        console.print(f"  {run.path}/{each.task}/{each.rollout}: {escape(printable(each.message or ''))[:160]}")
