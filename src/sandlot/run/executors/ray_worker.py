"""A worker as a Ray actor. It is sent to the nodes by name: each needs Sandlot, but not this module's caller."""

import os
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

import anyio
import msgspec

from sandlot.run.executors.messages import SetUp, ToWorker
from sandlot.run.executors.worker import serve_run
from sandlot.store.entry import encode_escaped

_MOST_MESSAGES = 1000
_MOST_BYTES = 32_000_000
"""Messages that are carried together."""


@dataclass(frozen=True, slots=True)
class ActorPlace:
    """Where an actor runs, and what it runs."""

    pid: int
    host: str
    sandlot: str
    """The version of Sandlot there."""


class RayWorker:
    """The actor. `serve` goes on for as long as it lives; `tell` and `hear` are called meanwhile."""

    def __init__(self) -> None:
        self._told, self._orders = anyio.create_memory_object_stream[bytes](float("inf"))
        self._said, self._unheard = anyio.create_memory_object_stream[bytes](float("inf"))

    async def place(self) -> ActorPlace:
        """Where it runs: it answers when it has found room."""
        return ActorPlace(os.getpid(), socket.gethostname(), version("sandlot"))

    async def serve(self, setup: bytes, folder: str) -> None:
        """Take rollouts until `end`; relative paths are those of the run's own folder, if it exists here."""
        with suppress(OSError):
            os.chdir(folder)
        try:
            await serve_run(
                msgspec.msgpack.decode(setup, type=SetUp),
                self._hear_orders(),
                lambda message: self._said.send_nowait(encode_escaped(message)),
            )
        finally:
            self._said.close()

    async def _hear_orders(self) -> AsyncGenerator[ToWorker]:
        decoder = msgspec.msgpack.Decoder(ToWorker)
        async for order in self._orders:
            yield decoder.decode(order)

    async def tell(self, order: bytes) -> None:
        """Give an order."""
        self._told.send_nowait(order)

    async def hear(self) -> list[bytes]:
        """The messages since the last time, at least one; none if there will be no more."""
        messages: list[bytes] = []
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            messages.append(await self._unheard.receive())
            while len(messages) < _MOST_MESSAGES and sum(map(len, messages)) < _MOST_BYTES:
                messages.append(self._unheard.receive_nowait())
        return messages

    async def end(self) -> None:
        """Cancel what goes on, and close everything."""
        self._told.close()
