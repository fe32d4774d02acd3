"""Connections between the host and a sandbox without a network: into it, and out of it to a port the host listens on."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.process import Channel
from sandlot.sandbox.link.wire import FrameKind, pack_text

_AT_ONCE = 256
"""Connections of one listener that are open at the same time; others wait inside, in the kernel's queue."""

_LINGER_S = 5.0
"""Longest wait for the peer to read what was sent, when a connection is closed."""

_MAX_PORT = 65535


class SandboxStream:
    """A connection with a program in a sandbox (port `Stream`)."""

    def __init__(self, channel: Channel, on_close: Callable[[], None] | None = None) -> None:
        self._channel = channel
        self._on_close = on_close
        self._rest = b""

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        if data:
            await self._channel.send_input(data)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Received bytes; empty at the end."""
        if not self._rest:
            piece = await self._channel.next_piece()
            self._rest = piece[1] if piece is not None else b""
        data, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return data

    async def aclose(self) -> None:
        """Close both directions when the peer has read what was sent; one that does not read delays this by a few seconds."""
        try:
            with anyio.move_on_after(_LINGER_S):
                await self._channel.wait_drained()
        finally:
            await _close(self._channel)
            if self._on_close is not None:
                self._on_close()
                self._on_close = None


async def connect(link: Link, where: int | str) -> SandboxStream:
    """Connect to a port or unix socket inside; `ConnectionRefusedError` or another `OSError` if no program listens."""
    channel = Channel(link)
    port, path = (where, "") if isinstance(where, int) else (0, where)
    await _request_agreement(channel, FrameKind.CONNECT, port.to_bytes(4, "little") + pack_text(path))
    return SandboxStream(channel)


async def _request_agreement(channel: Channel, kind: FrameKind, payload: bytes) -> None:
    """Send a request and wait until the agent accepts it; if the wait is cancelled, so is the request."""
    try:
        await channel.request(kind, payload)
        await channel.wait_accepted()
    except BaseException:
        await _close(channel)
        raise


class _Connections:
    """The connections that programs inside make to one port. Get one from `listen`."""

    def __init__(self, link: Link, listener: Channel) -> None:
        self._link = link
        self._listener = listener
        self._coming: Channel | None = None
        self._open = anyio.CapacityLimiter(_AT_ONCE)
        self._held: set[Channel] = set()
        self._taking = anyio.Lock(fast_acquire=True)

    def __aiter__(self) -> AsyncIterator[SandboxStream]:
        """Itself."""
        return self

    async def __anext__(self) -> SandboxStream:
        """The next connection. Close each one after use: the number of open ones is limited.

        Ends when the sandbox is frozen or the context is left. If the wait is cancelled, no connection is lost.
        """
        async with self._taking:
            await self._wait_for_room()
            if self._coming is None:
                self._coming = Channel(self._link)
                await self._coming.request(FrameKind.ACCEPT, self._listener.number.to_bytes(4, "little"))
            channel = self._coming
            if not await channel.wait_accepted():
                raise StopAsyncIteration
            self._coming = None
            self._held.add(channel)
            self._open.acquire_on_behalf_of_nowait(channel)
        return SandboxStream(channel, lambda: self._release(channel))

    async def _wait_for_room(self) -> None:
        """Wait until one more connection may be open."""
        async with self._open:
            pass

    def _release(self, channel: Channel) -> None:
        self._held.discard(channel)
        self._open.release_on_behalf_of(channel)

    async def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        waiting = [self._coming] if self._coming is not None else []
        for channel in [self._listener, *waiting, *self._held]:
            await _close(channel)


async def _close(channel: Channel) -> None:
    """Close both directions at once; what the peer has not read is lost."""
    if not channel.is_over():
        with anyio.CancelScope(shield=True):
            await channel.request(FrameKind.CLOSE)
        channel.abandon()


@asynccontextmanager
async def listen(link: Link, port: int) -> AsyncGenerator[AsyncIterator[SandboxStream]]:
    """Listen on a port of the sandbox's loopback until the context ends; `OSError` (address in use) if it is taken inside."""
    if not 0 < port <= _MAX_PORT:
        raise ValueError(f"port {port} to listen on inside a sandbox; ports are 1 to {_MAX_PORT}")
    listener = Channel(link)
    await _request_agreement(listener, FrameKind.LISTEN, port.to_bytes(4, "little"))
    connections = _Connections(link, listener)
    try:
        yield connections
    finally:
        with anyio.move_on_after(10, shield=True):
            await connections.close()
