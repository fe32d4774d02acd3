"""The connection to one sandbox's agent: many conversations over one socket.

Each conversation has a channel number; what comes in is handed to whoever opened that channel. One reader task per link, so that
thousands of idle sandboxes cost a waiting task each. When the link breaks, every conversation on it ends with the same error.
"""

import os
import select
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Protocol

import anyio

from sandlot.core.errors import SandboxError
from sandlot.sandbox.link.wire import Frame, FrameKind, FrameReader, pack_frame, protocol_error, take_failure, take_number

_RECEIVE = 256 << 10


def copy_error(error: SandboxError) -> SandboxError:
    """The same error once more: each place that raises it gets an object, and with it a traceback, of its own."""
    return type(error)(str(error), kind=error.kind)


class ChannelListener(Protocol):
    """Somebody with a channel. Neither method may raise anything but `SandboxError`, nor block."""

    def on_frame(self, frame: Frame) -> None:
        """A frame for this channel."""
        ...

    def on_broken(self, error: SandboxError) -> None:
        """There will be no more frames."""
        ...


class _Connection(Protocol):
    """The bytes to and from one agent, never waited for in here: a non-blocking socket, or what an engine makes look like one."""

    def fileno(self) -> int:
        """What to wait on."""
        ...

    def recv(self, size: int, /) -> bytes:
        """What is there; empty at the end, `BlockingIOError` if there is nothing yet."""
        ...

    def send(self, data: memoryview, /) -> int:
        """How much was taken; `BlockingIOError` for nothing."""
        ...

    def shutdown(self, how: int, /) -> None:
        """End it; whoever waits is woken."""
        ...

    def close(self) -> None:
        """Give the descriptor back."""
        ...


class Link:
    """One agent's connection. `run` must be running for anything to arrive."""

    def __init__(self, connection: _Connection, cause_of_death: Callable[[], Awaitable[SandboxError]] | None = None) -> None:
        self._connection = connection
        self._cause_of_death = cause_of_death
        self._reader = FrameReader()
        self._listeners: dict[int, ChannelListener] = {}
        self._next_channel = 1
        self._sending = anyio.Lock(fast_acquire=True)
        self._running = False
        self._ended = False
        self.broken: SandboxError | None = None

    async def read_hello_fd(self, sock: socket.socket) -> int:
        """Wait for the agent's first words on its socket, and the descriptor of its upper layer that comes with them."""
        fds: list[int] = []

        def receive() -> bytes:
            data, received, _, _ = socket.recv_fds(sock, 4096, 1)
            fds.extend(received)
            return data

        try:
            await self._read_hello(receive)
            if len(fds) != 1:
                raise protocol_error("no greeting")
        except SandboxError:
            for fd in fds:
                os.close(fd)
            raise
        return fds[0]

    async def read_hello(self) -> None:
        """Wait for the first words of an agent that has no descriptor to send with them."""
        await self._read_hello(lambda: self._connection.recv(4096))

    async def _read_hello(self, receive: Callable[[], bytes]) -> None:
        """The greeting; `SandboxError` if the agent could not start."""
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
            raise protocol_error("no greeting")

    async def run(self) -> None:
        """Hand out what arrives until the link is closed or breaks; never raises.

        Only here is the socket closed: a descriptor that is given back while somebody waits for it could be another link's by
        the time the wait is undone.
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
        """Break the link with the reason for its end, as far as anything knows it."""
        error = SandboxError(f"the sandbox died ({how})", kind="died")
        self._ended = True
        if self.broken is None and self._cause_of_death is not None:
            error = await self._cause_of_death()
        self.fail(error)

    def fail(self, error: SandboxError) -> None:
        """Break the link: everyone on it hears the same error, and later calls too."""
        if self.broken is None:
            self.broken = error
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)  # wakes whoever waits, and process 1 dies of it
            if not self._running:
                self._connection.close()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.on_broken(self.broken)

    def close(self) -> None:
        """End the sandbox: its process 1 dies with the socket, and everything in it with process 1."""
        if self.broken is None:
            self.fail(SandboxError("the sandbox is closed", kind="closed"))

    @contextmanager
    def channel(self, listener: ChannelListener) -> Generator[int]:
        """A channel for the time of a conversation; what arrives for it later is ignored."""
        number = self.open_channel(listener)
        try:
            yield number
        finally:
            self.drop_channel(number)

    @property
    def is_gone(self) -> bool:
        """True if the other side is no more, whether or not the news has been read yet."""
        if self.broken is not None or self._ended:
            return True
        poller = select.poll()
        poller.register(self._connection, select.POLLRDHUP)
        return any(event & (select.POLLHUP | select.POLLRDHUP | select.POLLERR) for _, event in poller.poll(0))

    def open_channel(self, listener: ChannelListener) -> int:
        """A fresh channel number for a listener."""
        if self.broken is not None:
            raise copy_error(self.broken)
        number = self._next_channel
        self._next_channel = number % 0xFFFF_FFFF + 1
        self._listeners[number] = listener
        return number

    def drop_channel(self, number: int) -> None:
        """Stop listening."""
        self._listeners.pop(number, None)

    async def send(self, kind: FrameKind, channel: int, payload: bytes = b"") -> None:
        """Send one frame whole."""
        data = memoryview(pack_frame(kind, channel, payload))
        async with self._sending:
            while data:
                if self.broken is not None:
                    raise copy_error(self.broken)
                try:
                    data = data[self._connection.send(data) :]
                except BlockingIOError:
                    # Shielded: a frame half sent would garble every conversation on this link.
                    with anyio.CancelScope(shield=True):
                        await anyio.wait_writable(self._connection)
                except OSError as error:
                    await self._fail_dead(str(error))

    async def ask(self, kind: FrameKind, payload: bytes, *, most: int = 64 << 20) -> tuple[list[bytes], int]:
        """One request and its whole answer: the DATA payloads and the number in DONE. `OSError` if the agent refused."""
        answer = _Answer(most)
        with self.channel(answer) as number:
            await self.send(kind, number, payload)
            await answer.ready.wait()
        if answer.error is not None:
            raise answer.error
        return answer.pieces, answer.value


class _Answer:
    """Gathers the frames of one answer."""

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
                    raise protocol_error("more than was asked for")
                self.pieces.append(frame.payload)
                return
            case FrameKind.DONE:
                self.value = take_number(frame.payload)
            case FrameKind.FAILED:
                number, message = take_failure(frame.payload)
                self.error = OSError(number, message)  # becomes FileNotFoundError and its kin by number
            case _:
                raise protocol_error(f"an answer of kind {frame.kind}")
        self.ready.set()

    def on_broken(self, error: SandboxError) -> None:
        self.error = copy_error(error)
        self.ready.set()
