"""How a calibration stands: what was seen of every task, what is believed of it, and what to take next.

Everything here follows from the rollouts on disk, in whatever order they came: that is why a calibration that was killed goes on
by the same command, and why another band may be asked of the same rollouts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sandlot.calibrate.tasks.allocate import Count, next_rollouts, num_wanted
from sandlot.calibrate.tasks.prior import priors
from sandlot.calibrate.tasks.rule import Belief, Rule
from sandlot.core.task import Task
from sandlot.core.trace import TraceRow
from sandlot.run.config import RunPlan

Family = Callable[[Task], str]
"""Which tasks are alike: those that it gives the same name."""


def by_tags(*named: str) -> Family:
    """Tasks with the same first tag are a family; with `named` tags, those that carry the same one of them."""

    def family(task: Task) -> str:
        return next((tag for tag in task.tags if not named or tag in named), "")

    return family


@dataclass(slots=True)
class Taken:
    """One task's rollouts."""

    rollouts: set[int] = field(default_factory=set[int])
    rewards: list[float] = field(default_factory=list[float])
    """Of those that were scored."""

    def count(self, threshold: float) -> Count:
        """In numbers."""
        passed = sum(reward >= threshold for reward in self.rewards)
        return Count(passed, len(self.rewards), len(self.rollouts) - len(self.rewards))

    def with_more(self, more: int) -> int:
        """How many rollouts, numbered from 0, there must be for `more` new ones: what a crash left out comes first."""
        total = 0
        while more > 0:
            more -= total not in self.rollouts
            total += 1
        return total


class CalibrationState:
    """The tasks of one calibration. Give it every row once."""

    def __init__(self, rule: Rule, tasks: Sequence[Task], family: Family, *, budget: int | None, at_once: int) -> None:
        self.rule = rule
        self.tasks = tuple(tasks)
        self.families = {task.id: family(task) for task in tasks}
        self.taken = {task.id: Taken() for task in tasks}
        self._budget = budget
        self._at_once = at_once

    def note(self, row: TraceRow) -> None:
        """One more rollout is on disk."""
        if row.task in self.taken:
            self.taken[row.task].rollouts.add(row.rollout)
            if row.score is not None:
                self.taken[row.task].rewards.append(row.score)

    @property
    def counts(self) -> dict[str, Count]:
        """What was seen, by task."""
        return {task: taken.count(self.rule.threshold) for task, taken in self.taken.items()}

    @property
    def num_taken(self) -> int:
        """Rollouts in all."""
        return sum(len(taken.rollouts) for taken in self.taken.values())

    def priors(self) -> dict[str, Belief]:
        """What the others of its family say of each task."""
        seen = {task: (count.passed, count.scored) for task, count in self.counts.items()}
        return priors(seen, self.families)

    def settled(self) -> int:
        """Tasks that need no more rollouts, budget or not."""
        counts, priors = self.counts, self.priors()
        return sum(num_wanted(self.rule, priors[task], count) == 0 for task, count in counts.items())

    def next_rollouts(self) -> dict[str, int]:
        """What to take next, by task; empty when every task is placed or given up, or the budget is used."""
        left = None if self._budget is None else max(0, self._budget - self.num_taken)
        return next_rollouts(self.rule, self.priors(), self.counts, left=left, at_once=self._at_once)

    def plan(self, more: Mapping[str, int]) -> RunPlan:
        """The same as rollouts by identity: all there should be of the tasks that get more."""
        chosen = tuple(task for task in self.tasks if task.id in more)
        return RunPlan(chosen, tuple(self.taken[task.id].with_more(more[task.id]) for task in chosen))
