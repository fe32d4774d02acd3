"""A worker: it loads the environment by itself, and takes the rollouts it is told to, many at a time (`serve_run`).

As a process it is run as `python -m sandlot.run.executors.worker NUMBER`, the descriptor of a socket that it inherits. It ends
when the run's process closes the other end or dies. Rollouts in flight are then cancelled, and every world is closed.
"""

import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.abc
import msgspec

from sandlot.core.concurrency.garbage import paced_collections
from sandlot.core.concurrency.loop import LOOP_OPTIONS
from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import ConfigError, HarnessError, SandboxError, SandlotError
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Trace
from sandlot.core.types import INFRASTRUCTURE, End, Side
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, fingerprint_parts
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.observe.events import RunEvent
from sandlot.run.executors.connection import MOST_BYTES_HERE, open_connection
from sandlot.run.executors.executor import LocalExecutor
from sandlot.run.executors.messages import (
    CancelRollout,
    EventHappened,
    EvidenceStored,
    FromWorker,
    GradeRollout,
    RolloutDone,
    RolloutNote,
    RolloutRaised,
    RolloutReturned,
    SetUp,
    TakeRollout,
    ToWorker,
    WorkerLeaving,
    WorkerReady,
    WorkerRefused,
)
from sandlot.run.executors.setup import describe_difference, task_digest, tasks_digest, unpack_files
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.models import open_policies
from sandlot.wiring.parts import RolloutParts, open_grading, open_parts

SendMessage = Callable[[FromWorker], None]


class _RolloutBlobs(MemoryBlobs):
    """The blobs of one rollout: they travel with its trace."""

    @property
    def all(self) -> tuple[bytes, ...]:
        return tuple(self._kept.values())


class Departure:
    """Asks a worker to leave: it takes no more rollouts, and has some time for those that it has."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        """Time to finish rollouts; those that have not ended by then are returned."""
        self.is_serving = False
        """True from when the worker is ready: before, there is nothing to finish."""
        self.asked = anyio.Event()
        self.hurried = anyio.Event()
        """Set if there is no more time."""


class _RolloutTaker:
    """Takes rollouts, many at a time."""

    def __init__(self, parts: RolloutParts, tasks: dict[str, Task], send: SendMessage) -> None:
        self._executor = LocalExecutor(parts)
        self._tasks = tasks
        self._digests: dict[str, str] = {}
        self._send = send
        self._flying: dict[int, anyio.CancelScope] = {}
        self._may_grade: dict[int, anyio.Event] = {}
        """Of every rollout in flight: set when there is room to grade it."""
        self._is_leaving = False
        self._none_flies = anyio.Event()

    def begin(self, order: TakeRollout, rollouts: anyio.abc.TaskGroup) -> None:
        """Start one rollout, or return it if this worker leaves."""
        if self._is_leaving:
            self._send(RolloutReturned(number=order.number))
            return
        self._flying[order.number] = anyio.CancelScope()
        self._may_grade[order.number] = anyio.Event()
        rollouts.start_soon(self._take, order)

    async def _take(self, order: TakeRollout) -> None:
        """One rollout; its result is sent unless it is cancelled."""

        def note(event: RunEvent) -> None:
            self._send(EventHappened(number=order.number, event=_known(event)))

        async def wait_for_grading() -> None:
            self._send(EvidenceStored(number=order.number))
            await self._may_grade[order.number].wait()

        blobs, trace, scope = _RolloutBlobs(), None, self._flying[order.number]
        try:
            with scope:
                task = self._same_task(order)
                trace = await self._executor.run(
                    task, order.rollout, run=order.run, blobs=blobs, sink=note, wait_for_grading=wait_for_grading
                )
            if self._is_leaving and (scope.cancel_called or _is_infrastructure_failure(trace)):
                self._send(RolloutReturned(number=order.number))  # the leaving itself may have made it fail
            elif trace is not None:
                self._send_result(order.number, trace, blobs.all)
        except Exception as error:  # noqa: BLE001 - the run's process decides; this worker has other rollouts
            if self._is_leaving and scope.cancel_called:
                self._send(RolloutReturned(number=order.number))
            else:
                self._send(RolloutRaised(number=order.number, error=f"{type(error).__name__}: {error}"))
        finally:
            del self._flying[order.number], self._may_grade[order.number]
            if not self._flying:
                self._none_flies.set()

    def _send_result(self, number: int, trace: Trace, blobs: tuple[bytes, ...]) -> None:
        """Send a trace, or one that says why it cannot be sent: that costs this rollout, and not the run."""
        abandoned = {name: count for name, count in ABANDONED.items() if count > 0}
        try:
            self._send(RolloutDone(number=number, trace=trace, blobs=blobs, abandoned=abandoned))
        except (HarnessError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
            outcome = Failed(Side.HARNESS, "unsent", f"a worker could not send its result: {type(error).__name__}: {error}")
            cut = Trace(run=trace.run, task=trace.task, rollout=trace.rollout, seed=trace.seed, started=trace.started)
            cut.end, cut.outcome, cut.phases = End.CUT, outcome, trace.phases
            self._send(RolloutDone(number=number, trace=cut, blobs=(), abandoned=abandoned))

    async def leave(self, departure: Departure) -> None:
        """When it is asked for: take no more, finish what goes on while there is time, and return the rest."""
        await departure.asked.wait()
        self._is_leaving = True
        self._send(WorkerLeaving())
        with anyio.move_on_after(departure.grace_s) as waiting:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when, departure.hurried, waiting)
                await self._wait_until_empty()
                group.cancel_scope.cancel()
        for scope in self._flying.values():
            scope.cancel()
        await self._wait_until_empty()

    async def _wait_until_empty(self) -> None:
        while self._flying:
            self._none_flies = anyio.Event()
            await self._none_flies.wait()

    def _same_task(self, order: TakeRollout) -> Task:
        """The task that is meant; `ConfigError` if it is another one here."""
        task = self._tasks.get(order.task)
        if task is not None and order.task not in self._digests:
            self._digests[order.task] = task_digest(task)
        if task is None or self._digests[order.task] != order.digest:
            raise ConfigError(
                f"task `{order.task}` is not the same for this worker; "
                "let the environment make its tasks from its own files and seed"
            )
        return task

    def may_grade(self, number: int) -> None:
        """There is room to grade a rollout, if it goes on."""
        if number in self._may_grade:
            self._may_grade[number].set()

    def cancel(self, number: int) -> None:
        """Stop one rollout, if it goes on."""
        if number in self._flying:
            self._flying[number].cancel()


def _is_infrastructure_failure(trace: Trace | None) -> bool:
    return trace is not None and isinstance(trace.outcome, Failed) and trace.outcome.side in INFRASTRUCTURE


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _known(event: RunEvent) -> RolloutNote:
    """Every event that is emitted inside a rollout is one of these; the type checker cannot see that."""
    return event  # pyright: ignore[reportReturnType]


async def serve_run(
    setup: SetUp, orders: AsyncGenerator[ToWorker], send: SendMessage, departure: Departure | None = None
) -> None:
    """Open everything, say so or refuse, and take rollouts until there are no more orders; what goes on then is cancelled."""
    async with AsyncExitStack() as stack:
        try:
            setup = _localised(setup, stack)
            env = _load_same(setup)
            parts = await open_everything(stack, env, setup)
        except SandlotError as error:
            send(WorkerRefused(reason=str(error), died=isinstance(error, SandboxError) and error.kind == "died"))
            return
        stack.enter_context(paced_collections())
        send(WorkerReady(fingerprint=setup.fingerprint))
        taker = _RolloutTaker(parts, {task.id: task for task in tasks_of(env)}, send)
        async with anyio.create_task_group() as rollouts:
            if departure is not None:
                departure.is_serving = True
                rollouts.start_soon(_leave, taker, departure, rollouts.cancel_scope)
            await _obey(taker, orders, rollouts)
            rollouts.cancel_scope.cancel()


async def _leave(taker: _RolloutTaker, departure: Departure, serving: anyio.CancelScope) -> None:
    await taker.leave(departure)
    serving.cancel()


async def _obey(taker: _RolloutTaker, orders: AsyncGenerator[ToWorker], rollouts: anyio.abc.TaskGroup) -> None:
    async for order in orders:
        match order:
            case TakeRollout():
                taker.begin(order, rollouts)
            case GradeRollout():
                taker.may_grade(order.number)
            case CancelRollout():
                taker.cancel(order.number)
            case _:
                pass


async def work(inherited: socket.socket) -> None:
    """Set up, take rollouts until the socket is closed."""
    stream = await anyio.abc.UNIXSocketStream.from_socket(inherited)
    async with open_connection(stream, beats=False, most_bytes=MOST_BYTES_HERE) as connection:
        orders = connection.messages(msgspec.msgpack.Decoder(ToWorker))
        first = await anext(orders, None)
        if isinstance(first, SetUp):
            await serve_run(first, orders, connection.say)
        await connection.wait_closed()  # a refusal may not be sent yet


def _localised(setup: SetUp, stack: AsyncExitStack) -> SetUp:
    """The same on a machine that does not have the environment's files: with those that were sent, in a folder of its own."""
    if setup.sent is None or Path(setup.sent.source).exists():
        return setup
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="sandlot-environment-", ignore_cleanup_errors=True)))
    (folder / "files").mkdir()
    place = unpack_files(setup.sent, folder / "files")
    config = msgspec.structs.replace(setup.config, env=str(place))
    return msgspec.structs.replace(setup, config=config, cache=str(folder / "judge"), sent=None)


def _load_same(setup: SetUp) -> Environment:
    """The environment of the run; `ConfigError` if it is not the one that the run was begun with."""
    env = load(setup.config.env).in_image(setup.config.image)
    if environment_fingerprint(env) != setup.fingerprint:
        difference = describe_difference(setup.parts, fingerprint_parts(env))
        raise ConfigError(
            f"environment `{setup.config.env}` differs from the one that the run began with"
            f"{f' ({difference})' if difference else ''}; use the same files everywhere"
        )
    if setup.tasks and tasks_digest(env) != setup.tasks:
        raise ConfigError(
            f"environment `{setup.config.env}` makes other tasks here than where the run began; "
            "let it make them from its own files and seed, and use the same Python and packages everywhere"
        )
    return env


async def open_everything(stack: AsyncExitStack, env: Environment, setup: SetUp) -> RolloutParts:
    """What rollouts need, as in a run in one process."""
    config = setup.config
    grading = await stack.enter_async_context(
        open_grading(
            env, judge=config.judge, rubric=config.rubric, sandbox=config.sandbox, pool=setup.pool, cache=Path(setup.cache)
        )
    )
    policies = open_policies(config.model, config.agent, env)
    parts = await stack.enter_async_context(
        open_parts(grading, config.agent, policies, user=config.user, seats=config.seat_models)
    )
    return replace(parts, draws=f"seed-{config.seed}") if config.seed is not None else parts


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run's process, which then closes the socket
    inherited = socket.socket(fileno=int(sys.argv[1]))
    inherited.set_inheritable(False)  # programs that a rollout starts must not hold it open
    anyio.run(work, inherited, backend_options=LOOP_OPTIONS)
