"""The collector: takes the rollouts of one run, each exactly once, and stores each before it counts.

`open_collector` is the one way to open a run for writing: sandboxes, judge, users, harness and the run directory. A whole plan
(`collect`) and single rollouts with changing policies (`take`: training, TRL) go through the same steps: try again if
infrastructure failed, store, then count, tell the breaker. Whatever ends a run early is in its `Collection`, with a reason.
"""

import math
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec

from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import ConfigError, unwrapped
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.task import Task, split_of
from sandlot.core.trace import Attempt, Failed, Trace, TraceRow, row_of
from sandlot.core.types import Side
from sandlot.observe.event_log import open_event_log
from sandlot.observe.events import RolloutBegan, RolloutEnded, RunBegan, RunEnded, Sink, fan_out, ignore_event
from sandlot.rollout import run_rollout
from sandlot.run.breaker import Breaker, FailureExample
from sandlot.run.config import RunPlan
from sandlot.run.manifest import Manifest
from sandlot.run.prepare import PreparedRun, manifest_of
from sandlot.run.results import Run
from sandlot.store.directory import RunDirectory, open_run
from sandlot.wiring.parts import RolloutParts, open_grading, open_parts

JUDGE_CACHE = ".judge"
"""Folder beside the run directories: a judge's verdict is paid for once, by whichever run needs it first."""

_POOL = 16
"""Sandboxes kept ready for the next rollouts."""

_MAX_ABANDONED = 16
"""Worker threads given up on before the run stops: more would slowly take every thread there is."""

_STARTED_TOGETHER = 8
"""Rollouts begun before the loop has a turn: thousands begun in one go would hold it for seconds."""

_FIRST_TASKS = 8
"""Tasks of which one rollout is started before all others: as many as the breaker needs to stop a run."""

_RETRIED = frozenset({Side.SANDBOX, Side.MODEL})
"""Infrastructure, which may work the next time. An author's error is the same every time."""


@dataclass(slots=True)
class Collection:
    """Whether and why a run ended before everything was done."""

    stopped: str | None = None
    """The reason, a sentence; None if nothing is missing."""
    tripped: bool = False
    """True if the run was judged bad, rather than interrupted."""
    num_cancelled: int = 0
    """Rollouts in flight when it stopped; they will be taken again."""
    examples: tuple[FailureExample, ...] = ()
    """Failures that made the run bad."""
    _scopes: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])

    def stop(self, reason: str, *, tripped: bool = False) -> None:
        """End the run; the first reason counts."""
        if self.stopped is None:
            self.stopped, self.tripped = reason, tripped
            for scope in self._scopes:
                scope.cancel()

    @contextmanager
    def until_stopped(self) -> Generator[anyio.CancelScope]:
        """What runs in this block is cancelled when the run stops; the block then ends without an error."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            if self.stopped is not None:
                scope.cancel()
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def release(self, scope: anyio.CancelScope) -> None:
        """Let the rest of an `until_stopped` block run to its end even if the run stops."""
        self._scopes.discard(scope)


class _NoPolicies:
    """Stands where `take` is given other policies each time."""

    name = "none"

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Collector:
    """One run, open for writing."""

    prepared: PreparedRun
    manifest: Manifest
    parts: RolloutParts
    """What every rollout has in common."""
    store: RunDirectory
    collection: Collection
    sink: Sink
    limiter: anyio.CapacityLimiter
    breaker: Breaker

    @property
    def name(self) -> str:
        """The name that sampling seeds are derived from."""
        return self.prepared.name or self.manifest.run

    async def collect(self, plan: RunPlan) -> None:
        """Take every rollout of the plan that is not stored yet, until there are none or the run is stopped."""
        if isinstance(self.parts.policies, _NoPolicies):
            raise ConfigError("this collector was opened without policies; open it with `policies=...`, or call `take`")
        done = self.store.done_keys()
        missing = ((task, number) for task, number in _launch_order(plan) if (task.id, number) not in done)
        in_flight: set[tuple[str, int]] = set()

        async def work(pending: Iterator[tuple[Task, int]]) -> None:
            for task, number in pending:
                if self.collection.stopped is not None:
                    return  # a rollout that ends without waiting for anything never sees that its scope was cancelled
                in_flight.add((task.id, number))
                if await self._take(self.parts, task, number, self.prepared.config.attempts) is not None:
                    in_flight.discard((task.id, number))

        try:
            with self.collection.until_stopped():
                async with anyio.create_task_group() as workers:
                    for number in range(min(self.prepared.config.at_once, plan.num_rollouts)):
                        workers.start_soon(work, missing)
                        if number % _STARTED_TOGETHER == 0:
                            await anyio.lowlevel.checkpoint()
        except BaseExceptionGroup as failures:
            raise unwrapped(failures) from failures  # a store that cannot be written fails for every rollout at once
        finally:
            self.collection.num_cancelled = len(in_flight)

    async def take(self, task: Task, number: int, choose: Callable[[], Policies], *, attempts: int | None = None) -> Trace | None:
        """One rollout, stored when this returns; None if a spend cap cut it short.

        It starts when there is room, and only then are its policies chosen: a training's weights may change while it waits.
        """
        async with self.limiter:
            parts = replace(self.parts, policies=choose())
            return await self._take(parts, task, number, attempts or self.prepared.config.attempts)

    async def _take(self, parts: RolloutParts, task: Task, number: int, attempts: int) -> Trace | None:
        place = self.breaker.begin(task.id)
        trace = await self._try(parts, task, number, attempts)
        if isinstance(trace.outcome, Failed) and trace.outcome.kind == "spend":
            self.collection.stop(trace.outcome.message)  # not a result: it is taken again when there is a budget
            return None
        row = row_of(trace, split=split_of(task).value, tags=task.tags)
        await self.store.add(trace, row)
        self._judge(trace, place)
        self.sink(RolloutEnded(run=self.name, task=task.id, rollout=number, row=row))
        return trace

    async def _try(self, parts: RolloutParts, task: Task, number: int, attempts: int) -> Trace:
        """One rollout, tried again while infrastructure fails; earlier attempts stay inside its trace."""
        earlier: list[Attempt] = []
        while True:
            self.sink(RolloutBegan(run=self.name, task=task.id, rollout=number, attempt=len(earlier) + 1))
            trace = await run_rollout(parts, task, run=self.name, rollout=number, blobs=self.store.blobs)
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

    def _judge(self, trace: Trace, place: int) -> None:
        """Tell the breaker how the rollout ended, and look for threads that will not end."""
        outcomes = [*(attempt.outcome for attempt in trace.attempts), trace.outcome]
        failures = {outcome.side: outcome.message for outcome in outcomes if isinstance(outcome, Failed)}
        tripped = self.breaker.end(place, trace.rollout, failures)
        if tripped is not None:
            self.collection.stop(tripped.describe(), tripped=True)
            self.collection.examples = tripped.examples
        if ABANDONED.total() > _MAX_ABANDONED:
            name, count = ABANDONED.most_common(1)[0]
            reason = f"`{name}` did not return {count} times after its deadline; make it async, or mark it `isolate=True`"
            self.collection.stop(reason, tripped=True)

    @asynccontextmanager
    async def open_beside(self, prepared: PreparedRun, path: Path, policies: Policies) -> AsyncGenerator["Collector"]:
        """A second run with the same sandboxes, harness and users: an evaluation of a training."""
        parts = replace(self.parts, policies=policies)
        async with _open_directory(prepared, path, parts, Collection(), self.sink) as collector:
            yield collector


@asynccontextmanager
async def open_collector(
    prepared: PreparedRun,
    path: Path,
    *,
    policies: AbstractAsyncContextManager[Policies] = nullcontext(_NoPolicies()),  # noqa: B008 - it holds nothing
    collection: Collection | None = None,
    sink: Sink = ignore_event,
) -> AsyncGenerator[Collector]:
    """Open everything that rollouts of a run need, make or continue its directory, and close it all at the end.

    `policies` are opened before the directory: a model that is refused leaves no empty run behind. Leave
    them out if every `take` has its own.
    """
    config, env = prepared.config, prepared.env
    manifest_of(prepared, path)  # refuses another run's directory before anything is opened
    async with AsyncExitStack() as stack:
        grading = await stack.enter_async_context(
            open_grading(
                env,
                judge=config.judge,
                rubric=config.rubric,
                sandbox=config.sandbox,
                pool=min(config.at_once, _POOL),
                cache=path.parent / JUDGE_CACHE,
            )
        )
        parts = await stack.enter_async_context(open_parts(grading, config.agent, policies, user=config.user))
        if config.seed is not None:
            parts = replace(parts, draws=f"seed-{config.seed}")
        yield await stack.enter_async_context(_open_directory(prepared, path, parts, collection or Collection(), sink))


@asynccontextmanager
async def _open_directory(
    prepared: PreparedRun, path: Path, parts: RolloutParts, collection: Collection, sink: Sink
) -> AsyncGenerator[Collector]:
    """The run directory with its event log, and the collector that writes to it."""
    manifest = manifest_of(prepared, path)
    encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    async with open_run(path, manifest=encoded, retake=_to_retake(path)) as store:
        with open_event_log(path) as log:
            emit = fan_out(log, sink)
            collector = Collector(
                prepared=prepared,
                manifest=manifest,
                parts=replace(parts, sink=emit),
                store=store,
                collection=collection,
                sink=emit,
                limiter=anyio.CapacityLimiter(prepared.config.at_once),
                breaker=Breaker(num_tasks=len(prepared.tasks)),
            )
            emit(
                RunBegan(
                    run=collector.name,
                    path=str(path),
                    environment=prepared.env.name,
                    model=prepared.config.model.shown,
                    num_tasks=len(prepared.tasks),
                    num_planned=prepared.plan.num_rollouts,
                    num_done=len(store.done_keys()),
                )
            )
            failed: str | None = None
            try:
                yield collector
            except BaseException as error:
                cause = unwrapped(error)
                failed = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else "interrupted"
                raise
            finally:
                emit(
                    RunEnded(
                        run=collector.name,
                        stopped=collection.stopped or failed,
                        tripped=collection.tripped,
                        num_cancelled=collection.num_cancelled,
                    )
                )


def _to_retake(path: Path) -> Callable[[TraceRow], bool] | None:
    """Of a run that was stopped as bad: what failed, to be taken again. What was wrong may have been repaired since."""
    if not (path / "manifest.json").exists():
        return None
    run = Run(path)
    return (lambda row: row.outcome == "failed") if not run.is_training and run.verdict == "stopped" else None


def _launch_order(plan: RunPlan) -> Iterator[tuple[Task, int]]:
    """One rollout of each of the first tasks, then task by task: an environment that fails in every task is noticed at once."""
    first = {task.id for task, count in zip(plan.tasks[:_FIRST_TASKS], plan.counts, strict=False) if count}
    yield from ((task, 0) for task in plan.tasks if task.id in first)
    yield from ((task, number) for task, number in plan.each() if number or task.id not in first)


@asynccontextmanager
async def stopped_by_signals(collection: Collection) -> AsyncGenerator[None]:
    """Ctrl-C and SIGTERM stop the run in order: finished rollouts are kept, every world is closed.

    Hold it open until everything is closed: a second Ctrl-C must not break what the first one asked for.
    """
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, collection)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None


async def _listen(collection: Collection) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for received in signals:
            collection.stop(f"interrupted by {signal.Signals(received).name}; repeat the command to continue")
