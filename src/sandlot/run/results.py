"""A stored run: its traces, rows and summary. Reading it does not need the environment."""

from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Trace, Usage
from sandlot.core.trace_row import TraceRow
from sandlot.observe.event_log import EventReader
from sandlot.observe.live import LiveRun
from sandlot.run.breaker import FailureExample
from sandlot.run.compare import ComparedRow, RunComparison, Sameness, compare
from sandlot.run.manifest import Manifest
from sandlot.run.notebook import html_of
from sandlot.run.notebook_page import RunHtml, page_of
from sandlot.run.summary import Summary, seat_scores, summarise
from sandlot.store.aside import rows_set_aside
from sandlot.store.lines import append_line
from sandlot.store.reader import RunReader


class AdmissionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How many rollouts could be in flight during a sitting, and why not more."""

    lowest: int
    highest: int
    last: int
    """The limit at the end."""
    seconds: dict[str, float] = {}
    """How long a rollout waited to start, by why the limit was not larger (`Waits`)."""

    def describe(self) -> str:
        """In one line."""
        waited = sorted(self.seconds.items(), key=lambda item: -item[1])
        why = ", ".join(f"{reason} {seconds:.0f} s" for reason, seconds in waited if seconds >= 1)
        return f"{self.lowest} to {self.highest} in flight, {self.last} at the end" + (f"; waited for: {why}" if why else "")


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """One sitting of a run, from start to end or interruption; a run that was continued has several."""

    wall_s: float
    cpu_s: float
    stopped: str | None = None
    tripped: bool = False
    num_cancelled: int = 0
    lag_p99_s: float = 0.0
    blocked_by: tuple[str, ...] = ()
    examples: tuple[FailureExample, ...] = ()
    """Some of the failures, if the run was stopped as bad."""
    on: str = "local"
    """Where rollouts were taken."""
    admission: AdmissionRecord | None = None
    """How many rollouts could be in flight, if that was found out (`--adapt`)."""


_SITTINGS = "sittings.jsonl"
_EVENT_BYTES = 16 * 2**20
"""The end of the event log that is read for the times of tools."""
RECIPE, TRAINING_SUMMARY = "recipe.json", "summary.json"
"""Files of a training, beside its rollouts."""
ENVIRONMENTS = "environments"
"""Folder in a training's directory: the run directories of its environments after the first."""


class _TrainingHead(msgspec.Struct):
    """The part of a training's summary that is read here."""

    verdict: str


def note_sitting(path: Path, sitting: Sitting) -> None:
    """Store that a sitting of this run is over."""
    append_line(path / _SITTINGS, msgspec.json.encode(sitting))


class Run:
    """A stored run, finished or still going: `for trace in run`, `run.summary()`, `run.table()`.

    Reading needs neither the environment nor the model. `rows`, `table()` and `summary()` read stored columns and stay quick for
    runs of a million rollouts; iterating over the run reads every trace.

    - `path`: the run directory.

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:mixed:0.5", rollouts=64)
    same = sandlot.Run(run.path)
    assert len(same) == 64
    print(same.summary().score.value, same.verdict)
    print(same.trace("arithmetic-0", 0).answer)
    lost = [row.task for row in same.rows if row.score == 0.0]
    ```
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / "manifest.json").is_file():
            raise ConfigError(f"`{path}` is not a run: it has no manifest.json")

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_of(self.path.name, self.summary(), self.rows)

    def show(self) -> RunHtml:
        """The main parts of the run's page, for a notebook: write `run.show()` as the last line of a cell.

        Scores, pass@k, time by phase, slowest tools, failures by side with examples, and a square for each rollout. It is HTML
        without scripts; what agents and environments wrote is escaped.
        """
        counted = LiveRun()
        for event in EventReader(self.path, last_bytes=_EVENT_BYTES):
            counted.receive(event)
        return page_of(self.path.name, self.summary(), self.rows, counted.slowest_tools())

    def __iter__(self) -> Iterator[Trace]:
        return self.reader.traces()

    def __len__(self) -> int:
        return len(self.reader)

    @cached_property
    def manifest(self) -> Manifest:
        """The resolved configuration, fingerprints, machine and date, as stored when the run began."""
        try:
            return msgspec.json.decode((self.path / "manifest.json").read_bytes(), type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"`{self.path}/manifest.json`: {error}") from error

    @cached_property
    def reader(self) -> RunReader:
        """The store, opened for reading as it is now."""
        return RunReader(self.path)

    @property
    def rows(self) -> Iterator[TraceRow]:
        """Every rollout as a row of numbers, without opening its trace."""
        return self.reader.rows()

    def table(self) -> Any:
        """The rows as a pyarrow table: `.to_pandas()`, or hand it to polars or DuckDB."""
        return self.reader.table()

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame, one line for each rollout."""
        if find_spec("pandas") is None:
            raise ConfigError("a data frame needs pandas, which is not installed; `pip install pandas`, or use `run.table()`")
        return self.table().to_pandas()

    def trace(self, task: str, rollout: int = 0) -> Trace:
        """The trace of one rollout."""
        return self.reader.trace(task, rollout)

    def events(self) -> EventReader:
        """What happened while it ran, as typed events. Iterating again yields what was written since, for a run that goes on."""
        return EventReader(self.path)

    @property
    def sittings(self) -> list[Sitting]:
        """One entry for every time the run was started or continued."""
        path = self.path / _SITTINGS
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        try:
            return [
                msgspec.json.decode(line, type=Sitting) for line in lines if line.endswith(b"\n")
            ]  # an incomplete last line does not count
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"`{path}` is damaged: {error}; move it away to see the run without its times") from error

    @property
    def verdict(self) -> str:
        """`complete`; `stopped` if too many failures ended its last sitting; `incomplete` if rollouts are missing."""
        if self.training:
            return self._training_verdict
        sittings = self.sittings
        if sittings and sittings[-1].tripped:
            return "stopped"
        return "complete" if len(self) >= self.manifest.num_rollouts else "incomplete"

    @property
    def is_training(self) -> bool:
        """True if these are the rollouts of a training."""
        return (self.path / RECIPE).is_file()

    @property
    def training(self) -> Path | None:
        """The directory of the training that these rollouts belong to: this one, or above it for its further environments."""
        if self.is_training:
            return self.path
        above = self.path.resolve().parent
        return above.parent if above.name == ENVIRONMENTS and (above.parent / RECIPE).is_file() else None

    @property
    def environments(self) -> "dict[str, Run]":
        """The runs of all environments of a training, by name, in order; of any other run itself."""
        names = [self.manifest.environment]
        if self.is_training:
            names += sorted(path.parent.name for path in (self.path / ENVIRONMENTS).glob("*/manifest.json"))
        return {name: self if name == names[0] else Run(self.path / ENVIRONMENTS / name) for name in names}

    @property
    def planned(self) -> int | None:
        """Planned number of rollouts; None for a training, which takes as many as its steps need."""
        return None if self.training else self.manifest.num_rollouts

    @property
    def _training_verdict(self) -> str:
        assert self.training is not None
        try:
            return msgspec.json.decode((self.training / TRAINING_SUMMARY).read_bytes(), type=_TrainingHead).verdict
        except FileNotFoundError:
            return "incomplete"
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"`{self.path / TRAINING_SUMMARY}` is damaged: {error}; repeat `sandlot train` to write it"
            ) from error

    @property
    def finished(self) -> bool:
        """True if nothing is missing and it was not stopped: repeating the command starts a new run."""
        return self.verdict == "complete"

    def compare(self, other: "Run", *, despite_setting: bool = False) -> RunComparison:
        """Compare with a second run, task by task: score differences with intervals.

        Refused if the setting differs (other tools, limits or harness), unless `despite_setting`. Of a training the last held-out
        evaluation is compared, never the rollouts it learned from.
        """
        first, second = self.measured(), other.measured()
        settings = Sameness(first=first.manifest.fingerprints.setting, second=second.manifest.fingerprints.setting)
        if settings.first != settings.second and not despite_setting:
            raise ConfigError(f"{settings.note}; compare anyway with `--despite-setting`")
        compared = compare(compared_rows(first), compared_rows(second), settings=settings)
        places = {str(run.path) for run, asked in ((first, self), (second, other)) if run is not asked}
        if not places:
            return compared
        evaluations = f"compared by held-out evaluations: {', '.join(sorted(places))}"
        return msgspec.structs.replace(compared, evaluations=evaluations)

    def measured(self) -> "Run":
        """The run that measures the model: itself, or the last held-out evaluation of a training."""
        if self.training is None:
            return self
        found = [path for path in (self.path / "evaluations").glob("*") if path.name.isdecimal()]
        complete = [run for run in map(Run, sorted(found)) if run.finished]
        if not complete:
            raise ConfigError(
                f"`{self.path}` is a training without a finished held-out evaluation, and the rollouts it learned from do not "
                "measure it: evaluate its model with `sandlot run ... --split heldout`, and compare those runs"
            )
        return complete[-1]

    def spent(self) -> Usage:
        """Tokens and cost of the stored rollouts, failed attempts and rollouts set aside included; not of interrupted ones."""
        usages = (
            Usage(prompt_tokens=row.prompt_tokens, completion_tokens=row.completion_tokens, usd=row.usd)
            for row in chain(self.rows, rows_set_aside(self.path))
        )
        return sum(usages, start=Usage())

    def summary(self) -> Summary:
        """Scores with intervals, pass@k, failures, ends, tokens and times."""
        sittings = self.sittings
        num_missing = max(0, (self.planned or 0) - len(self))
        whole = summarise(
            self.reader.tables(),
            run=str(self.path),
            verdict=self.verdict,
            cancelled=min(sittings[-1].num_cancelled, num_missing) if sittings else 0,
            cpu_s=sum(sitting.cpu_s for sitting in sittings),
            wall_s=sum(sitting.wall_s for sitting in sittings),
        )
        seats = self.manifest.seats
        return msgspec.structs.replace(whole, seats=seat_scores(self, seats)) if seats else whole


def compared_rows(run: Run) -> Iterator[ComparedRow]:
    """The columns that a comparison reads."""
    table = run.reader.table(list(ComparedRow.__struct_fields__))
    return map(ComparedRow, *(column.to_pylist() for column in table.columns))
