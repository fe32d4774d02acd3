"""Rollouts in workers elsewhere: which worker takes which rollout, and what happens when one dies.

How messages reach a worker is a `WorkerLink`: of a process (`processes.py`), of a Ray actor (`ray.py`), or of a worker that
joined over the network (`workers.py`). The rest is the same for all and stands here. A rollout goes to the worker that has
fewest; if none has room it waits, in the order in which it came. If a worker dies, its rollouts are reported as lost; what it
returned because it was asked to leave is reported as returned. A result counts only if it comes from the worker that was asked,
and is one of that rollout. A rollout that was lost more than once gets a worker for itself, so that one that kills its worker
cannot fail others. Workers that die again and again without finishing anything stop the run.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.abc

from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.ports.store import Blobs
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.observe.events import Sink
from sandlot.run.executors.executor import ExecutorLoad, WorkerLost
from sandlot.run.executors.messages import (
    AboutRollout,
    CancelRollout,
    EventHappened,
    EvidenceStored,
    FromWorker,
    GradeRollout,
    RolloutDone,
    RolloutRaised,
    RolloutReturned,
    TakeRollout,
    WorkerGone,
    WorkerLeaving,
)
from sandlot.run.executors.received import problem_of
from sandlot.run.executors.setup import task_digest
from sandlot.wiring.parts import grade_at_once

START_S = 120.0
"""Time for a worker to load the environment and open what it needs."""
END_S = 30.0
"""Time for a worker to close its worlds, before it is killed."""
MOST_DEATHS = 8
"""Workers that may die one after the other, while none finishes a rollout, before the run stops; more in a large pool."""
_LONGEST_PAUSE_S = 60.0
"""Between two tries to start a worker, while others work."""

_log = logging.getLogger(__name__)


class WorkerLink(Protocol):
    """The way to one worker that is ready."""

    @property
    def pid(self) -> int:
        """Of its process, on its own machine."""
        ...

    @property
    def at_once(self) -> int | None:
        """Rollouts that it takes at a time, those that are graded included; None for any number."""
        ...

    async def send(self, message: TakeRollout | GradeRollout | CancelRollout) -> None:
        """Tell it to do something; `BrokenResourceError` or `ClosedResourceError` if it is known to be gone."""
        ...

    def messages(self) -> AsyncGenerator[FromWorker]:
        """Everything that it says, until it is gone. Never raises for a worker that died."""
        ...

    async def describe_end(self) -> str:
        """How it ended, as the beginning of a sentence; asked when there are no more messages."""
        ...


StartWorker = Callable[[], AbstractAsyncContextManager[WorkerLink]]
"""Opens a worker that is ready, and ends it with the block.

`ConfigError` if the worker refuses the run, `HarnessError` if it ends before it is ready."""

_Result = RolloutDone | RolloutRaised | WorkerLost


@dataclass(slots=True, eq=False)
class _Flight:
    """A rollout that a worker takes, or that waits for one."""

    order: TakeRollout
    sink: Sink
    wait_for_grading: Callable[[], Awaitable[None]]
    worker: "_Worker | None" = None
    placed: anyio.Event = field(default_factory=anyio.Event)
    """Set when a worker has room for it."""
    began: float = 0.0
    has_evidence: anyio.Event = field(default_factory=anyio.Event)
    """Set when it waits to be graded, or has ended."""
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The wait for a place in the grading queue."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: _Result | None = None

    def end(self, result: _Result) -> None:
        if self.result is None:
            self.result = result
            self.has_evidence.set()
            self.waiting.cancel()  # a rollout that is lost needs no place any more
            self.ended.set()

    def lose(self, reason: str, *, returned: bool = False) -> None:
        self.end(WorkerLost(reason, time.monotonic() - self.began, returned))


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker that is ready."""

    link: WorkerLink
    flights: dict[int, _Flight] = field(default_factory=dict[int, _Flight])
    abandoned: dict[str, int] = field(default_factory=dict[str, int])
    reserved: bool = False
    """One rollout has it, or waits for it to be empty; it takes no others."""
    leaving: bool = False
    """It takes no more."""

    @property
    def is_open(self) -> bool:
        return not self.reserved and not self.leaving

    @property
    def has_room(self) -> bool:
        return self.is_open and (self.link.at_once is None or len(self.flights) < self.link.at_once)


@dataclass(frozen=True, slots=True)
class _WorkerEnd:
    how: str
    num_lost: int
    """Rollouts that it had not finished."""


class WorkerPool:
    """An `Executor` whose rollouts are taken by workers elsewhere."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self._workers: list[_Worker] = []
        self._waiting: OrderedDict[_Flight, None] = OrderedDict()
        self._num_reserving = 0
        """Rollouts that wait for a worker of their own."""
        self._changed = anyio.Event()
        self._numbers = 0
        self._deaths = 0
        self._keepers = 0
        self._failed: str | None = None
        self._begun = False
        self._digests: dict[str, str] = {}

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that are ready."""
        return [worker.link.pid for worker in self._workers]

    @property
    def load(self) -> ExecutorLoad:
        """How many workers are ready, and how many rollouts wait for room."""
        return ExecutorLoad(len(self._workers), len(self._waiting) + self._num_reserving)

    async def run(
        self,
        task: Task,
        rollout: int,
        *,
        run: str,
        blobs: Blobs,
        sink: Sink,
        alone: bool = False,
        wait_for_grading: Callable[[], Awaitable[None]] = grade_at_once,
    ) -> Trace | WorkerLost:
        """One attempt at a rollout, by the worker that has fewest."""
        self._numbers += 1
        digest = self._digests.get(task.id) or self._digests.setdefault(task.id, task_digest(task))
        order = TakeRollout(number=self._numbers, task=task.id, digest=digest, rollout=rollout, run=run)
        flight = _Flight(order, sink, wait_for_grading)
        if not alone:
            await self._wait_for_place(flight)
            return await self._run(flight, blobs)
        while True:
            async with self._reserved_worker() as worker:
                if worker in self._workers and not worker.leaving:  # it has not died while it was being emptied
                    self._place(flight, worker)
                    return await self._run(flight, blobs)

    async def _run(self, flight: _Flight, blobs: Blobs) -> Trace | WorkerLost:
        order, worker = flight.order, flight.worker
        assert worker is not None
        try:
            await worker.link.send(order)
            await flight.has_evidence.wait()
            if flight.result is None:
                with flight.waiting:
                    await flight.wait_for_grading()
            if flight.result is None:
                await worker.link.send(GradeRollout(number=order.number))
            await flight.ended.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await flight.ended.wait()  # it has died: whoever waits for it says how
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                with anyio.move_on_after(1):
                    await worker.link.send(CancelRollout(number=order.number))
            raise
        finally:
            self._release(flight)
        match flight.result:
            case RolloutDone(trace=trace, blobs=sent):
                for data in sent:
                    await blobs.put(data)
                return trace
            case RolloutRaised(error=error):
                raise HarnessError(f"a worker could not take rollout {order.rollout} of task `{order.task}`: {error}")
            case lost:
                assert isinstance(lost, WorkerLost)
                return lost

    async def _wait_for_place(self, flight: _Flight) -> None:
        """Return when a worker has room for the rollout, and keeps it for it."""
        self._waiting[flight] = None
        self._admit()
        try:
            await flight.placed.wait()
        except BaseException:
            self._waiting.pop(flight, None)
            self._release(flight)
            raise

    def _admit(self) -> None:
        """Give rollouts that wait to workers with room."""
        while self._waiting:
            worker = min((each for each in self._workers if each.has_room), key=lambda each: len(each.flights), default=None)
            if worker is None:
                return
            flight, _ = self._waiting.popitem(last=False)
            self._place(flight, worker)
            flight.placed.set()

    def _place(self, flight: _Flight, worker: _Worker) -> None:
        flight.worker, flight.began = worker, time.monotonic()
        worker.flights[flight.order.number] = flight

    def _release(self, flight: _Flight) -> None:
        """The rollout takes no room any more."""
        if flight.worker is not None and flight.worker.flights.pop(flight.order.number, None) is not None:
            self._admit()
            if flight.worker.reserved:
                self._notify()

    @asynccontextmanager
    async def _reserved_worker(self) -> AsyncGenerator[_Worker]:
        """A worker without rollouts, which gets none until the block ends; it may have died."""
        with self._reserving():
            while not (free := [worker for worker in self._workers if worker.is_open]):
                # The run is being stopped, or a worker will start.
                await (anyio.sleep_forever() if self._failed else self._changed.wait())
        worker = min(free, key=lambda worker: len(worker.flights))
        worker.reserved = True
        try:
            with self._reserving():
                while worker.flights and worker in self._workers:
                    await self._changed.wait()
            yield worker
        finally:
            worker.reserved = False
            self._admit()
            self._notify()

    @contextmanager
    def _reserving(self) -> Generator[None]:
        self._num_reserving += 1
        try:
            yield
        finally:
            self._num_reserving -= 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_one(self) -> None:
        """Return when a worker is ready; `HarnessError` if they only die."""
        while not self._workers:
            if self._failed is not None:
                raise HarnessError(self._failed)
            await self._changed.wait()

    def begin(self) -> None:
        """From now on, a worker that cannot start costs only itself, as long as others work. Before, it ends the run."""
        self._begun = True

    async def keep(self, start: StartWorker, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Have one worker, and another when it dies; the first is ready when this has started."""
        told, failures = False, 0
        self._keepers += 1
        while self._failed is None:
            async with AsyncExitStack() as stack:
                try:
                    link = await stack.enter_async_context(start())
                except (ConfigError, HarnessError) as error:
                    failures += 1
                    await self._bear(error, failures)
                    continue
                failures = 0
                if not told:
                    told = True
                    task_status.started()
                end = await self._serve(link)
            self._report_death(end.how)
        if not self._begun:
            raise HarnessError(self._failed)

    async def adopt(self, link: WorkerLink) -> str:
        """Have a worker that came by itself, until it is gone; how it ended. It is a death only if rollouts were lost with it."""
        self._keepers = max(self._keepers, len(self._workers) + 1)
        end = await self._serve(link)
        if end.num_lost:
            self._report_death(end.how)
        return end.how

    async def _bear(self, error: ConfigError | HarnessError, failures: int) -> None:
        """A worker did not start: the end of a run that has not begun; otherwise wait before another is tried."""
        if not self._begun and isinstance(error, ConfigError):
            raise error
        if not self._begun or not self._workers:
            self._report_death(str(error))
            return
        pause_s = min(2.0**failures, _LONGEST_PAUSE_S)
        _log.warning("a worker did not start; the others go on", extra={"error": str(error), "next_try_s": pause_s})
        await anyio.sleep(pause_s)

    async def _serve(self, link: WorkerLink) -> _WorkerEnd:
        """Give a worker rollouts until it is gone, and say how it ended. What it had not finished is lost."""
        worker = _Worker(link)
        self._workers.append(worker)
        self._admit()
        self._notify()
        how, lost = "a worker could not be heard any more", list[_Flight]()
        try:
            try:
                problem = await self._listen(worker)
            finally:
                self._workers.remove(worker)
                _forget_abandoned(worker)
            how = f"a worker {problem}" if problem else await link.describe_end()
        finally:  # whatever ended it: nobody else would end its rollouts
            lost += [flight for flight in worker.flights.values() if flight.result is None]
            for flight in lost:
                flight.lose(f"{how} while it took the rollout")
            self._notify()
        return _WorkerEnd(how, len(lost))

    def _report_death(self, how: str) -> None:
        self._deaths += 1
        # Twice as many as there are workers: a machine that is lost takes all of its workers at once.
        if self._deaths >= max(MOST_DEATHS, 2 * self._keepers) and self._failed is None:
            self._failed = f"{self._deaths} workers ended one after the other, and no rollout did; the last: {how}"
            self._stop(self._failed)
        self._notify()

    async def _listen(self, worker: _Worker) -> str | None:
        """Hear what a worker says, until it is gone; why it is not heard any more, if it said what it must not."""
        async for message in worker.link.messages():
            if isinstance(message, AboutRollout):
                flight = worker.flights.get(message.number)
                if flight is None or flight.result is not None:
                    continue  # of a rollout that was cancelled or has ended: what comes late does not count
                problem = problem_of(message, flight.order)
                if problem is not None:
                    return problem
                self._hear(worker, flight, message)
            elif isinstance(message, WorkerLeaving):
                worker.leaving = True
                self._notify()
            elif isinstance(message, WorkerGone):
                break
        return None

    def _hear(self, worker: _Worker, flight: _Flight, message: AboutRollout) -> None:
        match message:
            case EventHappened():
                flight.sink(message.event)
            case EvidenceStored():
                flight.has_evidence.set()
            case RolloutReturned():
                flight.lose("a worker left, and gave the rollout back", returned=True)
            case RolloutDone() | RolloutRaised():
                self._deaths = 0
                if isinstance(message, RolloutDone):
                    _note_abandoned(worker, message.abandoned)
                flight.end(message)


def _note_abandoned(worker: _Worker, counts: dict[str, int]) -> None:
    """Count a worker's stuck threads with those of this process."""
    _forget_abandoned(worker)
    worker.abandoned = counts
    ABANDONED.update(counts)


def _forget_abandoned(worker: _Worker) -> None:
    ABANDONED.subtract(worker.abandoned)
    worker.abandoned = {}
