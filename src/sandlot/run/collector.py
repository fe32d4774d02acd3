"""The collector: takes the rollouts of one run, each exactly once, and stores each before it counts.

`open_collector` is the one way to open a run for writing: sandboxes, judge, users, harness and the run directory. A whole plan
(`collect`) and single rollouts with changing policies (`take`: training, TRL) go through the same steps: try again if
infrastructure failed, store, then count, tell the breaker. A rollout that is graded no longer takes a slot
(`grading_queue.py`). Whatever ends a run early is in its `Collection`, with a reason.
"""

import math
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.crashes import crashes_in
from sandlot.core.errors import ConfigError, unwrapped
from sandlot.core.ports.session import Hook, Policies, Policy
from sandlot.core.task import Task, split_of
from sandlot.core.trace import Attempt, Failed, Trace
from sandlot.core.trace_row import TraceRow, row_of
from sandlot.core.types import INFRASTRUCTURE, End, Side
from sandlot.env.environment import Environment
from sandlot.env.session import world_seed
from sandlot.harness.approval import Approvals
from sandlot.observe.event_log import open_event_log
from sandlot.observe.events import (
    RolloutBegan,
    RolloutEnded,
    RolloutsRequeued,
    RunBegan,
    RunEnded,
    RunSteered,
    Sink,
    fan_out,
    ignore_event,
)
from sandlot.run.breaker import Breaker, FailureExample
from sandlot.run.config import RunPlan
from sandlot.run.control import RunOrder, RunStatus, serve_control
from sandlot.run.executors.executor import Executor, ExecutorPlan, LocalExecutor, WorkerLost
from sandlot.run.executors.load import reported_load
from sandlot.run.executors.processes import open_processes
from sandlot.run.executors.ray import open_ray
from sandlot.run.executors.workers import open_workers
from sandlot.run.launch import LaunchQueue
from sandlot.run.manifest import Manifest
from sandlot.run.prepare import PreparedRun, manifest_of
from sandlot.run.results import Run
from sandlot.run.slots import RolloutStay, Slots
from sandlot.store.directory import RunDirectory, open_run
from sandlot.wiring.parts import Players, RolloutParts, open_grading, open_parts
from sandlot.wiring.plugins import find_opener

JUDGE_CACHE = ".judge"
"""Folder beside the run directories: a judge's verdict is paid for once, by whichever run needs it first."""

_POOL = 16
"""Sandboxes kept ready for the next rollouts."""

_MAX_ABANDONED = 16
"""Worker threads given up on before the run stops: more would slowly take every thread there is."""

LOST = "died"
"""The kind of an attempt whose worker died."""
RETURNED = "returned"
"""The kind of an attempt whose worker left in order, before it had finished."""
MOST_LOST = 4
"""A rollout that loses so many workers is the reason, and is counted as failed."""
_SHARED_LOSSES = 2
"""After so many, a rollout gets a worker for itself: those before may have been killed by another rollout."""
_EXECUTORS: dict[str, Callable[..., AbstractAsyncContextManager[Executor]]] = {
    "processes": open_processes,
    "ray": open_ray,
    "workers": open_workers,
}


def is_lost_worker(outcome: Failed) -> bool:
    """True if the worker died or left. Sandboxes die too: a kind alone does not say what died."""
    return outcome.side is Side.HARNESS and outcome.kind in {LOST, RETURNED}


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
    requeued: bool = False
    """True if failed rollouts are to be taken again when the others are done."""
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
    parts: RolloutParts | None
    """What every rollout has in common; None if they are taken elsewhere than in this process."""
    executor: Executor | None
    """Takes the rollouts of a plan; None if every `take` has policies of its own."""
    store: RunDirectory
    collection: Collection
    sink: Sink
    slots: Slots
    breaker: Breaker
    since: float
    """When this sitting began."""
    approvals: Approvals | None = None
    """Holds turns for a person; None if no turn waits."""

    @property
    def name(self) -> str:
        """The name that sampling seeds are derived from."""
        return self.prepared.name or self.manifest.run

    async def collect(self, plan: RunPlan) -> None:
        """Take every rollout of the plan that is not stored yet, until there are none or the run is stopped."""
        if self.executor is None:
            raise ConfigError("this collector was opened without policies; open it with `policies=...`, or call `take`")
        await self._collect(plan, self.executor)
        while self.collection.requeued and self.collection.stopped is None:
            self.collection.requeued = False
            self.sink(RolloutsRequeued(run=self.name, count=await self._retake(plan)))
            await self._collect(plan, self.executor)

    async def _retake(self, plan: RunPlan) -> int:
        """Set aside the failed rollouts that this plan takes again; others of a calibration's run are counted already."""
        planned = {(task.id, number) for task, number in plan.each()}
        return await self.store.retake(lambda row: _is_failed(row) and (row.task, row.rollout) in planned)

    async def _collect(self, plan: RunPlan, executor: Executor) -> None:
        queue, slots = LaunchQueue(plan, self.store.done_keys()), self.slots
        slots.demand.left = len(queue)
        in_flight: set[tuple[str, int]] = set()

        async def work(task: Task, number: int, stay: RolloutStay) -> None:
            try:
                trace = await self._take(executor, task, number, self.prepared.config.attempts, stay)
                if trace is not None:
                    in_flight.discard((task.id, number))
                    queue.note_ended(task.id, math.fsum(trace.phases.values()) - trace.phases.get("waiting", 0.0))
            finally:
                stay.end()

        try:
            with self.collection.until_stopped():
                async with anyio.create_task_group() as workers:
                    while len(queue):
                        slot = await slots.enter(planned=True)
                        if self.collection.stopped is not None:
                            slots.leave(slot)
                            return  # a rollout that ends without waiting for anything never sees that its scope was cancelled
                        task, number = queue.take()
                        slots.demand.left = len(queue)
                        in_flight.add((task.id, number))
                        workers.start_soon(work, task, number, RolloutStay(slots, slot))
        except BaseExceptionGroup as failures:
            raise unwrapped(failures) from failures  # a store that cannot be written fails for every rollout at once
        finally:
            self.collection.num_cancelled = len(in_flight)

    async def take(self, task: Task, number: int, choose: Callable[[], Players], *, attempts: int | None = None) -> Trace | None:
        """One rollout, stored when this returns; None if a spend cap cut it short.

        It starts when there is room, and only then are its players chosen: a training's weights may change while it waits.
        """
        stay = RolloutStay(self.slots)
        try:
            await stay.begin()
            return await self._take(self._with(choose()), task, number, attempts or self.prepared.config.attempts, stay)
        finally:
            stay.end()

    def _with(self, players: Players) -> Executor:
        if self.parts is None:
            raise ConfigError(
                'rollouts with policies of their own are taken in this process; open the collector with `on="local"`'
            )
        seats = {**self.parts.seats, **players.seats}
        return LocalExecutor(replace(self.parts, policies=players.policies, seats=seats))

    async def _take(self, executor: Executor, task: Task, number: int, attempts: int, stay: RolloutStay) -> Trace | None:
        place = self.breaker.begin(task.id)
        trace = await self._try(executor, task, number, attempts, stay)
        if isinstance(trace.outcome, Failed) and trace.outcome.kind == "spend":
            stay.leave_grading()
            await self.slots.wait_for_gradings()  # those are paid for; this one keeps its slot, so few others start meanwhile
            self.collection.stop(trace.outcome.message)  # not a result: it is taken again when there is a budget
            return None
        row = row_of(trace, split=split_of(task).value, tags=task.tags)
        await self.store.add(trace, row)
        self._judge(trace, place)
        self.sink(RolloutEnded(run=self.name, task=task.id, rollout=number, row=row))
        return trace

    async def _try(self, executor: Executor, task: Task, number: int, attempts: int, stay: RolloutStay) -> Trace:
        """One rollout, tried again while infrastructure fails; earlier attempts stay inside its trace."""
        earlier: list[Attempt] = []
        num_taken_again = num_lost = 0
        while True:
            await stay.begin()  # if grading failed, the next attempt is in flight again
            self.sink(RolloutBegan(run=self.name, task=task.id, rollout=number, attempt=len(earlier) + 1))
            trace = await executor.run(
                task,
                number,
                run=self.name,
                blobs=self.store.blobs,
                sink=self.sink,
                alone=num_lost >= _SHARED_LOSSES,
                wait_for_grading=stay.to_grading,
            )
            if isinstance(trace, WorkerLost):
                num_taken_again += 1
                num_lost += not trace.returned
                outcome = Failed(Side.HARNESS, RETURNED if trace.returned else LOST, trace.reason)
                if num_lost == MOST_LOST:
                    return self._cut_trace(task, number, outcome, earlier)
                # It has no result that could be better or worse than the next one: taking it again is honest.
                earlier = [*earlier, Attempt(outcome=outcome, seconds=trace.seconds)]
                continue
            trace.attempts = earlier
            outcome = trace.outcome
            if (
                not isinstance(outcome, Failed)
                or outcome.side not in INFRASTRUCTURE
                or outcome.kind in {"spend", "auth"}
                or len(earlier) + 1 - num_taken_again >= attempts
            ):
                return trace
            earlier = [*earlier, Attempt(outcome=outcome, seconds=math.fsum(trace.phases.values()), usage=trace.usage)]

    def _cut_trace(self, task: Task, number: int, outcome: Failed, earlier: list[Attempt]) -> Trace:
        """The trace of a rollout of which nothing is left."""
        seed = world_seed(self.prepared.env, task)
        trace = Trace(run=self.name, task=task.id, rollout=number, seed=seed, started=time.time(), attempts=earlier)
        trace.end, trace.outcome = End.CUT, outcome
        return trace

    def _judge(self, trace: Trace, place: int) -> None:
        """Tell the breaker how the rollout ended, and look for threads that will not end."""
        # A worker that died or left says nothing about the environment, if another one could take the rollout.
        others = (attempt.outcome for attempt in trace.attempts if not is_lost_worker(attempt.outcome))
        outcomes = [*others, trace.outcome]
        failures = {outcome.side: outcome.message for outcome in outcomes if isinstance(outcome, Failed)}
        tripped = self.breaker.end(place, trace.rollout, failures, crashes_in(trace))
        if tripped is not None:
            self.collection.stop(tripped.describe(), tripped=True)
            self.collection.examples = tripped.examples
        if ABANDONED.total() > _MAX_ABANDONED:
            name, count = ABANDONED.most_common(1)[0]
            reason = f"`{name}` did not return {count} times after its deadline; make it async, or mark it `isolate=True`"
            self.collection.stop(reason, tripped=True)

    def obey(self, order: RunOrder) -> RunStatus:
        """Do what a person asks for from outside, and say how the run stands."""
        slots = self.slots
        match order.do:
            case "pause":
                slots.pause()
            case "resume":
                slots.resume()
            case "set":
                slots.resize(order.at_once or slots.at_once)
            case "stop":
                self.collection.stop("stopped by `sandlot stop`; repeat the command to continue")
            case "requeue":
                self._require_plan()
                if self.collection.stopped is not None:
                    raise ConfigError("the run is stopping; requeue it when it has ended")
                self.collection.requeued = True
            case "approve" | "change" | "refuse":
                self._answer(order)
            case "status":
                return self._status()
        self.sink(RunSteered(run=self.name, order=order.do, paused=slots.paused, at_once=slots.at_once))
        return self._status()

    def _answer(self, order: RunOrder) -> None:
        if self.approvals is None:
            raise ConfigError("no turn waits for a person in this run; start it with `sandlot run --approve`")
        verdicts: dict[str, Literal["approved", "changed", "refused"]] = {"approve": "approved", "change": "changed"}
        self.approvals.answer(order.held or "", verdicts.get(order.do, "refused"), order.calls or ())

    def _require_plan(self) -> None:
        if self.executor is None:
            raise ConfigError("a training takes no rollout again: it has learned from them, or will; nothing to requeue")

    def _status(self) -> RunStatus:
        load = self.executor.load if self.executor is not None else None
        return RunStatus(
            run=self.store.path.name,
            pid=os.getpid(),
            state="stopping" if self.collection.stopped is not None else "paused" if self.slots.paused else "running",
            at_once=self.slots.at_once,
            limit=self.slots.limit,
            waits=self.slots.waits,
            in_flight=self.slots.in_flight,
            grading=self.slots.gradings.num_grading,
            done=len(self.store),
            planned=None if self.executor is None else self.prepared.plan.num_rollouts,
            requeued=self.collection.requeued,
            workers=load.num_workers if load is not None else None,
            waiting=load.num_waiting if load is not None else 0,
            held=self.approvals.held if self.approvals is not None else (),
            since=self.since,
        )

    @asynccontextmanager
    async def open_beside(self, prepared: PreparedRun, path: Path, players: Players) -> AsyncGenerator["Collector"]:
        """A second run with the same sandboxes, harness and users: an evaluation of a training."""
        opened = (self.parts, self._with(players))
        with self.slots.open_beside() as slots:
            async with _open_directory(prepared, path, opened, Collection(), self.sink, slots) as collector:
                yield collector


@asynccontextmanager
async def open_collector(
    prepared: PreparedRun,
    path: Path,
    *,
    policies: AbstractAsyncContextManager[Policies] = nullcontext(_NoPolicies()),  # noqa: B008 - it holds nothing
    collection: Collection | None = None,
    sink: Sink = ignore_event,
    approve: bool = False,
    slots: Slots | None = None,
    on: str = "local",
) -> AsyncGenerator[Collector]:
    """Open everything that rollouts of a run need, make or continue its directory, and close it all at the end.

    `policies` are opened before the directory: a model that is refused leaves no empty run behind. Leave
    them out if every `take` has its own. With `approve`, turns that the environment holds wait for a person. `slots` are places
    in a room that other runs share. `on` says where rollouts are taken: in this process, with these policies, or in
    `processes:N`, on `ray` or by `workers:HOST:PORT` that join, which open their own.
    """
    config, env = prepared.config, prepared.env
    manifest_of(prepared, path)  # refuses another run's directory before anything is opened
    approvals = _open_approvals(env) if approve else None
    hooks = (approvals,) if approvals is not None else ()
    collection = collection or Collection()
    async with AsyncExitStack() as stack:
        if on != "local":
            opened = None, await stack.enter_async_context(_open_executor(on, prepared, path, collection, approve=approve))
        else:
            opened = await _open_here(stack, prepared, path, policies, hooks)
        directory = _open_directory(prepared, path, opened, collection, sink, slots or Slots(config.at_once))
        collector = replace(await stack.enter_async_context(directory), approvals=approvals)
        await stack.enter_async_context(serve_control(path, collector.obey))
        if collector.executor is not None and collector.executor.load is not None:
            await stack.enter_async_context(reported_load(collector.executor, collector.name, collector.sink))
        yield collector


_Opened = tuple[RolloutParts | None, Executor | None]
"""The parts of rollouts in this process, and who takes those of a plan."""


async def _open_here(
    stack: AsyncExitStack,
    prepared: PreparedRun,
    path: Path,
    policies: AbstractAsyncContextManager[Policies],
    hooks: Sequence[Hook],
) -> _Opened:
    """Everything for rollouts in this process."""
    config, env = prepared.config, prepared.env
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
    parts = await stack.enter_async_context(
        open_parts(grading, config.agent, policies, user=config.user, hooks=hooks, seats=config.seat_models)
    )
    if config.seed is not None:
        parts = replace(parts, draws=f"seed-{config.seed}")
    return parts, None if isinstance(parts.policies, _NoPolicies) else LocalExecutor(parts)


@asynccontextmanager
async def _open_executor(
    on: str, prepared: PreparedRun, path: Path, collection: Collection, *, approve: bool
) -> AsyncGenerator[Executor]:
    """Whoever takes rollouts elsewhere than in this process."""
    if approve:
        raise ConfigError(f"turns that wait for a person are held in one process; leave out `--approve`, or `--on {on}`")
    open_it, rest = find_opener("executors", _EXECUTORS, on)
    plan = ExecutorPlan(
        env=prepared.env,
        config=prepared.config,
        fingerprint=prepared.facts.prints.environment,
        cache=path.parent / JUDGE_CACHE,
        stop=lambda reason: collection.stop(reason, tripped=True),
    )
    async with open_it(rest, plan) as executor:
        yield executor


@asynccontextmanager
async def _open_directory(
    prepared: PreparedRun, path: Path, opened: _Opened, collection: Collection, sink: Sink, slots: Slots
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
                parts=opened[0],
                executor=opened[1],
                store=store,
                collection=collection,
                sink=emit,
                slots=slots,
                breaker=Breaker(num_tasks=len(prepared.tasks)),
                since=time.time(),
            )
            emit(
                RunBegan(
                    run=collector.name,
                    path=str(path),
                    environment=prepared.env.name,
                    model=prepared.config.model.shown,
                    num_tasks=len(prepared.tasks),
                    num_planned=prepared.plan.num_rollouts,
                    num_done=len(store),
                    at_once=slots.at_once,
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
    return _is_failed if run.training is None and run.verdict == "stopped" else None


def _open_approvals(env: Environment) -> Approvals:
    if env.marked.hold is None:
        raise ConfigError(f'environment `{env.name}` holds no action for a person; declare one with `env.hold("TOOL")`')
    return Approvals(env.marked.hold)


def _is_failed(row: TraceRow) -> bool:
    return row.outcome == "failed"


@asynccontextmanager
async def stopped_by_signals(*collections: Collection) -> AsyncGenerator[None]:
    """Ctrl-C and SIGTERM stop the runs in order: finished rollouts are kept, every world is closed.

    Hold it open until everything is closed: a second Ctrl-C must not break what the first one asked for.
    """
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, collections)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None


async def _listen(collections: Sequence[Collection]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for received in signals:
            for collection in collections:
                collection.stop(f"interrupted by {signal.Signals(received).name}; repeat the command to continue")
