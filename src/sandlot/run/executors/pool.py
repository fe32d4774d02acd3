"""Rollouts in workers elsewhere: which worker takes which rollout, and what happens when one dies.

How a worker is started and how messages reach it is a `WorkerLink`: of a process (`processes.py`), of a Ray actor (`ray.py`).
The rest is the same for all and stands here. A rollout goes to the worker that has fewest. If a worker dies, its rollouts are
reported as lost and another is started; a result counts only if it comes from the worker that was asked. A rollout that was lost
more than once gets a worker for itself, so that one that kills its worker cannot fail others. Workers that die again and again
without finishing anything stop the run.
"""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
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
from sandlot.run.executors.executor import WorkerLost
from sandlot.run.executors.messages import (
    CancelRollout,
    EventHappened,
    EvidenceStored,
    FromWorker,
    GradeRollout,
    RolloutDone,
    RolloutRaised,
    TakeRollout,
)
from sandlot.run.executors.setup import task_digest
from sandlot.wiring.parts import grade_at_once

START_S = 120.0
"""Time for a worker to load the environment and open what it needs."""
END_S = 30.0
"""Time for a worker to close its worlds, before it is killed."""
_DEATHS = 8
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


@dataclass(slots=True)
class _Flight:
    """A rollout that a worker takes."""

    sink: Sink
    wait_for_grading: Callable[[], Awaitable[None]]
    began: float = 0.0
    has_evidence: anyio.Event = field(default_factory=anyio.Event)
    """Set when it waits to be graded, or has ended."""
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The wait for a place in the grading queue."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: RolloutDone | RolloutRaised | WorkerLost | None = None

    def end(self, result: RolloutDone | RolloutRaised | WorkerLost) -> None:
        if self.result is None:
            self.result = result
            self.has_evidence.set()
            self.waiting.cancel()  # a rollout that is lost needs no place any more
            self.ended.set()


@dataclass(slots=True)
class _Worker:
    """A worker that is ready."""

    link: WorkerLink
    flights: dict[int, _Flight] = field(default_factory=dict[int, _Flight])
    abandoned: dict[str, int] = field(default_factory=dict[str, int])
    reserved: bool = False
    """One rollout has it, or waits for it to be empty; it takes no others."""


class WorkerPool:
    """An `Executor` whose rollouts are taken by workers elsewhere."""

    def __init__(self, start: StartWorker, stop: Callable[[str], None]) -> None:
        self._start, self._stop = start, stop
        self._workers: list[_Worker] = []
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
        flight = _Flight(sink, wait_for_grading)
        if not alone:
            return await self._run(await self._free_worker(), flight, task, rollout, run, blobs)
        while True:
            async with self._reserved_worker() as worker:
                if worker in self._workers:  # it has not died while it was being emptied
                    return await self._run(worker, flight, task, rollout, run, blobs)

    async def _run(
        self, worker: _Worker, flight: _Flight, task: Task, rollout: int, run: str, blobs: Blobs
    ) -> Trace | WorkerLost:
        self._numbers += 1
        number, flight.began = self._numbers, time.monotonic()
        worker.flights[number] = flight
        try:
            digest = self._digests.get(task.id) or self._digests.setdefault(task.id, task_digest(task))
            await worker.link.send(TakeRollout(number=number, task=task.id, digest=digest, rollout=rollout, run=run))
            await flight.has_evidence.wait()
            if flight.result is None:
                with flight.waiting:
                    await flight.wait_for_grading()
            if flight.result is None:
                await worker.link.send(GradeRollout(number=number))
            await flight.ended.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await flight.ended.wait()  # it has died: whoever waits for it says how
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                with anyio.move_on_after(1):
                    await worker.link.send(CancelRollout(number=number))
            raise
        finally:
            worker.flights.pop(number, None)
            if worker.reserved:
                self._notify()
        match flight.result:
            case RolloutDone(trace=trace, blobs=sent):
                for data in sent:
                    await blobs.put(data)
                return trace
            case RolloutRaised(error=error):
                raise HarnessError(f"a worker could not take rollout {rollout} of task `{task.id}`: {error}")
            case lost:
                assert isinstance(lost, WorkerLost)
                return lost

    async def _free_worker(self) -> _Worker:
        while not (free := [worker for worker in self._workers if not worker.reserved]):
            await (anyio.sleep_forever() if self._failed else self._changed.wait())  # the run is being stopped, or one will start
        return min(free, key=lambda worker: len(worker.flights))

    @asynccontextmanager
    async def _reserved_worker(self) -> AsyncGenerator[_Worker]:
        """A worker without rollouts, which gets none until the block ends; it may have died."""
        worker = await self._free_worker()
        worker.reserved = True
        try:
            while worker.flights and worker in self._workers:
                await self._changed.wait()
            yield worker
        finally:
            worker.reserved = False
            self._notify()

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

    async def keep(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Have one worker, and another when it dies; the first is ready when this has started."""
        told, failures = False, 0
        self._keepers += 1
        while self._failed is None:
            async with AsyncExitStack() as stack:
                try:
                    link = await stack.enter_async_context(self._start())
                except (ConfigError, HarnessError) as error:
                    failures += 1
                    await self._bear(error, failures)
                    continue
                worker, failures = _Worker(link), 0
                self._workers.append(worker)
                self._notify()
                if not told:
                    told = True
                    task_status.started()
                how = await self._serve(worker)
            self._report_death(how)
        if not self._begun:
            raise HarnessError(self._failed)

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

    async def _serve(self, worker: _Worker) -> str:
        """Hear what a worker says until it is gone, and say how it ended. What it had not finished is lost."""
        try:
            await self._listen(worker)
        finally:
            self._workers.remove(worker)
            _forget_abandoned(worker)
        how = await worker.link.describe_end()
        for flight in list(worker.flights.values()):
            flight.end(WorkerLost(f"{how} while it took the rollout", time.monotonic() - flight.began))
        return how

    def _report_death(self, how: str) -> None:
        self._deaths += 1
        # Twice as many as there are workers: a machine that is lost takes all of its workers at once.
        if self._deaths >= max(_DEATHS, 2 * self._keepers) and self._failed is None:
            self._failed = f"{self._deaths} workers ended one after the other, and no rollout did; the last: {how}"
            self._stop(self._failed)
        self._notify()

    async def _listen(self, worker: _Worker) -> None:
        """Hear what a worker says, until it is gone."""
        async for message in worker.link.messages():
            flight = (
                worker.flights.get(message.number)
                if isinstance(message, EventHappened | EvidenceStored | RolloutDone | RolloutRaised)
                else None
            )
            if flight is None:
                continue  # of a rollout that was cancelled
            match message:
                case EventHappened():
                    flight.sink(message.event)
                case EvidenceStored():
                    flight.has_evidence.set()
                case RolloutDone() | RolloutRaised():
                    self._deaths = 0
                    if isinstance(message, RolloutDone):
                        _note_abandoned(worker, message.abandoned)
                    flight.end(message)
                case _:
                    pass


def _note_abandoned(worker: _Worker, counts: dict[str, int]) -> None:
    """Count a worker's stuck threads with those of this process."""
    _forget_abandoned(worker)
    worker.abandoned = counts
    ABANDONED.update(counts)


def _forget_abandoned(worker: _Worker) -> None:
    ABANDONED.subtract(worker.abandoned)
    worker.abandoned = {}
