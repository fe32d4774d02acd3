"""HTTP requests and replies: bounded bodies, JSON, server-sent events; work stops when the client disconnects."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandlot.core.errors import unwrapped

MAX_BODY_BYTES = 32 * 2**20
"""Limit of a request body; a history of a million tokens needs about a third of it."""
_QUIET_S = 10.0
"""A stream sends a keep-alive comment after this long without an event."""

Read = TypeVar("Read")
Done = TypeVar("Done")


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read the whole body; HTTP 413 if it is over the limit."""
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise HTTPException(413, f"the body is over {limit} bytes")
            pieces.append(piece)
    except ClientDisconnect:
        raise HTTPException(499, "the client disconnected before the request was complete") from None
    return b"".join(pieces)


def decode_body(body: bytes, kind: type[Read]) -> Read:
    """Decode a JSON body; HTTP 400 names a field that is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"the request is invalid: {error}") from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise HTTPException(400, f"the body is not JSON: {error or type(error).__name__}") from None


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json")


async def run_while_connected(receive: Receive, work: Callable[[], Awaitable[Done]]) -> Done | None:
    """Run the work; if the client disconnects, cancel it and return None. The body must have been read before."""
    done: list[Done] = []

    async def watch(scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch, group.cancel_scope)
            done.append(await work())
            group.cancel_scope.cancel()
    except BaseExceptionGroup as wrapped:
        raise unwrapped(wrapped) from None
    return done[0] if done else None


class EventStream(Response):
    """Server-sent events with keep-alive comments in between; a client that disconnects cancels the source."""

    media_type = "text/event-stream"

    def __init__(self, events: Callable[[], AsyncIterator[bytes]]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's shape
        """Send the events as they come."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await run_while_connected(receive, lambda: self._send_events(send))

    async def _send_events(self, send: Send) -> None:
        async with anyio.create_task_group() as group:
            writing = anyio.Lock()
            group.start_soon(_keep_alive, send, writing)
            async for event in self._events():
                async with writing:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            group.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _keep_alive(send: Send, writing: anyio.Lock) -> None:
    while True:
        await anyio.sleep(_QUIET_S)
        async with writing:
            await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})


def sse_event(value: Any, name: str | None = None) -> bytes:
    """A server-sent event with JSON data."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


LAST_EVENT = b"data: [DONE]\n\n"
"""The end of an OpenAI stream."""
