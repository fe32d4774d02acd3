"""Messages both ways between a run and a worker, over a socket that a worker process inherits or over TCP.

A message is msgpack in a frame, with its length in four bytes. A frame of length 0 is a beat, which only says that the other side
is alive. Whoever sends too much, or what is no message, is not heard any more. Nothing is unpickled: a message is data.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import anyio.abc
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sandlot.core.errors import HarnessError, unwrapped
from sandlot.run.executors.messages import FromWorker, JoinRefused, JoinReply, JoinRequest, ToWorker

MOST_BYTES = 2**30
"""Of one message, such as a trace with its files."""
BEAT_S = 5.0
"""Between two beats."""
_HEAD_BYTES = 4
_CHUNK_BYTES = 2**18
_LAST_WORDS_S = 5.0
"""Time to send what was said last, and for the other side to close."""
_LAST_LOOK_S = 2.0
"""More time after a silence that was too long: this process itself may have been stopped meanwhile."""
_LOST = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_Message = TypeVar("_Message", ToWorker, FromWorker, JoinRequest, JoinReply)


class WorkerConnection:
    """One end of a connection."""

    def __init__(self, stream: anyio.abc.ByteStream, outbox: MemoryObjectSendStream[bytes]) -> None:
        self._stream, self._outbox = stream, outbox
        self.silence_s: float | None = None
        """A side that sends no byte for longer is gone; None to wait for ever."""
        self.ended = "closed its connection"
        """How the other side ended, when there are no more messages."""

    def say(self, message: ToWorker | FromWorker | JoinRequest | JoinReply | JoinRefused) -> None:
        """Send a message after those that were said before. It does not wait: only reading shows that the other side is gone."""
        data = msgspec.msgpack.encode(message)
        if len(data) > MOST_BYTES:
            raise HarnessError(f"a message of {len(data):,} bytes; at most {MOST_BYTES:,} are sent between a run and its workers")
        self._outbox.send_nowait(_framed(data))

    async def messages(
        self, decoder: msgspec.msgpack.Decoder[_Message], *, most_bytes: int = MOST_BYTES
    ) -> AsyncGenerator[_Message]:
        """Every message until the other side is gone, or is not to be trusted with more."""
        while True:
            try:
                size = int.from_bytes(await self._read(_HEAD_BYTES), "big")
                if size > most_bytes:
                    self.ended = f"sent a message of {size:,} bytes, where at most {most_bytes:,} are allowed"
                    return
                if not size:
                    continue
                message = decoder.decode(await self._read(size))
            except TimeoutError:
                self.ended = f"was silent for {self.silence_s:g} s"
                return
            except _LOST:
                return
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self.ended = f"sent what is no message ({error})"
                return
            yield message

    async def _read(self, size: int) -> bytes:
        """So many bytes; `TimeoutError` if none comes for too long."""
        data = bytearray()
        while len(data) < size:
            data += await self._receive(min(size - len(data), _CHUNK_BYTES))
        return bytes(data)

    async def _receive(self, most: int) -> bytes:
        if self.silence_s is None:
            return await self._stream.receive(most)
        for patience_s in (self.silence_s, _LAST_LOOK_S):
            with anyio.move_on_after(patience_s):
                return await self._stream.receive(most)
        raise TimeoutError

    async def wait_closed(self) -> None:
        """Return when the other side has closed, or does not for seconds: it has read what was said last, or never will."""
        with anyio.move_on_after(_LAST_WORDS_S):
            try:
                while True:
                    await self._stream.receive()
            except _LOST:
                return

    async def hang_up(self) -> None:
        """Close it, whatever the other side is doing."""
        await self._stream.aclose()


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(_HEAD_BYTES, "big") + data


@asynccontextmanager
async def open_connection(stream: anyio.abc.ByteStream, *, beats: bool) -> AsyncGenerator[WorkerConnection]:
    """Messages over a stream until the block ends; then what was said is sent, if the other side takes it soon."""
    outbox, frames = anyio.create_memory_object_stream[bytes](float("inf"))
    beating = anyio.CancelScope()
    try:
        with outbox, frames:
            async with stream, anyio.create_task_group() as group:
                group.start_soon(_write, stream, frames)
                if beats:
                    group.start_soon(_beat, outbox, beating)
                yield WorkerConnection(stream, outbox)
                beating.cancel()
                outbox.close()
                group.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from errors


async def _write(stream: anyio.abc.ByteStream, frames: MemoryObjectReceiveStream[bytes]) -> None:
    try:
        async for frame in frames:
            await stream.send(frame)
    except _LOST:
        return  # nobody listens any more; reading ends too


async def _beat(outbox: MemoryObjectSendStream[bytes], beating: anyio.CancelScope) -> None:
    with beating:
        while True:
            await anyio.sleep(BEAT_S)
            outbox.send_nowait(_framed(b""))
