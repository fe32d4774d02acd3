"""The HTTP connection to an MCP server: responses have a size limit, and a failing server is told apart from a failing tool.

The SDK reads a JSON response completely before its size is known. Here the bytes are counted while they arrive. A server that
cannot be reached, responds with 5xx or has lost our session is noted as `trouble`: the environment has failed, not the tool.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import httpx2

from sandlot.tools.stdio import CLOSE_S, MAX_MESSAGE_BYTES, TOO_LARGE, ServerNotes

_SESSION_HEADER = "mcp-session-id"
_CONNECT_S = 10.0


@asynccontextmanager
async def open_http_client(
    url: str, headers: Mapping[str, str], notes: ServerNotes, socket: str | None = None
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client for one server, through a unix socket if one is given.

    When it closes, it also ends the session on the server, if the server still responds.
    """
    notes.over_http = True
    watched = _WatchedTransport(notes, socket)
    timeout = httpx2.Timeout(_CONNECT_S, read=None)  # the caller's cancel scope limits the time of a response
    async with httpx2.AsyncClient(transport=watched, headers=dict(headers), timeout=timeout) as client:
        try:
            yield client
        finally:
            if watched.session is not None:
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await _end_session(client, url, watched.session)


async def _end_session(client: httpx2.AsyncClient, url: str, session: str) -> None:
    try:
        await client.delete(url, headers={_SESSION_HEADER: session})
    except httpx2.HTTPError:
        return  # it is gone already


class _WatchedTransport(httpx2.AsyncBaseTransport):
    """Limits the size of responses and notes failures of the server."""

    def __init__(self, notes: ServerNotes, socket: str | None) -> None:
        self._inner = httpx2.AsyncHTTPTransport(uds=socket)
        self._notes = notes
        self.session: str | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method == "POST":
                self._notes.trouble = f"it cannot be reached: {type(error).__name__}: {error}"
            return httpx2.Response(502, request=request)  # an exception would cancel the task group of the world
        if request.method == "POST":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            self.session = response.headers.get(_SESSION_HEADER, self.session)
            self._notes.trouble = _server_failure(request, response) or self._notes.trouble
            response.stream = _CappedStream(response.stream, self._notes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _server_failure(request: httpx2.Request, response: httpx2.Response) -> str:
    """The failure of the server that a response shows; empty for an ordinary response, a tool's error included."""
    status = response.status_code
    if status == 404 and _SESSION_HEADER in request.headers:
        return "it responded HTTP 404: it no longer knows our session"
    if status >= 500:
        return f"it responded HTTP {status}"
    kind = response.headers.get("content-type", "")
    if status == 200 and not kind.startswith(("application/json", "text/event-stream")):
        return f"it responded with {kind or 'no content type'}, which is not MCP"
    return ""


class _CappedStream(httpx2.AsyncByteStream):
    """A body with a size limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, notes: ServerNotes) -> None:
        self._inner = inner
        self._notes = notes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        try:
            async for piece in self._inner:
                left -= len(piece)
                if left < 0:
                    self._notes.too_large = True
                    raise httpx2.StreamError(TOO_LARGE)
                yield piece
        except httpx2.TransportError as error:
            self._notes.trouble = f"its response was cut off: {type(error).__name__}: {error}"
            raise httpx2.StreamError(self._notes.trouble) from error  # the exception that the SDK expects here

    async def aclose(self) -> None:
        await self._inner.aclose()
