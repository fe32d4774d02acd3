"""The connection to one sandbox's agent: many channels over one socket.

Each request has a channel number; frames that arrive are passed to the listener of their channel. One task reads each link, so an
idle sandbox costs one waiting task. When the link breaks, every channel on it ends with the same error.
"""

import os
import select
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from typing import Protocol, TypeVar

import anyio

from sandlot.core.errors import SandboxError
from sandlot.sandbox.link.wire import Frame, FrameKind, FrameReader, pack_frame, protocol_error, take_failure, take_number

_RECEIVE = 256 << 10
_UNREAD_S = 120.0
"""Time for the agent to read what was sent. It reads at once unless it is stopped, and nothing else ends that wait."""

ENDED = "ended"
"""Kind of the error with which a link breaks when all processes were killed on purpose: commands have then ended by a signal."""


_Error = TypeVar("_Error", bound=Exception)


def copy_error(error: _Error) -> _Error:
    """A copy of an error without its traceback: each place that raises a stored error needs one of its own.

    A traceback holds frames, and these hold the link: with the error in it they would be a cycle, which Python frees much later.
    """
    return copy(error)


class _Listener(Protocol):
    """Receives the frames of one channel, or the end of the link. Must not block, and may raise only `SandboxError`."""

    def on_frame(self, frame: Frame) -> None: ...
    def on_broken(self, error: SandboxError) -> None: ...


class _Connection(Protocol):
    """The bytes to and from one agent: a non-blocking socket, or Docker's attached streams.

    `recv` returns empty bytes at the end; `recv` and `send` raise `BlockingIOError` if nothing can be received or sent yet.
    """

    def fileno(self) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: memoryview, /) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Link:
    """One agent's connection. `run` must be running for anything to arrive."""

    def __init__(
        self,
        connection: _Connection,
        cause_of_death: Callable[[], Awaitable[SandboxError]] | None = None,
        on_idle: Callable[[bool], None] | None = None,
    ) -> None:
        """`on_idle` is called with True when processes are left inside and nothing is asked of them, with False before it is."""
        self._connection = connection
        self._cause_of_death = cause_of_death
        self._on_idle = on_idle
        self._is_idle = False
        self._reader = FrameReader()
        self._listeners: dict[int, _Listener] = {}
        self._next_channel = 1
        self._sending = anyio.Lock(fast_acquire=True)
        self._running = False
        self._ended = False
        self.broken: SandboxError | None = None
        self.others_live = False
        """What the agent last reported: whether processes are left of the commands that have ended."""

    async def read_hello_fd(self, sock: socket.socket) -> int:
        """Wait for the agent's HELLO on its socket; returns the descriptor of its upper layer, which comes with it."""
        fds: list[int] = []

        def receive() -> bytes:
            data, received, _, _ = socket.recv_fds(sock, 4096, 1)
            fds.extend(received)
            return data

        try:
            await self.read_hello(receive)
            if len(fds) != 1:
                raise protocol_error("something else than HELLO")
        except SandboxError:
            for fd in fds:
                os.close(fd)
            raise
        return fds[0]

    async def read_hello(self, receive: Callable[[], bytes] | None = None) -> None:
        """Wait for HELLO, received from the connection if not by `receive`; `SandboxError` if the agent could not start."""
        receive = receive or (lambda: self._connection.recv(4096))
        frames: list[Frame] = []
        while not frames:
            try:
                data = receive()
            except BlockingIOError:
                await anyio.wait_readable(self._connection)
                continue
            except OSError as error:
                raise SandboxError(f"the sandbox could not be reached: {error}", kind="start") from error
            if not data:
                raise SandboxError("the sandbox died before it was ready", kind="start")
            frames = self._reader.feed(data)
        if frames[0].kind == FrameKind.FAILED:
            raise SandboxError(f"the sandbox could not start: {take_failure(frames[0].payload)[1]}", kind="start")
        if frames[0].kind != FrameKind.HELLO or frames[0].payload != b"\1\0\0\0":
            raise protocol_error("something else than HELLO")

    async def run(self) -> None:
        """Pass on frames until the link is closed or breaks; never raises.

        The socket is closed only here: if it were closed while a task waits for it, its number could belong to another link
        when the wait ends.
        """
        self._running = self.broken is None
        try:
            await self._receive()
        finally:
            if self._running:
                with anyio.CancelScope(shield=True):
                    async with self._sending:
                        self._connection.close()

    async def _receive(self) -> None:
        try:
            while self.broken is None:
                await anyio.wait_readable(self._connection)
                try:
                    data = self._connection.recv(_RECEIVE)
                except BlockingIOError:
                    continue
                if not data:
                    await self._fail_dead("the connection ended")
                for item in self._reader.feed(data):
                    listener = self._listeners.get(item.channel)
                    if listener is not None:
                        listener.on_frame(item)
        except SandboxError as error:
            self.fail(error)
        except OSError as error:
            await self._fail_dead(str(error))

    async def _fail_dead(self, how: str) -> None:
        """Break the link with the reason for its end, as far as it is known."""
        error = SandboxError(f"the sandbox died ({how})", kind="died")
        self._ended = True
        if self.broken is None and self._cause_of_death is not None:
            error = await self._cause_of_death()
        self.fail(error)

    def fail(self, error: SandboxError) -> None:
        """Break the link: every channel gets the error, and later calls raise it."""
        if self.broken is None:
            self.broken = copy_error(error)
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)  # wakes the waiters, and process 1 exits
            if not self._running:
                self._connection.close()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.on_broken(self.broken)

    def close(self) -> None:
        """End the sandbox: its process 1 exits when the socket closes, and every process in it ends with process 1."""
        if self.broken is None:
            self.fail(SandboxError("the sandbox is closed", kind="closed"))

    @property
    def is_gone(self) -> bool:
        """True if the other side has closed the connection, also if that has not been read yet."""
        if self.broken is not None or self._ended:
            return True
        poller = select.poll()
        poller.register(self._connection, select.POLLRDHUP)
        return any(event & (select.POLLHUP | select.POLLRDHUP | select.POLLERR) for _, event in poller.poll(0))

    def open_channel(self, listener: _Listener) -> int:
        """Open a channel for a listener and return its number."""
        if self.broken is not None:
            raise copy_error(self.broken)
        number = self._next_channel
        self._next_channel = number % 0xFFFF_FFFF + 1
        self._listeners[number] = listener
        if self._is_idle and self._on_idle is not None:
            self._is_idle = False
            self._on_idle(False)  # noqa: FBT003 - as documented in `__init__`
        return number

    def drop_channel(self, number: int) -> None:
        """Close a channel: its frames are ignored from now on."""
        self._listeners.pop(number, None)
        if self.others_live and not self._listeners and not self._is_idle and self.broken is None and self._on_idle is not None:
            self._is_idle = True
            self._on_idle(True)  # noqa: FBT003 - as documented in `__init__`

    async def send(self, kind: FrameKind, channel: int, payload: bytes = b"") -> None:
        """Send one frame. It cannot be cancelled, so callers know that a frame they have counted is sent.

        A frame that is sent in part would also corrupt every channel of this link.
        """
        data = memoryview(pack_frame(kind, channel, payload))
        with anyio.CancelScope(shield=True):
            async with self._sending:
                while data:
                    if self.broken is not None:
                        raise copy_error(self.broken)
                    try:
                        data = data[self._connection.send(data) :]
                    except BlockingIOError:
                        with anyio.move_on_after(_UNREAD_S) as scope:
                            await anyio.wait_writable(self._connection)
                        if scope.cancelled_caught:
                            self.fail(SandboxError(f"the sandbox has read nothing for {_UNREAD_S:g} s", kind="died"))
                    except OSError as error:
                        await self._fail_dead(str(error))

    async def ask(self, kind: FrameKind, payload: bytes, *, most: int = 64 << 20) -> tuple[list[bytes], int]:
        """Send a request and wait for its answer: the DATA payloads and the number in DONE. `OSError` if the agent refused."""
        answer = _Answer(most)
        number = self.open_channel(answer)
        try:
            await self.send(kind, number, payload)
            await answer.ready.wait()
        finally:
            self.drop_channel(number)
        if answer.error is not None:
            raise copy_error(answer.error)
        return answer.pieces, answer.value


class _Answer:
    """Collects the frames of one answer."""

    def __init__(self, most: int) -> None:
        self.ready = anyio.Event()
        self.pieces: list[bytes] = []
        self.value = 0
        self.error: Exception | None = None
        self._left = most

    def on_frame(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.DATA:
                self._left -= len(frame.payload)
                if self._left < 0:
                    raise protocol_error("more data than requested")
                self.pieces.append(frame.payload)
                return
            case FrameKind.DONE:
                self.value = take_number(frame.payload)
            case FrameKind.FAILED:
                number, message = take_failure(frame.payload)
                self.error = OSError(number, message)  # becomes FileNotFoundError and so on, by number
            case _:
                raise protocol_error(f"an answer of kind {frame.kind}")
        self.ready.set()

    def on_broken(self, error: SandboxError) -> None:
        self.error = error
        self.ready.set()
