"""Rollouts in worker processes: `sandlot run ENV --on processes:8`.

Each worker is a Python process with an event loop of its own (`worker.py`). `pool.py` decides which takes which rollout.
"""

import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from sandlot.core.errors import ConfigError, HarnessError, unwrapped
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import (
    CancelRollout,
    FromWorker,
    GradeRollout,
    SetUp,
    TakeRollout,
    WorkerReady,
    WorkerRefused,
    in_frame,
    messages_of,
)
from sandlot.run.executors.pool import END_S, START_S, WorkerPool
from sandlot.run.executors.setup import MOST_WORKERS, setup_of


@dataclass(slots=True)
class _ProcessLink:
    """A worker process that is ready, and the socket between us."""

    process: anyio.abc.Process
    stream: anyio.abc.SocketStream
    writing: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def send(self, message: TakeRollout | GradeRollout | CancelRollout) -> None:
        async with self.writing:  # frames of several rollouts must not mix
            await self.stream.send(in_frame(message))

    def messages(self) -> AsyncGenerator[FromWorker]:
        return messages_of(self.stream, msgspec.msgpack.Decoder(FromWorker))

    async def describe_end(self) -> str:
        await self.stream.aclose()
        return f"a worker process {await _code_of(self.process)}"


@asynccontextmanager
async def _started(setup: SetUp) -> AsyncGenerator[_ProcessLink]:
    """A worker process that is ready, until the block ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, "-m", "sandlot.run.executors.worker", str(number)]
        # Its own session: Ctrl-C at the terminal reaches this process only, which ends the others in order.
        process = await anyio.open_process(command, stdin=None, stdout=2, stderr=None, start_new_session=True, pass_fds=[number])
    try:
        async with await anyio.abc.UNIXSocketStream.from_socket(ours) as stream:
            with anyio.fail_after(START_S):
                with suppress(anyio.BrokenResourceError):  # it has died already, which the next line finds too
                    await stream.send(in_frame(setup))
                await _require_ready(stream, process)
            yield _ProcessLink(process, stream)
    except TimeoutError as error:
        raise HarnessError(f"a worker process was not ready after {START_S:g} s; name fewer processes") from error
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _require_ready(stream: anyio.abc.SocketStream, process: anyio.abc.Process) -> None:
    match await anext(messages_of(stream, msgspec.msgpack.Decoder(FromWorker)), None):
        case WorkerReady():
            return
        case WorkerRefused(reason=reason):
            raise ConfigError(reason)
        case _:
            raise HarnessError(f"a worker process {await _code_of(process)} before it was ready; its output is above")


async def _code_of(process: anyio.abc.Process) -> str:
    with anyio.move_on_after(END_S):
        code = await process.wait()
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return "closed its connection"


async def _end(process: anyio.abc.Process) -> None:
    """Wait for a worker whose connection is closed; kill it if it takes too long."""
    with anyio.move_on_after(END_S):
        await process.wait()
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def num_processes(given: str) -> int:
    """How many processes `processes:N` asks for; without a number, one for each CPU core."""
    if not given:
        return min(len(os.sched_getaffinity(0)), MOST_WORKERS)
    if not given.isdecimal() or not 1 <= int(given) <= MOST_WORKERS:
        raise ConfigError(f"`processes:{given}`: give a number from 1 to {MOST_WORKERS}, such as `processes:4`")
    return int(given)


@asynccontextmanager
async def open_processes(given: str, plan: ExecutorPlan) -> AsyncGenerator[WorkerPool]:
    """Start as many workers as `given` says; all are ready when the block begins, and have ended when it ends."""
    count = num_processes(given)
    setup = setup_of(plan, count)
    pool = WorkerPool(lambda: _started(setup), plan.stop)
    try:
        async with anyio.create_task_group() as group:
            async with anyio.create_task_group() as starting:
                for _ in range(count):
                    starting.start_soon(group.start, pool.keep)
            pool.begin()
            yield pool
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from errors
