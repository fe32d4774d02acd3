"""Connections of a `LocalSandbox`: plain ones of this machine."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Generic, Self, TypeVar

import anyio
from anyio.abc import ByteStream, SocketListener, TaskGroup

_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

_Item = TypeVar("_Item")


class LocalQueue(Generic[_Item]):
    """Items in the order in which they came, until somebody ends it. It needs no closing."""

    def __init__(self) -> None:
        self._items: deque[_Item] = deque()
        self._is_over = False
        self._more = anyio.Event()

    def put(self, item: _Item) -> None:
        """One more."""
        self._items.append(item)
        self._more.set()

    def end(self) -> None:
        """There will be no more."""
        self._is_over = True
        self._more.set()

    def __aiter__(self) -> Self:
        """Each of them once."""
        return self

    async def __anext__(self) -> _Item:
        """The next one."""
        while not self._items:
            if self._is_over:
                raise StopAsyncIteration
            self._more = anyio.Event()
            await self._more.wait()
        return self._items.popleft()


class LocalStream:
    """A connection (port `Stream`)."""

    def __init__(self, inner: ByteStream) -> None:
        self._inner = inner

    async def send(self, data: bytes) -> None:
        """Write all bytes."""
        await self._inner.send(data)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Bytes that are there; none at the end."""
        try:
            return await self._inner.receive(max_bytes)
        except _GONE:
            return b""

    async def aclose(self) -> None:
        """Close both directions."""
        await self._inner.aclose()


@asynccontextmanager
async def listen_locally(port: int, tasks: TaskGroup) -> AsyncGenerator[LocalQueue[LocalStream]]:
    """The connections that are made to a port, for as long as the context lasts."""
    if not 0 < port < 65536:
        raise ValueError(f"port {port}: ports are 1 to 65535")
    (listener,) = (await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)).listeners
    assert isinstance(listener, SocketListener)
    connections = LocalQueue[LocalStream]()
    accepted: list[LocalStream] = []

    async def accept() -> None:
        with suppress(*_GONE):  # until the context is left
            while True:
                accepted.append(LocalStream(await listener.accept()))
                connections.put(accepted[-1])

    tasks.start_soon(accept)
    try:
        yield connections
    finally:
        connections.end()
        await listener.aclose()
        for stream in accepted:
            await stream.aclose()


async def connect_local(where: int | Path) -> LocalStream:
    """Connect to a port of this machine or a socket."""
    try:
        if isinstance(where, Path):
            return LocalStream(await anyio.connect_unix(where))
        return LocalStream(await anyio.connect_tcp("127.0.0.1", where))
    except OSError as error:
        raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
