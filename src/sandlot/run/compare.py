"""Two runs side by side: whether it got better, by how much, and whether that could be chance.

Runs are compared task by task, because tasks differ more than models do. Within a task, rollouts of the same number are paired
where both were scored; where none are, the task's means are compared. Each task counts once. A rollout that failed is no score
of either run, so the difference in the share of rollouts without a score is reported too.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from sandlot.core.stats.intervals import Interval, Sums, clustered_mean, mcnemar, sign_flip

_EVEN = 1e-9
"""Differences below this are rounding."""


class ComparedRow(msgspec.Struct, frozen=True):
    """What a comparison reads of a rollout."""

    task: str
    rollout: int
    score: float | None
    passed: bool | None


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both runs."""

    task: str
    first: float
    second: float
    """Mean scores of the rollouts that were compared."""
    rollouts: int
    """Pairs of rollouts; 0 if means of unpaired rollouts were compared."""

    @property
    def difference(self) -> float:
        """Above 0 if the second run was better."""
        return self.second - self.first


class Sameness(msgspec.Struct, frozen=True, kw_only=True):
    """Fingerprints of the settings of the two runs. An empty string is unknown."""

    first: str = ""
    second: str = ""

    @property
    def note(self) -> str:
        """Why the runs may not be comparable; empty if their settings are the same."""
        if not (self.first and self.second):
            return "the fingerprint of at least one setting is not known: the runs may differ in more than the model"
        if self.first != self.second:
            return (
                f"settings differ (fingerprints {self.first[:12]} and {self.second[:12]}): the runs differ in more than the model"
            )
        return ""


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The second run compared with the first."""

    tasks: int
    """Tasks scored in both runs; everything below is about these."""
    score: Interval
    """Mean difference in score, second less first."""
    p_value: float
    """The chance of a difference this large if the runs were alike."""
    pass_rate: Interval
    """Mean difference in the share of full marks."""
    mcnemar_p: float | None
    """The exact paired test on full marks; None if a task has several pairs, which would not be independent."""
    dropped: Interval
    """Difference in the share of rollouts without a score, over tasks in both."""
    improved: tuple[TaskChange, ...]
    """Largest change first."""
    regressed: tuple[TaskChange, ...]
    unchanged: int
    only_first: tuple[str, ...]
    """Tasks with a rollout in one run only."""
    only_second: tuple[str, ...]
    unscored: tuple[str, ...]
    """Tasks in both that one of them never scored, so that they could not be compared."""
    note: str = ""
    """Why the runs may not be comparable: their settings differ, or are not known."""

    evaluations: str = ""
    """Which held-out evaluations were compared, where a training was given."""


def compare(first: Iterable[ComparedRow], second: Iterable[ComparedRow], *, settings: Sameness | None = None) -> RunComparison:
    """Compare two runs by task. `settings` are the fingerprints of their settings; without them the note says so."""
    ours, theirs = _by_task(first), _by_task(second)
    shared = sorted(ours.keys() & theirs.keys())
    pairs = {task: _paired(ours[task], theirs[task]) for task in shared}
    scored = {task: pair for task, pair in pairs.items() if pair.first and pair.second}
    changes = [_change(task, pair) for task, pair in scored.items()]
    differences = [change.difference for change in changes]
    reach = max(1.0, _reach(ours), _reach(theirs))
    better = sorted((c for c in changes if c.difference > _EVEN), key=lambda c: -c.difference)
    worse = sorted((c for c in changes if c.difference < -_EVEN), key=lambda c: c.difference)
    return RunComparison(
        tasks=len(changes),
        score=_mean(differences, reach),
        p_value=sign_flip([value if abs(value) > _EVEN else 0.0 for value in differences]),
        pass_rate=_mean([_share(pair.second) - _share(pair.first) for pair in scored.values()], 1.0),
        mcnemar_p=_mcnemar(list(scored.values())),
        dropped=_mean([_dropped(theirs[task]) - _dropped(ours[task]) for task in shared], 1.0),
        improved=tuple(better),
        regressed=tuple(worse),
        unchanged=len(changes) - len(better) - len(worse),
        only_first=tuple(sorted(ours.keys() - theirs.keys())),
        only_second=tuple(sorted(theirs.keys() - ours.keys())),
        unscored=tuple(task for task in shared if task not in scored),
        note=(settings or Sameness()).note,
    )


class _Pair(msgspec.Struct, frozen=True):
    """The rows of one task that are compared."""

    first: list[ComparedRow]
    second: list[ComparedRow]
    paired: bool


def _by_task(rows: Iterable[ComparedRow]) -> dict[str, dict[int, ComparedRow]]:
    tasks: defaultdict[str, dict[int, ComparedRow]] = defaultdict(dict)
    for row in rows:
        tasks[row.task][row.rollout] = row
    return tasks


def _paired(first: dict[int, ComparedRow], second: dict[int, ComparedRow]) -> _Pair:
    ours = {number: row for number, row in first.items() if row.score is not None}
    theirs = {number: row for number, row in second.items() if row.score is not None}
    both = sorted(ours.keys() & theirs.keys())
    if both:
        return _Pair([ours[number] for number in both], [theirs[number] for number in both], paired=True)
    return _Pair(list(ours.values()), list(theirs.values()), paired=False)


def _change(task: str, pair: _Pair) -> TaskChange:
    return TaskChange(
        task=task, first=_score(pair.first), second=_score(pair.second), rollouts=len(pair.first) if pair.paired else 0
    )


def _score(rows: list[ComparedRow]) -> float:
    return math.fsum(row.score for row in rows if row.score is not None) / len(rows)


def _share(rows: list[ComparedRow]) -> float:
    return sum(row.passed is True for row in rows) / len(rows)


def _dropped(rows: dict[int, ComparedRow]) -> float:
    return sum(row.score is None for row in rows.values()) / len(rows)


def _mean(differences: list[float], reach: float) -> Interval:
    return clustered_mean([Sums(1, value) for value in differences], bounds=(-reach, reach))


def _reach(tasks: dict[str, dict[int, ComparedRow]]) -> float:
    """The largest difference that was possible, for rubrics that clip elsewhere than at 0 and 1."""
    scores = [row.score for rows in tasks.values() for row in rows.values() if row.score is not None]
    return max([1.0, *scores]) - min([0.0, *scores])


def _mcnemar(pairs: list[_Pair]) -> float | None:
    if any(not pair.paired or len(pair.first) > 1 for pair in pairs):
        return None
    passes = [(pair.first[0].passed is True, pair.second[0].passed is True) for pair in pairs]
    return mcnemar(passes.count((True, False)), passes.count((False, True)))
