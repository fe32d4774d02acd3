"""The HTTP road to an MCP server: answers are capped, and a failing server is told from a failing tool.

The SDK reads a JSON answer whole before anyone can look at its size. Here every answer is counted while it comes in. A server
that cannot be reached, that answers 5xx or that has forgotten our session is noted as trouble: the tool has not failed, the
environment has.
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
    """A client for one server, reached through a unix socket if one is given.

    When it closes, the server's session is ended too, if the server still listens.
    """
    notes.over_http = True
    watched = _WatchedTransport(notes, socket)
    timeout = httpx2.Timeout(_CONNECT_S, read=None)  # how long an answer may take is the caller's cancel scope
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
        return  # it is gone already, which is what was wanted


class _WatchedTransport(httpx2.AsyncBaseTransport):
    """Counts what comes in and notes what went wrong."""

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
            return httpx2.Response(502, request=request)  # raised, it would cancel the world around the SDK's task group
        if request.method == "POST":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            self.session = response.headers.get(_SESSION_HEADER, self.session)
            self._notes.trouble = _server_failure(request, response) or self._notes.trouble
            response.stream = _CappedStream(response.stream, self._notes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _server_failure(request: httpx2.Request, response: httpx2.Response) -> str:
    """What an answer says about the server itself; nothing if it is an ordinary one, errors of a tool included."""
    status = response.status_code
    if status == 404 and _SESSION_HEADER in request.headers:
        return "it answered HTTP 404: it does not know our session any more"
    if status >= 500:
        return f"it answered HTTP {status}"
    kind = response.headers.get("content-type", "")
    if status == 200 and not kind.startswith(("application/json", "text/event-stream")):
        return f"it answered with {kind or 'no content type'}, which is not MCP"
    return ""


class _CappedStream(httpx2.AsyncByteStream):
    """A body that stops at the cap."""

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
            self._notes.trouble = f"it broke off its answer: {type(error).__name__}: {error}"
            raise httpx2.StreamError(self._notes.trouble) from error  # the kind that the SDK expects here

    async def aclose(self) -> None:
        await self._inner.aclose()
