"""Many rollouts: each exactly once, each on disk before it counts, and a reason whenever they stop early."""

import math
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import unwrapped
from sandlot.core.ports.store import Blobs
from sandlot.core.task import Task, split_of
from sandlot.core.trace import Attempt, Failed, Trace, TraceRow, row_of
from sandlot.core.types import Side
from sandlot.rollout import run_rollout
from sandlot.run.breaker import Breaker, FailureExample
from sandlot.run.config import RunPlan
from sandlot.store.directory import RunDirectory
from sandlot.wiring.parts import RolloutParts

_MAX_ABANDONED = 16
"""Worker threads given up on before the run stops: more would slowly take every thread there is."""

_STARTED_TOGETHER = 8
"""Rollouts begun before the loop has a turn: thousands begun in one go would hold it for seconds."""

_FIRST_TASKS = 8
"""Tasks of which one rollout is started before all others: as many as the breaker needs to stop a run."""

_RETRIED = frozenset({Side.SANDBOX, Side.MODEL})
"""Infrastructure that may do better the next time. An author's error is the same every time."""


@dataclass(slots=True)
class Collection:
    """What came of it."""

    stopped: str | None = None
    """Why it ended before everything was done: a sentence; None if nothing is missing."""
    tripped: bool = False
    """True if the run was judged bad, rather than interrupted."""
    num_cancelled: int = 0
    """Rollouts in flight when it stopped; they will be taken again."""
    examples: tuple[FailureExample, ...] = ()
    """Failures that made the run bad."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Everything under way; cancelled when it stops."""
    opening: anyio.CancelScope | None = None
    """What is being opened before there is anything to keep; cancelled too."""

    def stop(self, reason: str, *, tripped: bool = False) -> None:
        """End the run; the first reason counts."""
        if self.stopped is None:
            self.stopped, self.tripped = reason, tripped
            self.scope.cancel()
            if self.opening is not None:
                self.opening.cancel()


async def collect(  # noqa: PLR0913 - what it takes from, where it puts it, and how, all by keyword
    plan: RunPlan,
    parts: RolloutParts,
    store: RunDirectory,
    *,
    collection: Collection,
    run: str,
    at_once: int,
    attempts: int,
    breaker: Breaker,
    watch: Callable[[TraceRow], None],
) -> None:
    """Take every rollout of the plan that is not stored yet, until there are none or `collection` is stopped."""
    done = store.done_keys()
    missing = ((task, rollout) for task, rollout in _launch_order(plan) if (task.id, rollout) not in done)
    in_flight: set[tuple[str, int]] = set()

    async def work(pending: Iterator[tuple[Task, int]]) -> None:
        for task, rollout in pending:
            if collection.stopped is not None:
                return  # a rollout that ends without waiting for anything never sees that its scope was cancelled
            in_flight.add((task.id, rollout))
            trace = await take(parts, store, task, rollout, collection=collection, run=run, attempts=attempts, breaker=breaker)
            if trace is not None:
                in_flight.discard((task.id, rollout))
                watch(row_of(trace, split=split_of(task).value, tags=task.tags))

    try:
        with collection.scope:
            async with anyio.create_task_group() as workers:
                for number in range(min(at_once, plan.num_rollouts)):
                    workers.start_soon(work, missing)
                    if number % _STARTED_TOGETHER == 0:
                        await anyio.lowlevel.checkpoint()
    except BaseExceptionGroup as failures:
        raise unwrapped(failures) from failures  # a store that cannot be written fails for every rollout at once
    collection.num_cancelled = len(in_flight)


def _launch_order(plan: RunPlan) -> Iterator[tuple[Task, int]]:
    """One rollout of each of the first tasks, then task by task: an environment that fails in every task is noticed at once."""
    first = {task.id for task, count in zip(plan.tasks[:_FIRST_TASKS], plan.counts, strict=False) if count}
    yield from ((task, 0) for task in plan.tasks if task.id in first)
    yield from ((task, rollout) for task, rollout in plan.each() if rollout or task.id not in first)


async def take(
    parts: RolloutParts,
    store: RunDirectory,
    task: Task,
    rollout: int,
    *,
    collection: Collection,
    run: str,
    attempts: int,
    breaker: Breaker,
) -> Trace | None:
    """One rollout, on disk when this returns; None if a spend cap cut it short."""
    place = breaker.begin(task.id)
    trace = await _tried(parts, task, rollout, run=run, blobs=store.blobs, attempts=attempts)
    if _unpaid(trace, collection):
        return None
    await store.add(trace, row_of(trace, split=split_of(task).value, tags=task.tags))
    _judge(trace, place, breaker, collection)
    return trace


@asynccontextmanager
async def stopped_by_signals(collection: Collection) -> AsyncGenerator[None]:
    """Ctrl-C and SIGTERM stop the run in order: what is finished is kept, every world is closed.

    Hold it open until everything is closed: a second Ctrl-C must not break what the first one asked for.
    """
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, collection)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None


async def _tried(parts: RolloutParts, task: Task, rollout: int, *, run: str, blobs: Blobs, attempts: int) -> Trace:
    """One rollout, tried again while infrastructure fails; earlier attempts stay inside its trace."""
    earlier: list[Attempt] = []
    while True:
        trace = await run_rollout(parts, task, run=run, rollout=rollout, blobs=blobs)
        trace.attempts = earlier
        outcome = trace.outcome
        if (
            not isinstance(outcome, Failed)
            or outcome.side not in _RETRIED
            or outcome.kind in {"spend", "auth"}
            or len(earlier) + 1 >= attempts
        ):
            return trace
        earlier = [*earlier, Attempt(outcome=outcome, seconds=math.fsum(trace.phases.values()), usage=trace.usage)]


def _unpaid(trace: Trace, collection: Collection) -> bool:
    """True if a spend cap cut this rollout short: it is not a result, and will be taken again when there is a budget."""
    if isinstance(trace.outcome, Failed) and trace.outcome.kind == "spend":
        collection.stop(trace.outcome.message)
        return True
    return False


def _judge(trace: Trace, place: int, breaker: Breaker, collection: Collection) -> None:
    """Tell the breaker how the rollout ended, and look for threads that will not end."""
    outcomes = [*(attempt.outcome for attempt in trace.attempts), trace.outcome]
    failures = {outcome.side: outcome.message for outcome in outcomes if isinstance(outcome, Failed)}
    tripped = breaker.end(place, trace.rollout, failures)
    if tripped is not None:
        collection.stop(tripped.describe(), tripped=True)
        collection.examples = tripped.examples
    if ABANDONED.total() > _MAX_ABANDONED:
        name, count = ABANDONED.most_common(1)[0]
        collection.stop(
            f"`{name}` did not return {count} times after its deadline; make it async, or mark it `isolate=True`", tripped=True
        )


async def _listen(collection: Collection) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for received in signals:
            collection.stop(f"interrupted by {signal.Signals(received).name}; repeat the command to continue")
