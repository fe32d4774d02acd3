"""Sampling weights of tasks, by what the model made of them: the hook `Recipe(weigh=...)`.

A hook is a function from the records of all tasks to a weight for each. It is called before the first group and after every
update. `TowardsBand` is the one that comes along; without a hook all tasks weigh the same. `choices.py` draws by the weights.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What one group of a task came to."""

    scored: int
    """Rollouts with a score, or learning seats of them; failed ones say nothing about the task."""
    passed: int
    """Of these, with full marks."""
    score: float
    """Sum of their scores."""


@dataclass(slots=True)
class TaskRecord:
    """A task of a training, and what the model made of it so far."""

    environment: str
    """The environment's name."""
    task: Task
    """The task, without its key."""
    started: int = 0
    """Groups of it that were started."""
    results: list[GroupResult] = field(default_factory=list[GroupResult])
    """Its groups that the weights were trained on, oldest first."""


Weigh = Callable[[Sequence[TaskRecord]], Sequence[float]]
"""A weight above 0 for each task: one of weight 2 is drawn twice as often as one of weight 1. An environment's share of the
groups follows the mean weight of its tasks, times its own weight."""


def weigh_equally(records: Sequence[TaskRecord]) -> list[float]:
    """The same weight for all tasks: each comes once before any comes again."""
    return [1.0] * len(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class TowardsBand:
    """Prefer tasks whose pass rate is in a band: those that are too hard or too easy teach little.

    A task in the band has weight 1; outside, the weight falls in proportion to the distance, down to `explore`: every task is
    tried again now and then. A task's pass rate is estimated from its last groups and from other tasks with the same tags.

    ```python
    from sandlot.train import Recipe, TowardsBand

    recipe = Recipe(name="band", env="arithmetic", weigh=TowardsBand(low=0.2, high=0.8))
    ```
    """

    low: float = 0.2
    """Lower edge of the band: below it a task is too hard."""
    high: float = 0.8
    """Upper edge of the band: above it a task is too easy."""
    explore: float = 0.1
    """The least weight of a task."""
    groups: int = 2
    """A task's last groups that count: older ones were sampled by other weights."""
    of: Literal["passed", "score"] = "passed"
    """The rate: share of full marks, or the mean score, for tasks that hardly ever get full marks."""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < 1:
            raise ConfigError(f"band {self.low:g} to {self.high:g}: give two rates between 0 and 1, the lower one first")
        if not 0 < self.explore <= 1:
            raise ConfigError(f"explore is {self.explore:g}; give the least weight of a task, above 0 and at most 1")
        if self.groups < 1:
            raise ConfigError(f"groups is {self.groups}; give 1 or more")

    def __call__(self, records: Sequence[TaskRecord]) -> list[float]:
        """The weight of each task."""
        alike: dict[tuple[str, tuple[str, ...]], list[float]] = defaultdict(lambda: [0.0, 0.0])
        recent = [self._recent(record) for record in records]
        for record, (good, scored) in zip(records, recent, strict=True):
            total = alike[record.environment, record.task.tags]
            total[0] += good
            total[1] += scored
        middle = (self.low + self.high) / 2
        weights: list[float] = []
        for record, (good, scored) in zip(records, recent, strict=True):
            among, count = alike[record.environment, record.task.tags]
            expected = (among + middle) / (count + 1)  # nothing is known at first: as if in the band
            weights.append(self._weight((good + 2 * expected) / (scored + 2)))
        return weights

    def _recent(self, record: TaskRecord) -> tuple[float, int]:
        results = record.results[-self.groups :]
        good = sum(result.passed if self.of == "passed" else result.score for result in results)
        return float(good), sum(result.scored for result in results)

    def _weight(self, rate: float) -> float:
        near = min(1.0, rate / self.low, (1 - rate) / (1 - self.high))
        return self.explore + (1 - self.explore) * max(0.0, near)
