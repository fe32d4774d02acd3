"""The screen of `sandlot calibrate`: a progress line on stderr, then the label of every task and the error rates."""

import functools
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn

from sandlot.calibrate.tasks.calibrate import CalibrationConfig, calibrate_config, forecast_calibration
from sandlot.calibrate.tasks.calibration import Calibration
from sandlot.calibrate.tasks.placement import TaskLabel
from sandlot.cli.options import authors_on_stderr, print_json, print_plain_json
from sandlot.cli.views.bars import Bars
from sandlot.cli.views.placement import print_calibration, print_errors
from sandlot.cli.views.run import raise_limits, steered_line
from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.observe.events import (
    CalibrationWave,
    RolloutEnded,
    RolloutsRequeued,
    RunBegan,
    RunEvent,
    RunSteered,
    Sink,
    fan_out,
    ignore_event,
)
from sandlot.run.manifest import public_config


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """A calibration that has ended, one way or another."""

    path: Path
    calibration: Calibration
    curriculum: Path

    @property
    def machine(self) -> Any:
        """The object `--json` prints."""
        counts = {label.value: len(self.calibration.labelled(label)) for label in TaskLabel}
        whole = msgspec.to_builtins(self.calibration)
        return {**whole, "labels": counts, "histogram": self.calibration.histogram, "curriculum": str(self.curriculum)}

    @property
    def exit_code(self) -> int:
        """0 fine, 1 stopped, never scored or nothing to learn from, 3 incomplete."""
        if self.calibration.verdict == "incomplete":
            return 3
        bad = self.calibration.verdict == "stopped" or self.calibration.labelled(TaskLabel.UNSCORABLE)
        return 1 if bad or not self.calibration.curriculum.tasks else 0

    def show(self) -> None:
        """The result for a person."""
        print_calibration(self.calibration, self.path, self.curriculum)


def calibrate_watched(
    config: CalibrationConfig,
    *,
    runs: Path,
    place: Path | None,
    curriculum: Path | None,
    quiet: bool,
    more: Sink = ignore_event,
) -> CalibrationResult:
    """Calibrate, with progress on stderr unless `quiet`; `more` receives the events too."""
    raise_limits()
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with Bars(
        TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total} rollouts"),
        TextColumn("{task.fields[said]}"), TimeElapsedColumn(),
        console=console,
    ) as bars, authors_on_stderr():  # fmt: skip
        bar = _Bar(bars, console)
        sink = fan_out(bar.receive, more)
        found = run_interruptible(functools.partial(calibrate_config, config, runs=runs, place=place, sink=sink))
        if found.stopped:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # everything is stored; a second Ctrl-C must not hide how to continue
    path = bar.path
    made = path / "curriculum.json"
    if curriculum is not None:
        curriculum.write_bytes(made.read_bytes())
    return CalibrationResult(path, found, curriculum or made)


class _Bar:
    """Draws the progress of a calibration."""

    def __init__(self, bars: Bars, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._line: TaskID | None = None
        self._num_tasks = self._num_placed = self._num_failed = 0
        self.path = Path()

    def receive(self, event: RunEvent) -> None:
        """Draw an event; a sink."""
        if isinstance(event, RunBegan):
            self.path, self._num_tasks = Path(event.path), event.num_tasks
            continued = f", continuing after {event.num_done} rollouts" if event.num_done else ""
            self._console.print(f"placing {event.num_tasks} tasks -> [bold]{event.path}[/]{continued}")
            total = max(event.num_done, event.num_planned)
            self._line = self._bars.add_task("calibrating", total=total, completed=event.num_done, said="")
        elif self._line is None:
            return
        elif isinstance(event, RolloutEnded):
            self._num_failed += event.row.score is None
            self._bars.update(self._line, advance=1, said=self._said())
        elif isinstance(event, CalibrationWave):
            self._num_placed = event.num_placed
            self._bars.update(self._line, total=event.num_taken + event.num_more, said=self._said())
        elif isinstance(event, RolloutsRequeued):
            self._num_failed = max(0, self._num_failed - event.count)  # those of earlier sittings are not in it
            self._bars.update(self._line, advance=-event.count, said=self._said())
        elif isinstance(event, RunSteered):
            self._console.print(steered_line(event))
            self._bars.update(self._line, description="paused" if event.paused else "calibrating")

    def _said(self) -> str:
        failed = f"  [red]{self._num_failed} failed[/]" if self._num_failed else ""
        return f"{self._num_placed}/{self._num_tasks} tasks placed{failed}"


def show_forecast(config: CalibrationConfig, *, runs: Path, json: bool) -> None:
    """Print how many rollouts to expect, their cost, and the error rates of the rule; run nothing."""
    with authors_on_stderr():
        found = forecast_calibration(config, runs)
    shown = msgspec.structs.replace(config, run=public_config(config.opening))
    if json:
        print_json({"config": shown, **msgspec.structs.asdict(found)})
        return
    print_plain_json(shown)
    console = Console(highlight=False, soft_wrap=True)
    fewest, likely, most = found.rollouts.values()
    console.print(f"{found.tasks} tasks; [bold]{likely:,}[/] rollouts are likely, at least {fewest:,}, at most {most:,}")
    console.print(found.forecast.describe())
    print_errors(console, config.rule, found.errors, "before anything is known of the tasks")
