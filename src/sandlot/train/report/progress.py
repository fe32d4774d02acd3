"""Progress of a training: one line per step and per evaluation in `progress.jsonl`, read back when the training continues."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from sandlot.analysis.alarm import Alarm, alarm
from sandlot.analysis.training_log import FILE, Line, count_idle, idle_reason, read_lines
from sandlot.core.disk import write_file
from sandlot.core.groups import group_by_key
from sandlot.core.stats.intervals import Interval, Sums, spread_of
from sandlot.core.trace import Scored, Trace
from sandlot.observe.training_records import Collapse, EnvironmentScore, EnvironmentStep, Learned, Measured, SeatScore, WentBack
from sandlot.run.learners import learning_seats
from sandlot.run.results import AdmissionRecord, Run
from sandlot.train.algorithms.algorithms import Imitate, teaches
from sandlot.train.guard import find_collapse
from sandlot.train.own_policy import SHARED
from sandlot.train.recipe import Recipe
from sandlot.train.report.diversity import diversity_of
from sandlot.train.report.heldout import heldout_summary
from sandlot.train.reward_model import RewardModel
from sandlot.train.rows import Group, rollout_key, score_of
from sandlot.train.tally import Update


class TrainingProgress:
    """The steps, evaluations, alarms, rollbacks and verdicts of the guard so far."""

    def __init__(self, path: Path, lines: Sequence[Line] = ()) -> None:
        self.path = path
        self.steps = [line for line in lines if isinstance(line, Learned)]
        self.evaluations = [line for line in lines if isinstance(line, Measured)]
        self.alarms = [line for line in lines if isinstance(line, Alarm)]
        self.rollbacks = [line for line in lines if isinstance(line, WentBack)]
        self.collapses = [line for line in lines if isinstance(line, Collapse)]
        self.stopped: str | None = None
        """Why it ended before its last step; None if it did not."""
        self.tripped = False
        """True if it was judged bad and stopped, false if it was interrupted."""
        self.admission: AdmissionRecord | None = None
        """How many rollouts could be in flight in this sitting, if that was found out."""
        self._resumed = len(self.steps)
        """Number of steps of earlier sittings."""

    @classmethod
    def resume(cls, path: Path, version: int) -> "TrainingProgress":
        """Read what was written up to a version and cut off the rest, which a crash left: those steps are repeated."""
        file = path / FILE
        kept = [line for line in read_lines(path) if line.version <= version]
        written = b"".join(msgspec.json.encode(line) + b"\n" for line in kept)
        if file.is_file() and file.read_bytes() != written:
            write_file(file, written)
        return cls(path, kept)

    @classmethod
    def read(cls, path: Path) -> "TrainingProgress":
        """Read the progress of a run without changing it."""
        return cls(path, read_lines(path))

    def add(self, line: Line) -> None:
        """Append one line; it is on disk when this returns."""
        match line:
            case Learned():
                self.steps.append(line)
            case Measured():
                self.evaluations.append(line)
            case Alarm():
                self.alarms.append(line)
            case WentBack():
                self.rollbacks.append(line)
            case Collapse():
                self.collapses.append(line)
        with (self.path / FILE).open("ab") as out:
            out.write(msgspec.json.encode(line) + b"\n")
            out.flush()
            os.fsync(out.fileno())

    def check_alarm(self) -> Alarm | None:
        """Check the rule for reward hacking; return and store an alarm, at most once per run."""
        found = None if self.alarms else alarm(self.steps)
        if found is not None:
            self.add(found)
        return found

    def check_collapse(self, window: int, policy: str = SHARED) -> str | None:
        """Why a policy looks about to collapse, if it does; see `guard.py`."""
        judged = [line.version for line in (*self.collapses, *self.rollbacks) if line.policy == policy]
        return find_collapse([step.policies.get(policy, step) for step in self.steps], window, judged)

    def rate_of(self, policy: str = SHARED) -> float:
        """What the guard has set the learning rate of a policy to, as a share of its recipe's."""
        return next((line.rate for line in reversed(self.collapses) if line.policy == policy), 1.0)

    def went_back(self, policy: str, version: int) -> bool:
        """True if a version of a policy was given up."""
        return any((line.policy, line.version) == (policy, version) for line in self.rollbacks)

    @property
    def idle(self) -> int:
        """Number of last steps in a row, of this sitting, without a group that has a training signal."""
        return count_idle(self.steps[self._resumed :])

    def why_idle(self) -> str:
        """The reason in a sentence, with what may help."""
        return idle_reason(self.steps[-self.idle :])

    @property
    def best(self) -> Measured | None:
        """The evaluation with the best score of the model, the earliest of equals; None if every seat has a policy of its own."""
        return self.best_of(SHARED)

    def best_of(self, policy: str) -> Measured | None:
        """The evaluation with the best score of one policy; the earliest of equals."""
        known = [line for line in self.evaluations if line.has_score_of(policy)]
        return max(known, key=lambda line: (line.score_of(policy), -line.version), default=None)


Batch = Sequence[tuple[Group, list[Trace]]]
"""The groups of a step, each with its traces."""


def summarise_step(
    version: int, batch: Batch, update: Update, seconds: float, recipe: Recipe, weights: Mapping[str, float]
) -> Learned:
    """The figures of one step; `weights` are the mean sampling weights of each environment's tasks."""
    groups, traces = [group for group, _ in batch], [trace for _, members in batch for trace in members]
    counts = _counts(batch)
    trained = [row.versions[row.trained] for group in groups for member in group.members for row in member.rows]
    oldest = min((int(versions.min()) for versions in trained if len(versions)), default=version - 1)
    phases: Counter[str] = Counter()
    for trace in {(group.environment, *trace.key): trace for group, members in batch for trace in members}.values():
        phases.update(trace.phases)
    figures = _figures(batch, recipe)
    return Learned(
        version=version,
        reward=figures.reward[0],
        reward_error=figures.reward[1],
        passed=figures.passed,
        outcome=figures.outcome,
        gap_error=figures.gap_error,
        rollouts=counts.rollouts,
        failed=counts.failed,
        groups=len(groups),
        informative=sum(teaches(recipe.algorithm, group) for group in groups),
        loss=update.loss,
        norm=update.norm,
        tokens=update.tokens,
        shared=update.flat / max(1, update.computed),
        kl=None if isinstance(recipe.algorithm, Imitate) else update.figures["kl_behaviour"],
        entropy=update.figures["entropy"],
        clipped=update.figures["clipped"],
        staleness=version - 1 - oldest,
        sampled=sum(len(node.tokens) for trace in traces for node in trace.turns() if node.tokens),
        seconds=seconds,
        update_s=update.seconds,
        phases=dict(phases),
        diversity=diversity_of([members for _, members in batch]),
        agreement=update.figures.get("agreement"),
        environments={name: _environment_step(name, batch, recipe, weight) for name, weight in weights.items()},
    )


@dataclass(frozen=True, slots=True)
class _StepCounts:
    rollouts: int
    failed: int


def _counts(batch: Batch) -> _StepCounts:
    """Every rollout once, also where it is in a group for each seat that learns from it."""
    entries = [((group.environment, *trace.key), trace) for group, members in batch for trace in members]
    unscored = [key for key, trace in entries if not isinstance(trace.outcome, Scored)]
    repeated = len(unscored) - len(set(unscored))
    return _StepCounts(len({key for key, _ in entries}), sum(group.dropped for group, _ in batch) - repeated)


@dataclass(frozen=True, slots=True)
class _StepFigures:
    reward: tuple[float, float]
    """Mean and standard error."""
    passed: float
    outcome: float
    gap_error: float


def _figures(batch: Batch, recipe: Recipe) -> _StepFigures:
    """Of the rollouts that have a reward. One that is scored may have none: its time was over before its first turn, say."""
    tasks: list[str] = []
    rewarded: list[tuple[float, Trace]] = []
    for group, traces in batch:
        by_key = {rollout_key(trace): trace for trace in traces}
        tasks += [f"{group.environment}/{group.task}"] * len(group.members)
        rewarded += [(member.reward, by_key[member.rollout]) for member in group.members]
    passed = [float(_passed(trace)) for _, trace in rewarded]
    outcome = recipe.outcome or (score_of if isinstance(recipe.reward, RewardModel) else None)
    outcomes = [outcome(trace) for _, trace in rewarded] if outcome else passed
    rewards = [reward for reward, _ in rewarded]
    return _StepFigures(
        reward=_mean(tasks, rewards),
        passed=_mean(tasks, passed)[0],
        outcome=_mean(tasks, outcomes)[0],
        gap_error=_mean(tasks, [paid - real for paid, real in zip(rewards, outcomes, strict=True)])[1],
    )


def _seat_rewards(batch: Batch) -> dict[str, float]:
    """The mean reward of each seat that learns."""
    rewards = group_by_key((group.seat, float(reward)) for group, _ in batch if group.seat for reward in group.rewards)
    return {seat: fmean(each) for seat, each in rewards.items()}


def _environment_step(name: str, batch: Batch, recipe: Recipe, weight: float) -> EnvironmentStep:
    own = [(group, members) for group, members in batch if group.environment == name]
    figures, counts = _figures(own, recipe), _counts(own)
    return EnvironmentStep(
        reward=figures.reward[0],
        passed=figures.passed,
        rollouts=counts.rollouts,
        failed=counts.failed,
        groups=len(own),
        informative=sum(teaches(recipe.algorithm, group) for group, _ in own),
        weight=weight,
        seats=_seat_rewards(own),
    )


def summarise_pairs(version: int, num_pairs: int, update: Update, seconds: float) -> Learned:
    """The figures of one step on pairs from a file: there are no rollouts, and so no reward."""
    return Learned(
        version=version,
        reward=0.0,
        passed=0.0,
        outcome=0.0,
        rollouts=0,
        failed=0,
        groups=num_pairs,
        informative=num_pairs,
        loss=update.loss,
        norm=update.norm,
        tokens=update.tokens,
        shared=update.flat / max(1, update.computed),
        kl=None,
        entropy=update.figures["entropy"],
        clipped=0.0,
        staleness=0,
        sampled=0,
        seconds=seconds,
        update_s=update.seconds,
        phases={},
        agreement=update.figures.get("agreement"),
    )


def _passed(trace: Trace) -> bool:
    return isinstance(trace.outcome, Scored) and trace.outcome.score.passed


def _mean(tasks: Sequence[str], values: Sequence[float]) -> tuple[float, float]:
    """A mean and its standard error, clustered by task; 0 without values."""
    clusters: dict[str, Sums] = {}
    for task, value in zip(tasks, values, strict=True):
        before = clusters.get(task, Sums(0, 0.0))
        clusters[task] = Sums(before.count + 1, before.total + value)
    spread = spread_of(list(clusters.values()))
    return (spread.mean, spread.error or 0.0) if spread else (0.0, 0.0)


def summarise_evaluation(version: int, runs: Mapping[str, Run], below: Path, own: Collection[str] = ()) -> Measured:
    """The figures of one evaluation, over the held-out tasks of all environments and by environment.

    Where several agents act, the scores are those of the seats that learn: the best version is chosen by them. `own` are the
    seats whose policies have weights of their own.
    """
    first = next(iter(runs.values()))
    summary = heldout_summary(runs)
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
        run=str(first.path.relative_to(below)),
        environments={name: _environment_score(name, run, below, own) for name, run in runs.items()},
    )


def _environment_score(name: str, run: Run, below: Path, own: Collection[str]) -> EnvironmentScore:
    summary = heldout_summary({name: run})
    mean, low, high = _known(summary.score)
    return EnvironmentScore(
        mean=mean,
        low=low,
        high=high,
        passed=_known(summary.pass_rate)[0],
        rollouts=summary.rollouts,
        failed=sum(summary.failed.values()),
        run=str(run.path.relative_to(below)),
        seats={seat: _seat_score(name, run, seat, seat if seat in own else SHARED) for seat in learning_seats(run)},
    )


def _seat_score(name: str, run: Run, seat: str, policy: str) -> SeatScore:
    summary = heldout_summary({name: run}, seat)
    mean, low, high = _known(summary.score)
    return SeatScore(mean=mean, low=low, high=high, passed=_known(summary.pass_rate)[0], policy=policy)


def _known(interval: Interval) -> tuple[float, float, float]:
    return interval.value if interval.value is not None else float("nan"), interval.low, interval.high
