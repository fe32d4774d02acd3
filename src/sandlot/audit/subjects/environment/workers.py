"""Starts worker processes: a fork of the fork server where possible, else a new interpreter, which costs twenty times as much.

Only workers under default conditions are forked. Another hash seed, time zone or locale must be set before the interpreter
starts. A new interpreter also has another memory layout, which shows results that depend on addresses.
"""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream, SocketStream

from sandlot.audit.subjects.environment.fork_server import CALL, DESCRIPTORS, NUMBER
from sandlot.audit.subjects.worker_process import kill_session, start_child

_START_S = 20.0
"""A fork server that takes longer to fork is not used again."""
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class AuditWorker:
    """A process that does one job."""

    pid: int
    notes: ByteReceiveStream
    errors: ByteReceiveStream
    send_job: Callable[[bytes], Awaitable[None]]
    """Send the whole job; can be called once."""
    wait: Callable[[], Awaitable[int | None]]
    """Wait for its end: exit status, minus the signal, or None if unknown."""


@asynccontextmanager
async def start_worker(settings: Mapping[str, str]) -> AsyncGenerator[AuditWorker]:
    """A new interpreter with these variables; killed afterwards with everything it started."""
    command = [sys.executable, "-m", "sandlot.audit.subjects.environment.worker"]
    async with start_child(command, {**os.environ, **settings}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        stdin = process.stdin

        async def send_job(job: bytes) -> None:
            await stdin.send(job)
            await stdin.aclose()

        yield AuditWorker(process.pid, process.stdout, process.stderr, send_job, process.wait)


class ForkServer:
    """The auditor's end of a fork server."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.lives = True
        """False once it failed to fork: a subject may have killed it."""

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[AuditWorker | None]:
        """A forked worker, killed afterwards with everything it started. None if the fork server does not answer."""
        lines = [socket.socketpair() for _ in range(DESCRIPTORS)]
        async with AsyncExitStack() as stack:
            talk, errors, life = [await _stream(stack, ours) for ours, _ in lines]
            pid = await self._request_fork([theirs for _, theirs in lines], life)
            if pid is None:
                yield None
                return
            try:
                yield _forked(pid, talk, errors, life)
            finally:
                kill_session(pid)

    async def _request_fork(self, theirs: Sequence[socket.socket], life: SocketStream) -> int | None:
        """Request a fork with these descriptors, and return its process id."""
        try:
            with anyio.fail_after(_START_S):
                socket.send_fds(self._control, [CALL], [each.fileno() for each in theirs])
                return _number(await life.receive(NUMBER.size))
        except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
            self.lives = False
            return None
        finally:
            for each in theirs:
                each.close()


@asynccontextmanager
async def open_fork_server(settings: Mapping[str, str]) -> AsyncGenerator[ForkServer]:
    """A fork server with these variables, for as long as the context lasts."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "sandlot.audit.subjects.environment.fork_server"]
    nowhere = subprocess.DEVNULL
    with control, theirs:
        async with start_child(
            command, {**os.environ, **settings}, stdin=theirs.fileno(), stdout=nowhere, stderr=nowhere
        ) as process:
            theirs.close()
            control.settimeout(0)
            try:
                yield ForkServer(control)
            finally:
                control.close()
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await process.wait()


async def _stream(stack: AsyncExitStack, ours: socket.socket) -> SocketStream:
    ours.settimeout(0)
    return await stack.enter_async_context(await SocketStream.from_socket(ours))


def _forked(pid: int, talk: SocketStream, errors: SocketStream, life: SocketStream) -> AuditWorker:
    async def send_job(job: bytes) -> None:
        await talk.send(job)
        await talk.send_eof()

    async def wait() -> int | None:
        try:
            return _number(await life.receive(NUMBER.size))
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None

    return AuditWorker(pid, talk, errors, send_job, wait)


def _number(data: bytes) -> int:
    (number,) = NUMBER.unpack(data)
    return int(number)
