"""The simulation: jobs wait, are served in parts, call tools, and end.

Each event is the end of a part on one instance, a full cache, a tool call that returns, or an instance that dies or comes back.
What happens at an event is decided by the rules alone. Contexts of jobs that wait stay in a pool that all instances share: going
back to the same instance is free, to another one costs a move. (A fleet without such a pool has `keeps_cache=False`.)
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from sandlot.core.errors import ConfigError
from sandlot.run.schedule.admission import Admission
from sandlot.run.schedule.job import RolloutJob, Waits
from sandlot.run.schedule.lengths import LengthPrior, Lengths
from sandlot.run.schedule.queue import WaitingQueue
from sandlot.run.simulate.bound import lower_bound_s
from sandlot.run.simulate.entrance import LOOK_S, Entrance, ServersSeen
from sandlot.run.simulate.fleet import Fleet, Instance, Served
from sandlot.run.simulate.result import SimulatedRun
from sandlot.run.simulate.rules import Rules, named_rules
from sandlot.run.simulate.workload import Workload

_SAME_STEP = 1e-6
"""Parts that end within this many steps of each other end together."""
_STAY = 1.15
"""A job goes back to the instance that has its cache unless another one's load is this much lower."""
_SMALL_FLEET = 64
"""In a larger fleet, a job that does not fit the least loaded instance goes to the one that has just made room, or waits."""
_TOOL, _DOWN, _UP, _LOOK = -1, -2, -3, -4
"""Kinds of events that are not the end of a part."""


def simulate(workload: Workload, fleet: Fleet, rules: Rules, *, prior: LengthPrior | None = None, seed: int = 0) -> SimulatedRun:
    """Serve a whole workload, and report how long it took and what it cost.

    `prior` is what is known about lengths before the first rollout ends: the estimates of an earlier run. `seed` decides when
    instances die.
    """
    _require_fit(workload, fleet)
    return _Simulation(workload, fleet, rules, Lengths(prior), Random(seed)).run()  # noqa: S311 - draws, not secrets


def compare_rules(
    workload: Workload, fleet: Fleet, names: Sequence[str] = (), *, done: Callable[[str], None] = lambda _name: None
) -> dict[str, SimulatedRun]:
    """Simulate a workload under each of the named rules (all of them by default); `done` is called after each."""
    known = named_rules(workload)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no rules named `{unknown[0]}`; known: {', '.join(known)}")
    found: dict[str, SimulatedRun] = {}
    for name in names or known:
        found[name] = simulate(workload, fleet, known[name])
        done(name)
    return found


def _require_fit(workload: Workload, fleet: Fleet) -> None:
    for number, rollout in enumerate(workload.rollouts):
        need = rollout.prompt + rollout.tokens + sum(turn.observation for turn in rollout.turns)
        if need > fleet.cache_tokens:
            raise ConfigError(
                f"rollout {number} needs {need:,} tokens and an instance holds cache_tokens={fleet.cache_tokens:,}: it could"
                " never end; raise `cache_tokens` or lower the longest length"
            )


@dataclass(slots=True)
class _Counts:
    moved: int = 0
    prefilled: int = 0
    sent_away: int = 0
    """Jobs that left because the cache was full."""
    deaths: int = 0
    ended: list[float] = field(default_factory=list[float])


class _Simulation:
    """The state of one simulation."""

    def __init__(self, workload: Workload, fleet: Fleet, rules: Rules, lengths: Lengths, rng: Random) -> None:
        self.workload, self.fleet, self.rules, self.lengths, self.rng = workload, fleet, rules, lengths, rng
        self.now = 0.0
        self.jobs = [RolloutJob(index, rollout.group, rollout.prompt) for index, rollout in enumerate(workload.rollouts)]
        self.left = [rollout.turns[0].tokens for rollout in workload.rollouts]
        """Tokens left of each job's current turn."""
        self.instances = [Instance(number, fleet) for number in range(fleet.instances)]
        self.queues = [WaitingQueue(rules.policy, lengths) for _ in (self.instances if rules.pinned else range(1))]
        self.loads: list[tuple[float, int, int]] = []
        self.load_stamps = [0] * fleet.instances
        self.events: list[tuple[float, int, int, int]] = []
        self.changed: set[int] = set()
        self.freed: Instance | None = None
        """The instance that has just made room."""
        self.counts = _Counts()
        self.entrance = Entrance(Admission(rules.adapt), deque(self.jobs)) if rules.adapt is not None else None

    def run(self) -> SimulatedRun:
        """From the submission of all rollouts to the end of the last."""
        for instance in self.instances:
            self._note_load(instance)
            self._plan_death(instance)
        for job in self.jobs if self.entrance is None else ():
            self._queue(job)
        if self.entrance is not None:
            self._look(self.entrance)
        self._dispatch(range(len(self.queues)))
        while len(self.counts.ended) < len(self.jobs):
            time, what, number, stamp = heapq.heappop(self.events)
            if what == _TOOL:
                self.now = time
                self._queue(self.jobs[number])
                if self.entrance is not None:
                    self.entrance.note_asked(self.jobs[number], time)
                self._dispatch([self._queue_of(self.jobs[number])])
            elif what == _LOOK and self.entrance is not None:
                self.now = time
                self._look(self.entrance)
                self._dispatch(range(len(self.queues)))
            elif what in (_DOWN, _UP):
                self.now = time
                self._change_state(self.instances[number], dies=what == _DOWN)
            elif stamp == self.instances[number].stamp:
                self.now = time
                self._serve(self.instances[number])
        return self._result()

    # -- the queue ---------------------------------------------------------------------------------------------------------

    def _queue_of(self, job: RolloutJob) -> int:
        return job.group % len(self.queues)

    def _queue(self, job: RolloutJob) -> None:
        """A job waits for its turn."""
        self.queues[self._queue_of(job)].put(job)

    def _look(self, entrance: Entrance) -> None:
        """Find out how many may be in flight, let them in, and look again a moment later."""
        held = sum(instance.kv for instance in self.instances)  # as at the last event of each
        queued = sum(len(queue) for queue in self.queues)
        entrance.look(self.now, ServersSeen(queued, held, self.fleet.cache_tokens * len(self.instances)))
        self._let_in(entrance)
        heapq.heappush(self.events, (self.now + LOOK_S, _LOOK, 0, 0))

    def _let_in(self, entrance: Entrance) -> None:
        for job in entrance.let_in(self.now):
            self._queue(job)

    def _learn(self, job: RolloutJob) -> None:
        """A rollout has ended: those that wait may get another place."""
        self.lengths.add(job.group, job.attained)
        for queue in self.queues:
            queue.note_lengths(job.group, len(self.counts.ended))

    def _dispatch(self, queues: Iterable[int]) -> None:
        """Serve what waits, in the order of the policy, as far as there is room."""
        for number in queues:
            queue = self.queues[number]
            while (job := queue.first()) is not None:
                instance = self._place(job, number)
                if instance is None:
                    break
                self._admit(queue.take(), instance)
        for number in self.changed:
            instance = self.instances[number]
            instance.advance(self.now)
            instance.stamp += 1
            time = instance.next_event()
            if time is not None:
                heapq.heappush(self.events, (time, 0, number, instance.stamp))
        self.changed.clear()

    # -- where a job goes --------------------------------------------------------------------------------------------------

    def _need(self, job: RolloutJob) -> int:
        return job.context + math.ceil(self._part(job) * self.rules.reserve)

    def _part(self, job: RolloutJob) -> int:
        chunk = self.rules.policy.chunk
        return self.left[job.index] if chunk is None else min(self.left[job.index], chunk)

    def _place(self, job: RolloutJob, queue: int) -> Instance | None:
        """The instance a job goes to: its own if it has room and little more load than the least loaded one."""
        need = self._need(job)
        if self.rules.pinned:
            instance = self.instances[queue]
            return instance if self._is_up(instance) and instance.has_room(need) else None
        best = self._least_loaded()
        if best is None:
            return None
        if job.place is not None:
            home = self.instances[job.place]
            near = home.load <= _STAY * best.load + self.fleet.sequence_s
            if home.has_room(need) and self._is_up(home) and (near or not best.has_room(need)):
                return home
        if best.has_room(need):
            return best
        others = self.instances if len(self.instances) <= _SMALL_FLEET else [self.freed] if self.freed is not None else []
        return next((each for each in others if self._is_up(each) and each.has_room(need)), None)

    def _is_up(self, instance: Instance) -> bool:
        return instance.down_until <= self.now

    def _least_loaded(self) -> Instance | None:
        while self.loads:
            _, number, stamp = self.loads[0]
            if stamp == self.load_stamps[number] and self._is_up(self.instances[number]):
                return self.instances[number]
            heapq.heappop(self.loads)
        return None

    def _note_load(self, instance: Instance) -> None:
        self.load_stamps[instance.number] += 1
        heapq.heappush(self.loads, (instance.load, instance.number, self.load_stamps[instance.number]))

    # -- serving -----------------------------------------------------------------------------------------------------------

    def _admit(self, job: RolloutJob, instance: Instance) -> None:
        instance.advance(self.now)
        if job.place is None:
            tokens = job.context - (job.prompt if instance.groups.get(job.group) else 0)  # a sibling has the prompt in the cache
            instance.owed_s += self.fleet.prefill_s * tokens
            self.counts.prefilled += tokens
        elif job.place != instance.number:
            instance.owed_s += self.fleet.move_s * job.context
            self.counts.moved += job.context
        job.place, job.waits = instance.number, None
        part = self._part(job)
        instance.put(Served(instance.steps + part, job.index, part, self._need(job)), job.context, job.group)
        self._note_load(instance)
        self.changed.add(instance.number)

    def _serve(self, instance: Instance) -> None:
        """Parts have ended, or the cache is full and one job must go."""
        self.freed = instance
        due = instance.batch[0].until
        instance.advance(self.now)
        if due - instance.steps > _SAME_STEP * max(1.0, due):
            self._send_away(instance)
        else:
            instance.full = False
            instance.steps = max(instance.steps, due)
            while instance.batch and instance.batch[0].until <= instance.steps + _SAME_STEP * max(1.0, due):
                served = heapq.heappop(instance.batch)
                self._leave(instance, served, served.part)
        self._note_load(instance)
        self.changed.add(instance.number)
        self._dispatch([instance.number] if self.rules.pinned else [0])

    def _send_away(self, instance: Instance) -> None:
        """The job that is last in the order leaves a full cache; the instance takes no other until one leaves by itself."""
        served = max(instance.batch, key=lambda each: self.rules.policy.key(self.jobs[each.job], self.lengths))
        instance.batch.remove(served)
        heapq.heapify(instance.batch)
        done = max(0, served.part - math.ceil(served.until - instance.steps))
        instance.full = bool(instance.batch)
        self.counts.sent_away += 1
        self._leave(instance, served, done)
        if not self.rules.keeps_cache:
            self.jobs[served.job].place = None

    def _leave(self, instance: Instance, served: Served, tokens: int) -> None:
        """A job leaves the batch with so many more tokens: to the queue, to a tool, or for good."""
        job = self.jobs[served.job]
        job.attained += tokens
        self.left[job.index] -= tokens
        instance.take(served, job.context, job.group)
        if self.left[job.index] > 0:
            self._queue(job)
            return
        turns = self.workload.rollouts[job.index].turns
        turn = turns[job.turn]
        if self.entrance is not None:
            self.entrance.note_turn(job, turn.tokens, self.now)
        job.turn += 1
        if job.turn == len(turns):
            job.waits = None
            self.counts.ended.append(self.now)
            self._learn(job)
            if self.entrance is not None:
                self.entrance.note_ended(job)
                self._let_in(self.entrance)
            return
        job.observed += turn.observation
        self.left[job.index] = turns[job.turn].tokens
        job.waits = Waits.TOOL
        heapq.heappush(self.events, (self.now + turn.tool_s, _TOOL, job.index, 0))

    # -- failures ----------------------------------------------------------------------------------------------------------

    def _plan_death(self, instance: Instance) -> None:
        if self.fleet.failures_per_hour:
            time = self.now + self.rng.expovariate(self.fleet.failures_per_hour / 3600)
            heapq.heappush(self.events, (time, _DOWN, instance.number, 0))

    def _change_state(self, instance: Instance, *, dies: bool) -> None:
        """An instance dies, and what it held goes back to the queue without its cache; or it comes back."""
        if not dies:
            self._note_load(instance)
            self._plan_death(instance)
            self._dispatch(range(len(self.queues)))
            return
        self.counts.deaths += 1
        instance.advance(self.now)
        lost, instance.batch = instance.batch, []
        for served in lost:
            done = max(0, served.part - math.ceil(served.until - instance.steps))
            self._leave(instance, served, min(done, served.part - 1))
        for job in self.jobs:
            if job.place == instance.number:
                job.place = None
        instance.kv, instance.owed_s, instance.full = 0.0, 0.0, False
        instance.down_until = self.now + self.fleet.restart_s
        instance.stamp += 1
        heapq.heappush(self.events, (instance.down_until, _UP, instance.number, 0))
        self._dispatch(range(len(self.queues)))

    def _result(self) -> SimulatedRun:
        ended = sorted(self.counts.ended)
        makespan = ended[-1]
        bound = lower_bound_s(self.workload, self.fleet)
        tokens = sum(rollout.tokens for rollout in self.workload.rollouts)
        return SimulatedRun(
            workload=self.workload.name,
            rollouts=len(ended),
            makespan_s=makespan,
            bound_s=bound,
            ratio=makespan / bound,
            tail_s=makespan - ended[min(len(ended) - 1, int(0.9 * len(ended)))],
            tokens_per_s=tokens / makespan,
            utilisation=sum(instance.busy_s for instance in self.instances) / makespan / len(self.instances),
            moved_tokens=self.counts.moved,
            prefilled_tokens=self.counts.prefilled,
            sent_away=self.counts.sent_away,
            deaths=self.counts.deaths,
            reliability=self.lengths.reliability,
        )
