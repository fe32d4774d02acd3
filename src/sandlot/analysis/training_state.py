"""A training as it is now, live or ended: its steps and evaluations, what it does, and what happened to it.

Its page and `sandlot watch` show this. It is read from the run directory, without torch and without the environment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from sandlot.analysis.alarm import Alarm
from sandlot.analysis.training_log import Line, count_idle, idle_reason, read_lines
from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.observe.training_records import Collapse, Learned, Measured, WentBack
from sandlot.run.follow import RunState
from sandlot.run.learners import StoredModels
from sandlot.run.results import RECIPE, TRAINING_SUMMARY, Run

_NAMES = {"warn": "warned", "stop": "stopped", "roll_back": "rolled back", "shrink": "smaller learning rate"}


class StoredRecipe(StoredModels, kw_only=True):
    """The part of a training's recipe that is shown."""

    name: str
    steps: int
    tasks: int
    group: int
    staleness: int = 0
    seed: int = 0
    warn_idle: int = 3
    algorithm: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm, a verdict of the guard, a rollback, or an early end."""

    kind: str
    version: int
    said: str
    did: str
    """What the training did about it."""


class _Ended(msgspec.Struct):
    """The part of a training's summary that is read here."""

    stopped: str | None = None


@dataclass(frozen=True)
class StoredTraining:
    """A training as it is now."""

    run: Run
    recipe: StoredRecipe
    lines: list[Line]

    @cached_property
    def steps(self) -> list[Learned]:
        """Its steps so far."""
        return [line for line in self.lines if isinstance(line, Learned)]

    @cached_property
    def evaluations(self) -> list[Measured]:
        """Its held-out evaluations so far."""
        return [line for line in self.lines if isinstance(line, Measured)]

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self.steps[-1].version if self.steps else 0

    def measured(self, line: Measured) -> Run | None:
        """The run of an evaluation, if it can still be read."""
        place = self.run.path / "evaluations" / Path(line.run).name
        return Run(place) if (place / "manifest.json").is_file() else None

    def doing(self, state: RunState) -> str:
        """What it does now, if it is live."""
        evaluation, flying = state.now.evaluation, f"{state.now.num_in_flight:,} in flight"
        if evaluation is not None:
            done = f"{evaluation.done:,} of {evaluation.planned:,} rollouts"
            return f"evaluates version {evaluation.version}: {done}, {flying}"
        taken = max(0, state.rollouts - sum(step.rollouts for step in self.steps))
        least = self.recipe.tasks * self.recipe.group
        return f"step {self.version + 1}: {taken:,} of at least {least:,} rollouts, {flying}"

    def incidents(self, *, live: bool) -> Iterator[Incident]:
        """Alarms, verdicts of the guard, rollbacks and the end, in order."""
        for line in self.lines:
            match line:
                case Alarm():
                    yield Incident(kind="reward hacking", version=line.version, said=line.sentence, did="warned")
                case Collapse():
                    who = f"`{printable(line.policy, 100)}` is " if line.policy else ""
                    said = f"{who}about to collapse: {printable(line.why, 1000)}"
                    rate = f", {line.rate:g} of the learning rate from here on" if line.rate < 1 else ""
                    yield Incident(kind="collapse", version=line.version, said=said, did=_NAMES.get(line.action, "") + rate)
                case WentBack():
                    whose = f" of `{printable(line.policy, 100)}`" if line.policy else ""
                    said = f"the held-out score or the guard gave up version {line.version}{whose}"
                    did = f"continued from version {line.best}"
                    yield Incident(kind="rollback", version=line.version, said=said, did=did)
                case _:
                    pass
        idle = count_idle(self.steps)
        if idle and idle >= self.recipe.warn_idle:
            yield Incident(kind="idle", version=self.version, said=idle_reason(self.steps[-idle:]), did="warned")
        ended = _ended(self.run.path)
        if ended and not live:
            yield Incident(kind="end", version=self.version, said=printable(ended, 1000), did="stopped")


def open_training(path: Path) -> StoredTraining:
    """Read the training in a run directory; `ConfigError` if it is none."""
    run = Run(path)
    if not run.is_training:
        raise ConfigError(f"`{path.name}` is not a training")
    try:
        recipe = msgspec.json.decode((path / RECIPE).read_bytes(), type=StoredRecipe)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path / RECIPE}` cannot be read: {error}") from error
    return StoredTraining(run, recipe, read_lines(path))


def _ended(path: Path) -> str | None:
    """Why a training ended early, if it did."""
    try:
        return msgspec.json.decode((path / TRAINING_SUMMARY).read_bytes(), type=_Ended).stopped
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
