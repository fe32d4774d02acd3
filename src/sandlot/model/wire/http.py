"""One HTTP exchange: a bounded body in, an answer or a stream of events out, and nobody works for a client that has left."""

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
"""A request's body; a history of a million tokens is a third of it."""
_QUIET_S = 10.0
"""A stream that has nothing to say for so long says that it still lives."""

Read = TypeVar("Read")
Done = TypeVar("Done")


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body; 413 if it is over the limit."""
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise HTTPException(413, f"the body is over {limit} bytes")
            pieces.append(piece)
    except ClientDisconnect:
        raise HTTPException(499, "the client left before its request was whole") from None
    return b"".join(pieces)


def decode_body(body: bytes, kind: type[Read]) -> Read:
    """The body as a record; 400 that names the field if it is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"the request is not as it should be: {error}") from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise HTTPException(400, f"the body is not JSON: {error or type(error).__name__}") from None


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json")


async def run_while_connected(receive: Receive, work: Callable[[], Awaitable[Done]]) -> Done | None:
    """What the work gives; None if the client left meanwhile, and then the work is cancelled. The body must have been read."""
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
    """Server-sent events. Between them, comments say that the server still lives; a client that leaves cancels the source."""

    media_type = "text/event-stream"

    def __init__(self, events: Callable[[], AsyncIterator[bytes]]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's shape
        """Send them as they come."""
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
    """One event whose data is JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


LAST_EVENT = b"data: [DONE]\n\n"
"""How OpenAI's streams end."""
