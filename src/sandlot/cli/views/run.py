"""Running with a person watching: a line of progress on stderr while it runs, a summary when it is done."""

import functools
import gc
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn

from sandlot.analysis.health.health import quick_health
from sandlot.cli.options import authors_on_stderr, print_json
from sandlot.cli.views.bars import Bars
from sandlot.cli.views.health import health_line
from sandlot.cli.views.summary import print_summary
from sandlot.core.text import printable_json
from sandlot.core.trace import TraceRow
from sandlot.observe.progress import Reading
from sandlot.observe.progress import RolloutProgress as Tally
from sandlot.run.config import RunConfig, RunPlan
from sandlot.run.forecast import forecast_run
from sandlot.run.manifest import public_config
from sandlot.run.results import Run
from sandlot.run.run import Watcher, run_config
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


def run_watched(config: RunConfig, *, runs: Path, place: Path | None, quiet: bool) -> RunResult:
    """Run it, showing progress on stderr unless nobody looks."""
    raise_limits()
    console = Console(stderr=True, quiet=quiet)
    with Bars(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[said]}"), TimeRemainingColumn(compact=True),
        console=console,
    ) as bars, authors_on_stderr():  # fmt: skip
        watcher = _Bar(bars, console)
        run = anyio.run(functools.partial(run_config, config, runs=runs, place=place, watch=watcher))
        if run.sittings and run.sittings[-1].stopped:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is kept; a second Ctrl-C must not eat the word on how to continue
    return RunResult(run, run.summary())


class _Bar(Watcher):
    """Draws one line."""

    def __init__(self, bars: Bars, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._tally: Tally | None = None
        self._line: TaskID | None = None

    def begin(self, path: Path, plan: RunPlan, num_done: int) -> None:
        """Say where it goes, and whether it continues something."""
        continued = f", continuing after {num_done}" if num_done else ""
        self._console.print(
            f"{_counted(plan.num_rollouts, 'rollout')} of {_counted(len(plan.tasks), 'task')} -> [bold]{path}[/]{continued}",
            highlight=False,
        )
        self._tally = Tally(plan.num_rollouts)
        self._line = self._bars.add_task("running", total=plan.num_rollouts, completed=num_done, said="")

    def note(self, row: TraceRow) -> None:
        """One more."""
        assert self._tally is not None
        assert self._line is not None
        self._tally.add(row)
        self._bars.update(self._line, advance=1, said=_said(self._tally.read()))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _said(reading: Reading) -> str:
    """The numbers worth watching."""
    pieces = [f"{reading.per_second:.1f}/s"] if reading.per_second else []
    pieces += [f"score {reading.mean:.3f}"] if reading.mean is not None else []
    failed = sum(reading.failed.values())
    return "  ".join(pieces + ([f"[red]{failed} failed[/]"] if failed else []))


def show_forecast(config: RunConfig, *, runs: Path, json: bool) -> None:
    """Print what would be run and what it would cost; run nothing."""
    with authors_on_stderr():
        plan, expected = forecast_run(config, runs)
    if json:
        print_json({"config": public_config(config), "tasks": len(plan.tasks), "forecast": expected})
        return
    sys.stdout.buffer.write(printable_json(msgspec.json.format(msgspec.json.encode(public_config(config)), indent=2)) + b"\n")
    sys.stdout.flush()
    print(expected.describe())


def raise_limits() -> None:
    """What a process that only runs rollouts may ask of the system.

    Thousands of connections need thousands of descriptors. And neither thousands of waiting rollouts nor what was imported is
    garbage: looking through them in Python's own rhythm takes a quarter of the CPU and stops the loop for half a second.
    """
    import resource  # noqa: PLC0415 - only runs need it

    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
