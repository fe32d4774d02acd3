"""The jobs that wait, in the order of a policy. Live runs and simulations use the same queue."""

import heapq

from sandlot.run.schedule.job import RolloutJob, Waits
from sandlot.run.schedule.lengths import Lengths
from sandlot.run.schedule.policies import Key, SchedulingPolicy

_REKEY_GROWTH = 1.25
"""All keys are computed again each time this many times more rollouts have ended, since the estimates have changed."""


class WaitingQueue:
    """Jobs that wait for their turn. Several queues may share `lengths`."""

    def __init__(self, policy: SchedulingPolicy, lengths: Lengths) -> None:
        self._policy, self._lengths = policy, lengths
        self._heap: list[tuple[Key, int, RolloutJob]] = []
        self._newest: dict[int, int] = {}
        """The number of the newest entry of each job that waits; older entries are void."""
        self._groups: dict[int, dict[int, RolloutJob]] = {}
        """The waiting jobs of each group."""
        self._num_put = 0
        self._rekey_at = 2.0

    def __len__(self) -> int:
        return len(self._newest)

    def put(self, job: RolloutJob) -> None:
        """Let a job wait."""
        job.waits = Waits.TURN
        self._groups.setdefault(job.group, {})[job.index] = job
        self._push(job)

    def first(self) -> RolloutJob | None:
        """The job that is served next; it stays in the queue."""
        while self._heap:
            _, number, job = self._heap[0]
            if self._newest.get(job.index) == number:
                return job
            heapq.heappop(self._heap)
        return None

    def take(self) -> RolloutJob:
        """Remove the job that is served next; there must be one."""
        job = self.first()
        if job is None:
            raise IndexError("no job waits")
        heapq.heappop(self._heap)
        del self._newest[job.index]
        siblings = self._groups[job.group]
        del siblings[job.index]
        if not siblings:
            del self._groups[job.group]
        job.waits = None
        return job

    def note_lengths(self, group: int, num_ended: int) -> None:
        """The estimates know one more rollout, of this group, `num_ended` in all: order those it concerns again.

        These are its siblings, and now and then all jobs.
        """
        if not self._policy.learns:
            return
        if num_ended >= self._rekey_at:
            self._rekey_at = num_ended * _REKEY_GROWTH + 1
            self._rekey()
        else:
            for job in self._groups.get(group, {}).values():
                self._push(job)

    def _push(self, job: RolloutJob) -> None:
        heapq.heappush(self._heap, self._entry(job))

    def _entry(self, job: RolloutJob) -> tuple[Key, int, RolloutJob]:
        self._num_put += 1
        self._newest[job.index] = self._num_put
        return self._policy.key(job, self._lengths), self._num_put, job

    def _rekey(self) -> None:
        self._heap = [self._entry(job) for siblings in self._groups.values() for job in siblings.values()]
        heapq.heapify(self._heap)
