"""Messages both ways between a run and a worker, over a socket that a worker process inherits or over TCP.

A message is msgpack in a frame, with its length in four bytes. A frame of length 0 is a beat, which only says that the other side
is alive. Whoever sends too much, or what is no message, is not heard any more. Nothing is unpickled: a message is data.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.abc
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sandlot.core.errors import HarnessError, unwrapped
from sandlot.run.executors.messages import FromWorker, JoinRefused, JoinReply, JoinRequest, ToWorker
from sandlot.run.executors.receiving import SMALL_BYTES, HeldBytes, ReceiveBudget
from sandlot.store.entry import encode_escaped

MOST_BYTES = 2**30
"""Of one message, such as a trace with its files."""
MOST_BYTES_HERE = 2**31
"""The same between processes of one machine."""
BEAT_S = 5.0
"""Between two beats."""
_HEAD_BYTES = 4
_CHUNK_BYTES = 2**18
_LAST_WORDS_S = 5.0
"""Time to send what was said last, and for the other side to close."""
_LAST_LOOK_S = 2.0
"""More time after a silence that was too long: this process itself may have been stopped meanwhile."""
_TOO_SLOW = "sent a large message too slowly, while others waited"
_LOST = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""A connection that broke; with TLS also by one wrong byte on the way (`ssl.SSLError` is an `OSError`)."""
_Message = TypeVar("_Message", ToWorker, FromWorker, JoinRequest, JoinReply)


def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A frame, and what to do when it has been written."""

    frame: bytes
    written: Callable[[], None] = _nothing


class _Writer:
    """Writes what is said, in order."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self.moved = float("-inf")
        """When the other side, or the way to it, took a part of a message."""

    async def write(self, outgoing: MemoryObjectReceiveStream[_Outgoing]) -> None:
        try:
            async for each in outgoing:
                await self._send(each.frame)
                each.written()
        except _LOST:
            return  # nobody listens any more; reading ends too

    async def _send(self, frame: bytes) -> None:
        for start in range(0, len(frame), _CHUNK_BYTES):
            chunk = frame[start : start + _CHUNK_BYTES]
            await self._stream.send(chunk)
            if len(frame) > _HEAD_BYTES:  # a beat is no progress
                self.moved = anyio.current_time()


class WorkerConnection:
    """One end of a connection."""

    def __init__(
        self,
        stream: anyio.abc.ByteStream,
        writer: _Writer,
        outbox: MemoryObjectSendStream[_Outgoing],
        most_bytes: int,
        budget: ReceiveBudget | None,
    ) -> None:
        self._stream, self._writer, self._outbox, self._most_bytes = stream, writer, outbox, most_bytes
        self._budget = budget
        self._held: HeldBytes | None = None
        """What the message that comes, or came last, takes of the budget."""
        self._is_over = False
        """Nothing more is read."""
        self._frame = bytearray()
        """What has come of a message: whoever is cancelled while one comes leaves it to the next reader."""
        self.silence_s: float | None = None
        """A side that sends no byte for longer is gone; None to wait for ever."""
        self.ended = "closed its connection"
        """How the other side ended, when there are no more messages."""

    def say(
        self, message: ToWorker | FromWorker | JoinRequest | JoinReply | JoinRefused, written: Callable[[], None] = _nothing
    ) -> None:
        """Send a message after those that were said before. It does not wait: only reading shows that the other side is gone.

        `written` is called when all of it is on its way.
        """
        data = encode_escaped(message)
        if len(data) > self._most_bytes:
            most = f"{self._most_bytes:,}"
            raise HarnessError(f"a message of {len(data):,} bytes; at most {most} are sent between a run and its workers")
        self._outbox.send_nowait(_Outgoing(_framed(data), written))

    async def messages(
        self, decoder: msgspec.msgpack.Decoder[_Message], *, most_bytes: int | None = None
    ) -> AsyncGenerator[_Message]:
        """Every message until the other side is gone, or is not to be trusted with more."""
        most_bytes = self._most_bytes if most_bytes is None else most_bytes
        while True:
            if not self._frame:
                self.free()  # the message before has been dealt with
            try:
                await self._fill(_HEAD_BYTES)
                size = int.from_bytes(self._frame[:_HEAD_BYTES], "big")
                if size > most_bytes:
                    self._end(f"sent a message of {size:,} bytes, where at most {most_bytes:,} are allowed")
                    return
                if self._budget is not None and self._held is None and size > SMALL_BYTES:
                    self._held = await self._budget.take(size)
                await self._fill(_HEAD_BYTES + size)
                data = bytes(memoryview(self._frame)[_HEAD_BYTES:])
                self._frame.clear()
                if not size:
                    continue
                message = decoder.decode(data)
            except TimeoutError:
                self._end(_TOO_SLOW if self._held is not None and self._held.is_late else f"was silent for {self.silence_s:g} s")
                return
            except _LOST:
                self._end(self.ended)
                return
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self._end(f"sent what is no message ({error})")
                return
            yield message

    def _end(self, how: str) -> None:
        self._is_over, self.ended = True, how
        self._frame.clear()
        self.free()

    def free(self) -> None:
        """Give back what a large message held."""
        held, self._held = self._held, None
        if held is not None:
            held.give_back()

    async def _fill(self, size: int) -> None:
        """Have so many bytes of a frame; `TimeoutError` if none comes for too long, or if others wait for too long."""
        while len(self._frame) < size:
            if self._held is not None and self._held.is_late:
                raise TimeoutError
            self._frame += await self._receive(min(size - len(self._frame), _CHUNK_BYTES))

    async def _receive(self, most: int) -> bytes:
        if self.silence_s is None:
            return await self._stream.receive(most)
        for patience_s in (self.silence_s, _LAST_LOOK_S):
            with anyio.move_on_after(patience_s):
                return await self._stream.receive(most)
        raise TimeoutError

    async def wait_closed(self, patience_s: float = _LAST_WORDS_S) -> None:
        """Return when the other side has closed, so has read what was said last, or when it takes nothing for so long."""
        began = anyio.current_time()
        while not self._is_over:
            until = max(began, self._writer.moved) + patience_s
            if anyio.current_time() >= until:
                return
            with anyio.CancelScope(deadline=until):
                await self._read_rest()

    async def _read_rest(self) -> None:
        try:
            while True:
                await self._stream.receive()
        except _LOST:
            self._is_over = True

    async def hang_up(self) -> None:
        """Close it, whatever the other side is doing."""
        await self._stream.aclose()


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(_HEAD_BYTES, "big") + data


@asynccontextmanager
async def open_connection(
    stream: anyio.abc.ByteStream, *, beats: bool, most_bytes: int = MOST_BYTES, budget: ReceiveBudget | None = None
) -> AsyncGenerator[WorkerConnection]:
    """Messages over a stream until the block ends; then what was said is sent, if the other side takes it soon.

    `budget` is what this connection and others may hold together of messages that come in.
    """
    outbox, outgoing = anyio.create_memory_object_stream[_Outgoing](float("inf"))
    writer, beating = _Writer(stream), anyio.CancelScope()
    try:
        with outbox, outgoing:
            async with stream, anyio.create_task_group() as group:
                group.start_soon(writer.write, outgoing)
                if beats:
                    group.start_soon(_beat, outbox, beating)
                connection = WorkerConnection(stream, writer, outbox, most_bytes, budget)
                try:
                    yield connection
                finally:
                    connection.free()
                beating.cancel()
                outbox.close()
                group.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from errors


async def _beat(outbox: MemoryObjectSendStream[_Outgoing], beating: anyio.CancelScope) -> None:
    with beating, suppress(anyio.ClosedResourceError):  # the connection may end just before a beat
        while True:
            await anyio.sleep(BEAT_S)
            outbox.send_nowait(_Outgoing(_framed(b"")))
