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
from anyio.streams.memory import MemoryObjectReceiveStream

from sandlot.core.concurrency.garbage import paced_collections
from sandlot.core.concurrency.loop import LOOP_OPTIONS
from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.observe.events import AnyEvent, RunEvent
from sandlot.run.executors.executor import LocalExecutor
from sandlot.run.executors.messages import (
    CancelRollout,
    EventHappened,
    EvidenceStored,
    FromWorker,
    GradeRollout,
    RolloutDone,
    RolloutRaised,
    SetUp,
    TakeRollout,
    ToWorker,
    WorkerReady,
    WorkerRefused,
    in_frame,
    messages_of,
)
from sandlot.run.executors.setup import task_digest, unpack_files
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.models import open_policies
from sandlot.wiring.parts import RolloutParts, open_grading, open_parts

SendMessage = Callable[[FromWorker], None]
_LAST_WORDS_S = 5.0
"""Time for the last messages of a worker that ends."""


class _RolloutBlobs(MemoryBlobs):
    """The blobs of one rollout: they travel with its trace."""

    @property
    def all(self) -> tuple[bytes, ...]:
        return tuple(self._kept.values())


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

    async def take(self, order: TakeRollout) -> None:
        """One rollout; its result is sent unless it is cancelled."""

        def note(event: RunEvent) -> None:
            self._send(EventHappened(number=order.number, event=_known(event)))

        async def wait_for_grading() -> None:
            self._send(EvidenceStored(number=order.number))
            await self._may_grade[order.number].wait()

        blobs = _RolloutBlobs()
        self._may_grade[order.number] = anyio.Event()
        with anyio.CancelScope() as scope:
            self._flying[order.number] = scope
            try:
                task = self._same_task(order)
                trace = await self._executor.run(
                    task, order.rollout, run=order.run, blobs=blobs, sink=note, wait_for_grading=wait_for_grading
                )
                abandoned = {name: count for name, count in ABANDONED.items() if count > 0}
                self._send(RolloutDone(number=order.number, trace=trace, blobs=blobs.all, abandoned=abandoned))
            except Exception as error:  # noqa: BLE001 - the run's process decides; this worker has other rollouts
                self._send(RolloutRaised(number=order.number, error=f"{type(error).__name__}: {error}"))
            finally:
                self._flying.pop(order.number, None)
                self._may_grade.pop(order.number, None)

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


def _known(event: RunEvent) -> AnyEvent:
    """Every event of ours is one of `AnyEvent`; the type checker cannot see that."""
    return event  # pyright: ignore[reportReturnType]


async def serve_run(setup: SetUp, orders: AsyncGenerator[ToWorker], send: SendMessage) -> None:
    """Open everything, say so or refuse, and take rollouts until there are no more orders; what goes on then is cancelled."""
    async with AsyncExitStack() as stack:
        try:
            setup = _localised(setup, stack)
            env = _load_same(setup)
            parts = await open_everything(stack, env, setup)
        except SandlotError as error:
            send(WorkerRefused(reason=str(error)))
            return
        stack.enter_context(paced_collections())
        send(WorkerReady())
        await _obey(_RolloutTaker(parts, {task.id: task for task in tasks_of(env)}, send), orders)


async def _obey(taker: _RolloutTaker, orders: AsyncGenerator[ToWorker]) -> None:
    async with anyio.create_task_group() as rollouts:
        async for order in orders:
            match order:
                case TakeRollout():
                    rollouts.start_soon(taker.take, order)
                case GradeRollout():
                    taker.may_grade(order.number)
                case CancelRollout():
                    taker.cancel(order.number)
                case _:
                    pass
        rollouts.cancel_scope.cancel()


async def work(inherited: socket.socket) -> None:
    """Set up, take rollouts until the socket is closed."""
    outbox, sent = anyio.create_memory_object_stream[bytes](float("inf"))
    async with await anyio.abc.UNIXSocketStream.from_socket(inherited) as stream, anyio.create_task_group() as group:
        group.start_soon(_send, stream, sent)
        orders = messages_of(stream, msgspec.msgpack.Decoder(ToWorker))
        first = await anext(orders, None)
        if isinstance(first, SetUp):
            await serve_run(first, orders, lambda message: outbox.send_nowait(in_frame(message)))
        outbox.close()  # a refusal may not be sent yet
        group.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S


async def _send(stream: anyio.abc.ByteSendStream, frames: MemoryObjectReceiveStream[bytes]) -> None:
    try:
        async for frame in frames:
            await stream.send(frame)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # nobody listens any more; reading ends too


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
        raise ConfigError(
            f"environment `{setup.config.env}` differs from the one that the run began with; use the same files everywhere"
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
