"""How learning goes: one line a step and one a measurement, appended to `progress.jsonl` and read back when a run goes on."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from sandlot.run.results import Run
from sandlot.stats import Interval
from sandlot.trace import Scored, Trace
from sandlot.train.rows import Group
from sandlot.train.trainer import Update


class Learned(msgspec.Struct, frozen=True, kw_only=True, tag="step", tag_field="is"):
    """One step."""

    version: int
    """Of the weights after it."""
    reward: float
    """Mean over all scored rollouts it collected."""
    passed: float
    """The share of them that met every check: an outcome beside the reward."""
    rollouts: int
    failed: int
    """Rollouts without a reward, left out of their groups."""
    groups: int
    informative: int
    """Groups whose members differed: only those teach."""
    loss: float
    norm: float
    tokens: int
    shared: float
    """Tokens that rows would have been, for one that was computed."""
    kl: float
    """Between the policy that sampled and the one at the step's start."""
    entropy: float | None
    staleness: int
    """Versions the oldest trained token was behind."""
    seconds: float
    update_s: float
    phases: dict[str, float]
    """Seconds of rollouts by phase, all of them added up."""


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation", tag_field="is"):
    """Held-out tasks at one version."""

    version: int
    mean: float
    low: float
    high: float
    passed: float
    passed_low: float
    passed_high: float
    rollouts: int
    failed: int
    run: str
    """The run's folder, below the training run's."""


class Progress:
    """All of it so far."""

    def __init__(self, path: Path, lines: Sequence[Learned | Measured] = ()) -> None:
        self._file = path / "progress.jsonl"
        self.steps = [line for line in lines if isinstance(line, Learned)]
        self.evaluations = [line for line in lines if isinstance(line, Measured)]
        self.stopped: str | None = None
        """Why it ended before its last step: a sentence."""

    @classmethod
    def resumed(cls, path: Path, version: int) -> "Progress":
        """What was written up to a version; what a crash cut off after it will be learned again."""
        file = path / "progress.jsonl"
        lines = _read(file) if file.is_file() else []
        kept = [line for line in lines if line.version <= version]
        if len(kept) != len(lines):
            file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))
        return cls(path, kept)

    def add(self, line: Learned | Measured) -> None:
        """Keep one line, on disk when this returns."""
        if isinstance(line, Learned):
            self.steps.append(line)
        else:
            self.evaluations.append(line)
        with self._file.open("ab") as out:
            out.write(msgspec.json.encode(line) + b"\n")
            out.flush()
            os.fsync(out.fileno())

    @property
    def best(self) -> Measured | None:
        """The measurement with the best score; the earliest of equals."""
        return max(self.evaluations, key=lambda line: (line.mean, -line.version), default=None)


def _read(file: Path) -> list[Learned | Measured]:
    lines: list[Learned | Measured] = []
    for line in file.read_bytes().splitlines():
        try:
            lines.append(msgspec.json.decode(line, type=Learned | Measured))
        except msgspec.DecodeError:
            break  # the line a crash cut off; nothing was written after it
    return lines


def learned(version: int, groups: Sequence[Group], traces: Sequence[Trace], update: Update, seconds: float) -> Learned:
    """The figures of one step."""
    rewards = np.concatenate([group.rewards for group in groups]) if groups else np.zeros(0)
    trained = [row.versions[row.trained] for group in groups for member in group.members for row in member.rows]
    oldest = min((int(versions.min()) for versions in trained if len(versions)), default=version - 1)
    scores = [trace.outcome.score.passed for trace in traces if isinstance(trace.outcome, Scored)]
    phases: dict[str, float] = {}
    for trace in traces:
        for name, spent in trace.phases.items():
            phases[name] = phases.get(name, 0.0) + spent
    return Learned(
        version=version,
        reward=float(rewards.mean()) if len(rewards) else 0.0,
        passed=sum(scores) / max(1, len(scores)),
        rollouts=len(traces),
        failed=sum(group.dropped for group in groups),
        groups=len(groups),
        informative=sum(group.informative for group in groups),
        loss=update.loss,
        norm=update.norm,
        tokens=update.tokens,
        shared=update.flat / max(1, update.computed),
        kl=update.figures["kl_behaviour"],
        entropy=update.figures.get("entropy") or None,
        staleness=version - 1 - oldest,
        seconds=seconds,
        update_s=update.seconds,
        phases=phases,
    )


def measured(version: int, run: Run, below: Path) -> Measured:
    """The figures of one measurement."""
    summary = run.summary()
    score, passed = _known(summary.score), _known(summary.pass_rate)
    return Measured(
        version=version,
        mean=score[0],
        low=score[1],
        high=score[2],
        passed=passed[0],
        passed_low=passed[1],
        passed_high=passed[2],
        rollouts=summary.rollouts,
        failed=sum(summary.failed.values()),
        run=str(run.path.relative_to(below)),
    )


def _known(interval: Interval) -> tuple[float, float, float]:
    return interval.value if interval.value is not None else float("nan"), interval.low, interval.high
