"""The screen of `sandlot run`: a progress line on stderr, then the summary."""

import functools
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn

from sandlot.analysis.health.health import quick_health
from sandlot.cli.options import authors_on_stderr, print_json, print_plain_json
from sandlot.cli.views.bars import Bars
from sandlot.cli.views.health import health_line
from sandlot.cli.views.summary import print_summary
from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.observe.events import (
    AdmissionChanged,
    RolloutEnded,
    RolloutsRequeued,
    RunBegan,
    RunEvent,
    RunSteered,
    Sink,
    TurnTaken,
    fan_out,
    ignore_event,
)
from sandlot.observe.progress import RolloutProgress
from sandlot.run.config import RunConfig
from sandlot.run.forecast import forecast_run
from sandlot.run.manifest import public_config
from sandlot.run.results import Run
from sandlot.run.run import run_config, run_together
from sandlot.run.summary import Summary


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that has ended, one way or another."""

    run: Run
    summary: Summary

    @property
    def machine(self) -> Any:
        """The object `--json` prints."""
        return self.summary.machine_readable()

    @property
    def exit_code(self) -> int:
        """0 fine, 1 stopped or something failed, 3 incomplete."""
        if self.summary.verdict == "incomplete":
            return 3
        return 1 if self.summary.verdict == "stopped" or any(self.summary.failed.values()) else 0

    def show(self) -> None:
        """The summary for a person."""
        print_summary(self.run, self.summary)
        line = health_line(self.run.path, quick_health(self.run))
        if line is not None:
            Console(highlight=False, soft_wrap=True).print(line)


@dataclass(frozen=True, slots=True)
class RunResults:
    """Several runs that have ended."""

    each: list[RunResult]

    @property
    def machine(self) -> Any:
        """The list `--json` prints."""
        return [result.machine for result in self.each]

    @property
    def exit_code(self) -> int:
        """That of the run that went worst."""
        return max(result.exit_code for result in self.each)

    def show(self) -> None:
        """The summaries for a person."""
        for number, result in enumerate(self.each):
            if number:
                print()
            result.show()


def run_all_watched(
    configs: Sequence[RunConfig],
    weights: Sequence[float],
    *,
    runs: Path,
    quiet: bool,
    more: Sink = ignore_event,
    on: str = "local",
) -> RunResults:
    """Run several at once, each with a line of progress."""
    with _watched(quiet=quiet) as (bars, console):
        sinks = [fan_out(_Bar(bars, console, config.env).receive, more) for config in configs]
        found = run_interruptible(functools.partial(run_together, configs, weights=weights, runs=runs, sinks=sinks, on=on))
        _ignore_more_signals(found)
    return RunResults([RunResult(run, run.summary()) for run in found])


def run_watched(
    config: RunConfig,
    *,
    runs: Path,
    place: Path | None,
    quiet: bool,
    more: Sink = ignore_event,
    approve: bool = False,
    on: str = "local",
) -> RunResult:
    """Run it, with progress on stderr unless `quiet`; `more` receives the events too."""
    with _watched(quiet=quiet) as (bars, console):
        sink = fan_out(_Bar(bars, console).receive, more)
        work = functools.partial(run_config, config, runs=runs, place=place, sink=sink, approve=approve, on=on)
        run = run_interruptible(work)
        _ignore_more_signals([run])
    return RunResult(run, run.summary())


@contextmanager
def _watched(*, quiet: bool) -> Generator[tuple[Bars, Console]]:
    """Room on the screen for lines of progress."""
    raise_limits()
    console = Console(stderr=True, quiet=quiet)
    with Bars(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[said]}"), TimeRemainingColumn(compact=True),
        console=console,
    ) as bars, authors_on_stderr():  # fmt: skip
        yield bars, console


def _ignore_more_signals(runs: Sequence[Run]) -> None:
    """Everything is stored; a second Ctrl-C must not hide how to continue."""
    if any(run.sittings and run.sittings[-1].stopped for run in runs):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Bar:
    """Draws the progress of a run."""

    def __init__(self, bars: Bars, console: Console, name: str = "running") -> None:
        self._name = Path(name).name
        self._bars = bars
        self._console = console
        self._progress = RolloutProgress()
        self._line: TaskID | None = None

    def receive(self, event: RunEvent) -> None:
        """Say where the run goes, and whether it continues something; then count."""
        if isinstance(event, RunBegan):
            planned, done = event.num_planned, event.num_done
            self._console.print(
                f"{_counted(planned, 'rollout')} of {_counted(event.num_tasks, 'task')} -> [bold]{event.path}[/]"
                + (f", continuing after {done}" if done else ""),
                highlight=False,
            )
            self._progress = RolloutProgress()
            self._line = self._bars.add_task(self._name, total=planned, completed=done, said="")
        elif isinstance(event, TurnTaken):
            self._progress.add_turn(event)
        elif isinstance(event, RolloutEnded) and self._line is not None:
            self._progress.add(event.row)
            self._bars.update(self._line, advance=1, said=_said(self._progress))
        elif isinstance(event, RolloutsRequeued) and self._line is not None:
            self._progress.num_failed = max(0, self._progress.num_failed - event.count)  # those of earlier sittings are not in it
            self._bars.update(self._line, advance=-event.count, said=_said(self._progress))
        elif isinstance(event, AdmissionChanged) and self._line is not None:
            self._progress.set_limit(event)
            self._bars.update(self._line, said=_said(self._progress))
        elif isinstance(event, RunSteered):
            self._console.print(steered_line(event), highlight=False)
            if self._line is not None:
                self._bars.update(self._line, description="paused" if event.paused else self._name)


def steered_line(event: RunSteered) -> str:
    """What a person changed in a run, in one line."""
    match event.order:
        case "pause":
            return "[yellow]paused: rollouts in flight finish, and none starts until `sandlot resume`[/]"
        case "resume":
            return "resumed"
        case "set":
            return f"{event.at_once:,} rollouts at once from now on"
        case "approve" | "change" | "refuse":
            return f"a held turn was answered: {event.order}"
        case "requeue":
            return "failed rollouts will be taken again when the others are done"
        case _:
            return "[yellow]stopping[/]"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _said(progress: RolloutProgress) -> str:
    """Rate, mean score and failures so far."""
    pieces = [f"{progress.per_second:.1f}/s"] if progress.per_second else []
    pieces += [f"score {progress.mean:.3f}"] if progress.mean is not None else []
    pieces += [piece for piece in (progress.replicas, progress.limit) if piece]
    return "  ".join(pieces + ([f"[red]{progress.num_failed} failed[/]"] if progress.num_failed else []))


def show_forecast(config: RunConfig, *, runs: Path, json: bool) -> None:
    """Print what would be run and what it would cost; run nothing."""
    with authors_on_stderr():
        plan, expected = forecast_run(config, runs)
    if json:
        print_json({"config": public_config(config), "tasks": len(plan.tasks), "forecast": expected})
        return
    print_plain_json(public_config(config))
    print(expected.describe())


def raise_limits() -> None:
    """Raise the limit of open files: thousands of connections need thousands of descriptors."""
    import resource  # noqa: PLC0415 - only runs need it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
