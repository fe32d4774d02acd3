"""The order in which the rollouts of a plan start.

One of each of the first tasks comes first, so that an environment that fails in every task is noticed at once. Then the policy
decides (`schedule/policies.py`): as soon as rollouts have ended that tell how long others take, those that are expected to take
longest start first, since one that starts last and takes long is waited for alone.
"""

from collections import deque
from collections.abc import Set as AbstractSet

from sandlot.core.task import Task
from sandlot.run.config import RunPlan
from sandlot.run.schedule.job import RolloutJob
from sandlot.run.schedule.lengths import Lengths
from sandlot.run.schedule.policies import Adaptive, SchedulingPolicy
from sandlot.run.schedule.queue import WaitingQueue

_FIRST_TASKS = 8
"""Tasks of which one rollout is started before all others: as many as the breaker needs to stop a run."""
DEFAULT_POLICY: SchedulingPolicy = Adaptive(chunk=None)
"""In the order of tasks until lengths are known. A rollout that has started is not divided."""


class LaunchQueue:
    """The rollouts of a plan that are not stored yet.

    All waiting rollouts of a task have the same expected length, so the policy orders tasks: each has one job in the queue,
    however many of its rollouts wait. What a rollout that ends costs does not grow with the number of rollouts.
    """

    def __init__(self, plan: RunPlan, done: AbstractSet[tuple[str, int]], policy: SchedulingPolicy | None = None) -> None:
        self._lengths = Lengths()
        self._queue = WaitingQueue(policy or DEFAULT_POLICY, self._lengths)
        self._tasks = plan.tasks
        self._places = {task.id: place for place, task in enumerate(plan.tasks)}
        self._waiting = [
            deque(number for number in range(count) if (task.id, number) not in done)
            for task, count in zip(plan.tasks, plan.counts, strict=True)
        ]
        """The numbers of the waiting rollouts of each task."""
        self._first = deque(place for place, numbers in enumerate(self._waiting[:_FIRST_TASKS]) if numbers and numbers[0] == 0)
        """The tasks of which one rollout starts before all others."""
        self._num_waiting = sum(map(len, self._waiting))
        self._num_ended = 0
        for place, numbers in enumerate(self._waiting):
            if len(numbers) > (place in self._first):
                self._queue.put(RolloutJob(place, place, 0))

    def __len__(self) -> int:
        return self._num_waiting

    def take(self) -> tuple[Task, int]:
        """The rollout that starts next."""
        if self._first:
            place = self._first.popleft()
        else:
            job = self._queue.take()
            place = job.group
            if len(self._waiting[place]) > 1:
                self._queue.put(job)
        self._num_waiting -= 1
        return self._tasks[place], self._waiting[place].popleft()

    def note_ended(self, task: str, seconds: float) -> None:
        """A rollout of a task has ended after so many seconds."""
        self._num_ended += 1
        self._lengths.add(self._places[task], round(seconds * 1000))
        self._queue.note_lengths(self._places[task], self._num_ended)
