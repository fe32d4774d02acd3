"""Rollouts in worker processes: `sandlot run ENV --on processes:8`.

Each worker is a Python process with an event loop of its own (`worker.py`). `pool.py` decides which takes which rollout.
"""

import functools
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.abc

from sandlot.core.errors import ConfigError, unwrapped
from sandlot.run.executors.connection import MOST_BYTES_HERE, open_connection
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import SetUp
from sandlot.run.executors.pool import END_S, WorkerPool
from sandlot.run.executors.setup import MOST_WORKERS, setup_of
from sandlot.run.executors.stream_link import StreamLink, set_up_worker


@asynccontextmanager
async def _started(setup: SetUp) -> AsyncGenerator[StreamLink]:
    """A worker process that is ready, until the block ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, "-m", "sandlot.run.executors.worker", str(number)]
        # Its own session: Ctrl-C at the terminal reaches this process only, which ends the others in order.
        process = await anyio.open_process(command, stdin=None, stdout=2, stderr=None, start_new_session=True, pass_fds=[number])
    try:
        stream = await anyio.abc.UNIXSocketStream.from_socket(ours)
        async with open_connection(stream, beats=False, most_bytes=MOST_BYTES_HERE) as connection:

            async def how_ended() -> str:
                await connection.hang_up()
                return f"a worker process {await _code_of(process)}"

            link = StreamLink(connection, process.pid, how_ended)
            await set_up_worker(link, setup)
            yield link
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


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
    start = functools.partial(_started, setup_of(plan, count))
    pool = WorkerPool(plan.stop)
    try:
        async with anyio.create_task_group() as group:
            async with anyio.create_task_group() as starting:
                for _ in range(count):
                    starting.start_soon(group.start, pool.keep, start)
            pool.begin()
            yield pool
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from errors
