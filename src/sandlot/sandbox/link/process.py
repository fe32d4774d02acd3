"""A command running in a sandbox: its input, output and exit code, over the link."""

import functools
import signal
from collections import deque
from collections.abc import AsyncIterator

import anyio

from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.link.link import ENDED, Link, copy_error
from sandlot.sandbox.link.wire import (
    FRAME_MAX,
    WINDOW,
    Frame,
    FrameKind,
    pack_text,
    pack_texts,
    protocol_error,
    take_exit,
    take_failure,
    take_number,
)

_PIECE = 64 << 10
_FINAL = 4 << 20
"""Output that may exceed the window when a command ends: what was still in its pipes."""

_NAMES = ("stdout", "stderr")
_UNLIMITED = (1 << 64) - 1

_ENVIRONMENT = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LOGNAME": "root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SHELL": "/bin/sh",
    "TERM": "xterm",
    "TZ": "UTC",
    "USER": "root",
}
"""Environment variables of every command, the same in every sandbox; `Command.env` adds to them or replaces them."""


class Channel:
    """A channel that carries streams: output within a window granted by the reader, input within one granted by the agent."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.number = link.open_channel(self)
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._changed: anyio.Event | None = None
        self._untaken = 0
        self._ungranted = 0
        self._queued = b""
        self.code: int | None = None
        self.dropped = 0
        self._ended = False
        self._closed = False
        self._accepted = False
        self._error: Exception | None = None

    def on_frame(self, frame: Frame) -> None:
        """Keep what arrived and wake the waiters."""
        match frame.kind:
            case FrameKind.OUTPUT:
                if not frame.payload or frame.payload[0] >= len(_NAMES):
                    raise protocol_error("output of an unknown stream")
                self._keep(frame.payload[0], frame.payload[1:])
            case FrameKind.TAKEN:
                self._untaken -= take_number(frame.payload)
            case FrameKind.EXITED:
                self.code, self.dropped, self._link.others_live = take_exit(frame.payload)
                self._close()
            case FrameKind.CLOSED:
                self._close()
            case FrameKind.DONE:
                self._accepted = True
            case FrameKind.FAILED:
                number, message = take_failure(frame.payload)
                self._fail(OSError(number, message))
            case _:
                raise protocol_error(f"a frame of kind {frame.kind} on a stream")
        self._wake()

    def _keep(self, which: int, data: bytes) -> None:
        if self._ended:
            raise protocol_error("output after the end of output")
        if not data:
            self._ended = True
            return
        self._pieces.append((which, data))
        self._ungranted += len(data)
        if self._ungranted > WINDOW + _FINAL:
            raise protocol_error("more output than its window allows")

    def on_broken(self, error: SandboxError) -> None:
        """Give the error to every waiter. A command that was killed on purpose has ended."""
        if error.kind == ENDED:
            self.code = -signal.SIGKILL
            self._close()
        else:
            self._fail(error)
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._close()

    def _close(self) -> None:
        self._closed = True
        self._link.drop_channel(self.number)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _next_change(self) -> anyio.Event:
        """An event that is set at the next frame. Made only for a waiter: most frames have none, and events cost time."""
        if self._changed is None:
            self._changed = anyio.Event()
        return self._changed

    async def request(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Send a frame of this channel."""
        await self._link.send(kind, self.number, payload)

    async def wait_accepted(self) -> bool:
        """Wait until the agent has accepted a connection; False if there will be none."""
        while not self._accepted and not self._closed:
            await self._next_change().wait()
        if self._error is not None:
            raise copy_error(self._error)
        return self._accepted

    async def wait_drained(self) -> None:
        """Wait until the agent has passed on all input, or the channel is over."""
        while self._untaken > 0 and not self.is_over():
            await self._next_change().wait()

    def abandon(self) -> None:
        """Close the channel on this side; waiters get its end."""
        self._close()
        self._wake()

    async def next_piece(self) -> tuple[int, bytes] | None:
        """The next piece of output; None at the end."""
        while not self._pieces:
            if self._error is not None:
                raise copy_error(self._error)
            if self._closed or self._ended:
                return None
            await self._wait()
        which, data = self._pieces.popleft()
        if self._ungranted >= WINDOW // 2 and not self._pieces and not self._closed and self._error is None:
            granted, self._ungranted = self._ungranted, 0
            await self.request(FrameKind.GRANT, granted.to_bytes(8, "little"))
        return which, data

    async def wait_exit(self) -> int:
        """Wait for the end of the command."""
        while self.code is None:
            if self._error is not None:
                raise copy_error(self._error)
            if self._closed:
                raise protocol_error("the end of a command without its exit code")
            await self._wait()
        return self.code

    async def send_input(self, data: bytes) -> None:
        """Send input; waits while the other side does not read. Empty bytes close the input."""
        view = memoryview(data)
        if not view:
            await self.request(FrameKind.INPUT)
        while view:
            if self._error is not None:
                raise copy_error(self._error)
            if self._closed:
                return  # the reader is gone; for a pipe this would be SIGPIPE, which is ignored too
            if self._untaken >= WINDOW:
                await self._next_change().wait()
                continue
            part, view = view[:_PIECE], view[_PIECE:]
            self._untaken += len(part)
            await self.request(FrameKind.INPUT, bytes(part))

    def queue_input(self, sent: int, feed: bytes) -> None:
        """Queue input that was given at the start: `sent` bytes went with the first frame, the rest is sent while waiting."""
        self._untaken += sent
        self._queued = feed

    async def _wait(self) -> None:
        """Wait for the next frame and send queued input. Sent all at once it would block a command that writes while it reads."""
        while self._queued and self._untaken < WINDOW and not self.is_over():
            part = self._queued[:_PIECE]
            self._queued = self._queued[_PIECE:]
            self._untaken += len(part)
            changed = self._next_change()
            await self.request(FrameKind.INPUT, part)
            if not self._queued:
                await self.request(FrameKind.INPUT)
            if changed.is_set():
                return
        await self._next_change().wait()

    def fail_start(self, message: str) -> None:
        """End without asking the agent: a message on stderr, and the shell's exit code for commands that cannot be started."""
        self._pieces.append((1, message.encode("utf-8", "replace")))
        self.code = 126
        self._close()

    def is_over(self) -> bool:
        """True when no more frames can arrive."""
        return self._closed or self._link.broken is not None


class SandboxProcess:
    """A command in a sandbox (port `Process`)."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def dropped(self) -> int:
        """Bytes of output above `Command.output_bytes`, which were dropped inside."""
        return self._channel.dropped

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Pieces of (`stdout` or `stderr`, bytes) until it has ended; its background processes are not waited for."""
        while (piece := await self._channel.next_piece()) is not None:
            yield _NAMES[piece[0]], piece[1]

    async def send(self, data: bytes) -> None:
        """Write to its standard input; empty bytes close it."""
        await self._channel.send_input(data)

    async def wait(self) -> int:
        """Its exit code; negative for the signal that ended it."""
        return await self._channel.wait_exit()

    async def kill(self) -> None:
        """End it and everything it started; returns when it has ended."""
        if self._channel.code is None and not self._channel.is_over():
            await self._channel.request(FrameKind.KILL)
            await self._channel.wait_exit()


async def spawn(link: Link, command: Command) -> SandboxProcess:
    """Start a command over a link. One that cannot be sent ends like one that cannot be started: exit code 126."""
    stdin = command.stdin or b""
    first, rest = stdin[:_PIECE], stdin[_PIECE:]
    stays_open = command.stdin is None or bool(rest)
    channel = Channel(link)
    try:
        payload = _pack_spawn(command, first, stays_open=stays_open)
    except ValueError as error:
        channel.fail_start(f"sandlot: cannot start this command: {error}\n")
        return SandboxProcess(channel)
    channel.queue_input(len(first), rest)
    await channel.request(FrameKind.SPAWN, payload)
    return SandboxProcess(channel)


@functools.lru_cache(maxsize=32)
def _pack_environment(own: tuple[tuple[str, str], ...]) -> bytes:
    """The environment variables of a command, packed; cached, since most commands of a sandbox have the same."""
    environment = [f"{name}={value}" for name, value in (_ENVIRONMENT | dict(own)).items()]
    if "\0" in "".join(environment):
        raise ValueError("an environment variable contains a NUL")
    return pack_texts(environment)


def _pack_spawn(command: Command, first: bytes, *, stays_open: bool) -> bytes:
    """The SPAWN payload of a command; `ValueError` if no kernel could start it."""
    folder, user = command.cwd or "/", command.user or "root"
    if not command.argv:
        raise ValueError("argv is empty")
    if "\0" in "".join((*command.argv, folder, user)):
        raise ValueError("argv, folder or user contains a NUL")
    limit = _UNLIMITED if command.output_bytes is None else command.output_bytes
    payload = b"".join(
        (
            ((1 if command.pty else 0) | (2 if stays_open else 0)).to_bytes(1, "little"),
            limit.to_bytes(8, "little"),
            pack_text(user),
            pack_text(folder),
            pack_texts(command.argv),
            _pack_environment(tuple(command.env.items())),
            pack_text(first),
        )
    )
    if len(payload) > FRAME_MAX - 5:
        raise ValueError(f"its arguments take {len(payload)} bytes; write them to a file")
    return payload
