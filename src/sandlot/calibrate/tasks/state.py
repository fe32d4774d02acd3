"""The state of a calibration: the finished rollouts of every task, and which to take next.

Everything follows from the stored rollouts, in any order. So the same command continues a calibration that was killed, and
another band can be applied to the same rollouts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sandlot.calibrate.tasks.allocate import Count, next_rollouts, num_wanted
from sandlot.calibrate.tasks.prior import priors
from sandlot.calibrate.tasks.rule import Belief, Rule
from sandlot.core.task import Task
from sandlot.core.trace_row import TraceRow
from sandlot.run.config import RunPlan

Family = Callable[[Task], str]
"""Maps a task to the name of its family."""


def by_tags(*named: str) -> Family:
    """Families by first tag; with `named`, by the first tag that is among these."""

    def family(task: Task) -> str:
        return next((tag for tag in task.tags if not named or tag in named), "")

    return family


@dataclass(slots=True)
class Taken:
    """The stored rollouts of one task."""

    rollouts: set[int] = field(default_factory=set[int])
    rewards: list[float] = field(default_factory=list[float])
    """Rewards of the scored ones."""

    def count(self, threshold: float) -> Count:
        """The counts, with a pass from `threshold` on."""
        passed = sum(reward >= threshold for reward in self.rewards)
        return Count(passed, len(self.rewards), len(self.rollouts) - len(self.rewards))

    def with_more(self, more: int) -> int:
        """How many rollouts, numbered from 0, to plan for `more` new ones: gaps that a crash left are filled first."""
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
        """Count a stored rollout."""
        if row.task in self.taken:
            self.taken[row.task].rollouts.add(row.rollout)
            if row.score is not None:
                self.taken[row.task].rewards.append(row.score)

    @property
    def counts(self) -> dict[str, Count]:
        """Counts by task."""
        return {task: taken.count(self.rule.threshold) for task, taken in self.taken.items()}

    @property
    def num_taken(self) -> int:
        """Rollouts in all."""
        return sum(len(taken.rollouts) for taken in self.taken.values())

    def priors(self) -> dict[str, Belief]:
        """The prior of each task, from the others of its family."""
        seen = {task: (count.passed, count.scored) for task, count in self.counts.items()}
        return priors(seen, self.families)

    def settled(self) -> int:
        """Number of tasks that need no more rollouts, whatever the budget."""
        counts, priors = self.counts, self.priors()
        return sum(num_wanted(self.rule, priors[task], count) == 0 for task, count in counts.items())

    def next_rollouts(self) -> dict[str, int]:
        """The next rollouts by task; empty when every task is placed or given up, or the budget is used up."""
        left = None if self._budget is None else max(0, self._budget - self.num_taken)
        return next_rollouts(self.rule, self.priors(), self.counts, left=left, at_once=self._at_once)

    def plan(self, more: Mapping[str, int]) -> RunPlan:
        """The plan with these additional rollouts."""
        chosen = tuple(task for task in self.tasks if task.id in more)
        return RunPlan(chosen, tuple(self.taken[task.id].with_more(more[task.id]) for task in chosen))
