"""HTTP/1.1 connections to one server: each carries one request at a time and is kept for the next.

Written for thousands of requests that mostly wait. A request is one write; its reply wakes the waiting task once, when it is
whole. General clients cost several times as much for each, in objects, tasks and timers. Proxies, cookies and redirects are not
known here, so a key goes to no other host.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, quote, urlsplit

import aiohappyeyeballs
import anyio
import anyio.to_thread

from sandlot.core.errors import ConfigError
from sandlot.model.wire.http_reply import HttpReply, HttpReplyError, ReplyReader

_IDLE_S = 30.0
"""An idle connection is not used after this: servers close theirs without a word."""
_ADDRESSES_S = 300.0
"""How long the addresses of a host are remembered."""
_NEXT_ADDRESS_S = 0.25
"""The next address of a host is tried if one has not answered by then."""
_CLOSE_S = 10.0
_IN_PATHS = "/:@!$&'()*+,;=~%"
"""Characters of a URL that are sent as they are; what is escaped already stays so."""


Address = tuple[int, int, int, str, tuple[Any, ...]]
"""As `getaddrinfo` gives it."""


class ReplyTimeoutError(Exception):
    """No whole reply came in time."""


@asynccontextmanager
async def open_connections(
    url: str,
    headers: Mapping[str, str],
    *,
    unix: Path | None = None,
    connect_s: float,
    reply_s: float,
    reply_bytes: int,
) -> AsyncGenerator["Connections"]:
    """Connections to the server of a base URL, or behind a unix socket; closed when the context ends.

    `reply_s` is the time from sending a request to the last byte of its reply.
    """
    context = None
    if unix is None and urlsplit(url).scheme == "https":
        context = await anyio.to_thread.run_sync(ssl.create_default_context)  # reads certificates: not on the loop
        context.set_alpn_protocols(["http/1.1"])
    connections = Connections(url, headers, unix, context, connect_s, reply_s, reply_bytes)
    try:
        yield connections
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await connections.close()


class Connections:
    """Requests to one server. Open it with `open_connections`."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        unix: Path | None,
        context: ssl.SSLContext | None,
        connect_s: float,
        reply_s: float,
        reply_bytes: int,
    ) -> None:
        parts = urlsplit(url)
        self._url = parts
        self._unix = unix
        self._context = context
        self._connect_s = connect_s
        self._reply_s = reply_s
        self._reply_bytes = reply_bytes
        self._path = quote(parts.path.rstrip("/"), safe=_IN_PATHS)
        self._query = "?" + quote(parts.query, safe=_IN_PATHS + "?") if parts.query else ""
        self._headers = headers
        self._fields: bytes | None = None
        """The version, the host and the headers, as they follow the path in every request."""
        self._idle: deque[_Connection] = deque()
        """The one used last is at the right."""
        self._open: set[_Connection] = set()
        self._addresses: Sequence[Address] = ()
        self._resolved_at = 0.0
        self._resolving = anyio.Lock()

    async def request(self, method: str, path: str, body: bytes | None) -> HttpReply:
        """Send a request and return the whole reply; `path` is added to that of the base URL.

        `OSError` if there is no connection, or it ended before the reply began; `TimeoutError` if there was none in time;
        `ReplyTimeoutError` for no whole reply in time; `UnicodeError` for a host that is no name; `HttpReplyError` for a reply
        that cannot be used. If a kept connection ends before the reply began, the request is sent once more, on a new one.
        """
        if self._fields is None:
            self._fields = _fields(self._url, self._headers)
        head = f"{method} {self._path}{path}{self._query}".encode() + self._fields
        head += b"\r\n" if body is None else b"Content-Length: %d\r\n\r\n" % len(body)
        request = head + body if body else head
        kept = self._take_idle()
        if kept is not None:
            try:
                return await self._exchange(kept, request)
            except OSError:
                pass  # servers close idle connections, and may do so just as a request is sent: the server itself may be well
        return await self._exchange(await self._connect(), request)

    async def _exchange(self, connection: "_Connection", request: bytes) -> HttpReply:
        """Send a request over this connection, and keep it afterwards if that is possible."""
        try:
            reply = await connection.exchange(request, ReplyReader(self._reply_bytes), self._reply_s)
        except BaseException:
            connection.abort()
            raise
        if reply.keeps_open and connection.is_idle:
            self._keep(connection)
        else:  # the server answered before it had the whole request, or says that it closes
            connection.abort()
        return reply

    async def close(self) -> None:
        """Close every connection."""
        for connection in tuple(self._open):
            connection.abort()
        while self._open:
            await next(iter(self._open)).lost.wait()

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle and time.monotonic() - connection.used_at < _IDLE_S:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: "_Connection") -> None:
        now = connection.used_at = time.monotonic()
        self._idle.append(connection)
        while now - self._idle[0].used_at > _IDLE_S:
            self._idle.popleft().abort()

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        connection = _Connection(loop, self._open)
        with anyio.fail_after(min(self._connect_s, self._reply_s)):
            if self._unix is not None:
                await loop.create_unix_connection(lambda: connection, str(self._unix))
                return connection
            opened = await aiohappyeyeballs.start_connection(  # pyright: ignore[reportUnknownMemberType] - a bare `tuple` in it
                await self._resolve(), happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=loop
            )
            name = self._url.hostname if self._context is not None else None
            await loop.create_connection(lambda: connection, sock=opened, ssl=self._context, server_hostname=name)
        return connection

    @property
    def _is_forgotten(self) -> bool:
        return not self._addresses or time.monotonic() - self._resolved_at > _ADDRESSES_S

    async def _resolve(self) -> Sequence[Address]:
        """The addresses of the host, each time another one first."""
        if self._is_forgotten:
            async with self._resolving:  # once, however many wait for it
                if self._is_forgotten:
                    host, port = _host(self._url), self._url.port or (443 if self._url.scheme == "https" else 80)
                    loop = asyncio.get_running_loop()
                    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
                    self._addresses, self._resolved_at = found, time.monotonic()
        self._addresses = [*self._addresses[1:], self._addresses[0]]
        return self._addresses


class _Connection(asyncio.Protocol):
    """One connection; `is_idle` while it can carry a request."""

    def __init__(self, loop: asyncio.AbstractEventLoop, opened: "set[_Connection]") -> None:
        self._loop = loop
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._reader: ReplyReader | None = None
        self._reply: asyncio.Future[HttpReply] | None = None
        self._has_begun = False
        self._has_ended = False
        self.used_at = 0.0
        self.lost = anyio.Event()

    @property
    def is_idle(self) -> bool:
        """True if it is open, and nothing is on its way in either direction."""
        transport = self._transport
        if transport is None or self._reply is not None:
            return False
        return not transport.is_closing() and not transport.get_write_buffer_size()

    async def exchange(self, request: bytes, reader: ReplyReader, reply_s: float) -> HttpReply:
        """Send a request and wait for its reply."""
        assert self._transport is not None
        self._reader, self._has_begun = reader, False
        self._reply = self._loop.create_future()
        self._transport.write(request)
        timer = self._loop.call_later(reply_s, self._expire)  # a cancel scope costs four times as much
        try:
            return await self._reply
        finally:
            timer.cancel()
            self._reply = self._reader = None

    def _expire(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ReplyTimeoutError())

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._reader is None or self._reply is None or self._reply.done():
            self.abort()  # nothing was asked for
            return
        self._has_begun = True
        try:
            reply = self._reader.feed(data)
        except HttpReplyError as error:
            self._reply.set_exception(error)
            self.abort()
        else:
            if reply is not None:
                self._reply.set_result(reply)

    def eof_received(self) -> None:
        """Called by the loop: the server has sent everything. The connection is closed then."""
        self._has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._opened.discard(self)
        self.lost.set()
        if self._reader is None or self._reply is None or self._reply.done():
            return
        if not self._has_begun:
            lost = "the server closed the connection" if exc is None else f"the connection was lost: {exc}"
            self._reply.set_exception(exc if isinstance(exc, ConnectionError) else ConnectionResetError(lost))
            return
        if not self._has_ended:
            self._reply.set_exception(HttpReplyError("the reply is incomplete: the connection was lost", retryable=True))
            return
        try:
            self._reply.set_result(self._reader.end())
        except HttpReplyError as error:
            self._reply.set_exception(error)


def _host(url: SplitResult) -> str:
    return (url.hostname or "").encode("idna").decode()


def _fields(url: SplitResult, headers: Mapping[str, str]) -> bytes:
    host = _host(url)
    host = f"[{host}]" if ":" in host else host
    lines = {"Host": host if url.port is None else f"{host}:{url.port}", **headers}
    for name, value in lines.items():
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            raise ConfigError(f"header `{name!r}`: its name and value may only have printable ASCII characters")
    return (" HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())).encode("ascii")
