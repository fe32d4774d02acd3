"""The model server of one agent: each request is matched with the trace, answered by the policy, and recorded.

Both dialects use `CapturedConversation.turn`. Turns are taken one after the other, so that the trace is in order also if an agent
sends several requests at once. When a limit is reached, the rollout ends at the next request, not in the middle of one.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sandlot.core.concurrency.clock import timed
from sandlot.core.errors import HarnessError, ModelError, SandlotError, boundary
from sandlot.core.images import images_accepted, keep_images
from sandlot.core.ports.session import Policy
from sandlot.core.trace import Event, Node, Trace, Usage
from sandlot.core.types import End
from sandlot.harness.captured.history import History
from sandlot.model.wire.anthropic_server import messages_body, messages_events, read_messages
from sandlot.model.wire.arguments import is_storable
from sandlot.model.wire.http import EventStream, json_response, read_body, run_while_connected, sse_event
from sandlot.model.wire.openai_server import chat_body, chat_events, read_chat
from sandlot.model.wire.turn import TurnReply, TurnRequest

MAX_OVERFLOWS = 16
"""Consecutive requests that do not fit into the context, after which the rollout ends."""
MAX_KEPT_BYTES = 32 * 2**20
"""Size limit of one rollout's messages in the trace."""
_WISH_CHARS = 200
"""Characters recorded of a sampling option that was ignored."""
MODEL = "sandlot"
"""The name of every model here: the run decides which model it is, not the agent."""


class CapturedConversation:
    """The conversation between an agent and the policy in one rollout."""

    def __init__(self, trace: Trace, policy: Policy, count_turn: Callable[[int], End | None]) -> None:
        self.history = History(trace)
        self.over = anyio.Event()
        """Set when no further turn will be taken."""
        self.end: End | None = None
        """The limit that was reached, or REFUSED if the last turn was refused."""
        self.error: SandlotError | None = None
        """An error on our side."""
        self.acting = anyio.Lock()
        """Held while a turn is taken or a tool runs: a turn that is given up removes what was added to the trace meanwhile."""
        self.num_abandoned = 0
        """Requests whose client disconnected before its turn was taken."""
        self._trace = trace
        self._policy = policy
        self._count_turn = count_turn
        self._limit: End | None = None
        self._num_overflows = 0
        self._kept_bytes = 0
        self._wishes: set[str] = set()

    async def turn(self, asked: TurnRequest) -> TurnReply:
        """Take the next turn of the conversation in a request."""
        async with self.acting:
            if self._limit is not None:
                self.finish(self._limit)
            if self.over.is_set():
                raise HarnessError("the rollout is over; this request is too late", kind="over")
            self._note_wishes(asked)
            node = await self._take_turn(asked)
            self._trace.append(node)
            self._num_overflows = 0
            self._limit = self._count_turn(node.num_tokens)
            if node.stop == "refusal":
                self._limit = End.REFUSED
            if not self.over.is_set():  # a tool call may have ended the rollout meanwhile
                self.end = None  # the agent has recovered from a full context
            return TurnReply(node.message, node.stop or "stop", node.usage or Usage())

    async def _take_turn(self, asked: TurnRequest) -> Node:
        """Take the turn; if it fails, its events stay in the trace and its nodes are removed."""
        trace = self._trace
        num_nodes, num_events = len(trace.nodes), len(trace.events)
        try:
            await keep_images(asked.images)
            with boundary(HarnessError, "finding a request in the trace"):
                leaf = self.history.leaf_of(asked.messages, asked.tools)
            new_bytes = self._check_size(trace.nodes[num_nodes:])
            with timed(trace.phases, "model"), boundary(ModelError, "the policy"):
                node = await self._policy.turn(trace, leaf, asked.tools)
            if not node.is_turn:
                raise HarnessError(f"the policy gave a {node.message.role} node, sampled={node.sampled}")
        except SandlotError as error:
            if not _is_overflow(error):
                self.fail(error)
                raise
            self.history.forget_from(num_nodes)
            self._overflow(error)
            raise
        except anyio.get_cancelled_exc_class():
            self.history.forget_from(num_nodes)
            del trace.events[num_events:]
            self.num_abandoned += 1
            raise
        self._kept_bytes += new_bytes
        return node

    def _check_size(self, nodes: Sequence[Node]) -> int:
        """The size of what a request adds to the trace. The context does not limit it: parts may not be in any prompt."""
        size = sum(len(msgspec.msgpack.encode(node.message)) for node in nodes)
        if self._kept_bytes + size > MAX_KEPT_BYTES:
            raise ModelError(f"the conversation is larger than {MAX_KEPT_BYTES} bytes, the limit of a trace", kind="context")
        return size

    def _overflow(self, error: SandlotError) -> None:
        event = Event(kind="context_overflow", turn=self._trace.num_turns, detail={"message": str(error)[:500]})
        self._trace.events.append(event)
        self.end = End.TOKEN_LIMIT  # unless the agent shortens its history and goes on
        self._num_overflows += 1
        if self._num_overflows >= MAX_OVERFLOWS:
            self.finish(End.TOKEN_LIMIT)

    def finish(self, end: End) -> None:
        """End the rollout: no further turn is taken."""
        self.end = end
        self.over.set()

    def fail(self, error: SandlotError) -> None:
        """End the rollout with an error on our side; the first one counts."""
        self.error = self.error or error
        self.over.set()

    def _note_wishes(self, asked: TurnRequest) -> None:
        """Record each sampling option of the agent that is ignored, once: the run decides how to sample."""
        new = {name: _brief(value) for name, value in asked.sampling.items() if name not in self._wishes}
        if new:
            self._wishes |= new.keys()
            self._trace.events.append(Event(kind="wishes_ignored", turn=self._trace.num_turns, detail=new))


def capture_app(conversation: CapturedConversation, more: Sequence[Route] = ()) -> Starlette:
    """The routes of the server: OpenAI's chat and Anthropic's messages, and `more`."""

    async def chat(request: Request) -> Response:
        body, images = await read_body(request), images_accepted()
        wanted, asked = await anyio.to_thread.run_sync(lambda: read_chat(body, images=images))  # images are unpacked
        if (wanted.n or 1) != 1:
            raise HTTPException(400, "`n` must be 1: one turn at a time")
        if asked.stream:
            return EventStream(
                lambda: _stream(
                    conversation,
                    asked,
                    lambda reply: chat_events(reply, MODEL, usage=wanted.with_usage),
                    lambda error: sse_event(_error_body(error)),
                )
            )
        return await _answer(request, conversation, asked, lambda answered: chat_body(answered, MODEL))

    async def messages(request: Request) -> Response:
        body, images = await read_body(request), images_accepted()
        asked = await anyio.to_thread.run_sync(lambda: read_messages(body, images=images))  # images are unpacked
        if asked.stream:
            return EventStream(
                lambda: _stream(
                    conversation,
                    asked,
                    lambda reply: messages_events(reply, MODEL),
                    lambda error: sse_event({"type": "error"} | _error_body(error), "error"),
                )
            )
        return await _answer(request, conversation, asked, lambda answered: messages_body(answered, MODEL))

    async def models(_request: Request) -> Response:
        return json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "sandlot"}]})

    async def alive(_request: Request) -> Response:
        return json_response({"status": "ok"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/chat/completions", chat, methods=["POST"]),
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/models", models),
            Route("/", alive),
            *more,
        ],
        exception_handlers={HTTPException: _on_http_error, SandlotError: _on_sandlot_error},
    )


async def _answer(
    request: Request, conversation: CapturedConversation, asked: TurnRequest, written: Callable[[TurnReply], Any]
) -> Response:
    answered = await run_while_connected(request.receive, lambda: conversation.turn(asked))
    return json_response(None if answered is None else written(answered))


async def _stream(
    conversation: CapturedConversation,
    asked: TurnRequest,
    written: Callable[[TurnReply], Iterable[bytes]],
    refused: Callable[[SandlotError], bytes],
) -> AsyncIterator[bytes]:
    """The events of a turn; an error is an event too, since the response has begun."""
    try:
        events = written(await conversation.turn(asked))
    except SandlotError as error:
        events = [refused(error)]
    for event in events:
        yield event


def _is_overflow(error: Exception | None) -> bool:
    return isinstance(error, ModelError) and error.kind == "context"


def _brief(value: object) -> object:
    """A sampling option, or the start of its text if it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= _WISH_CHARS and is_storable(value) else text[:_WISH_CHARS]


def _error_body(error: Exception | None) -> dict[str, Any]:
    """The error for the agent. It has no details of our own errors, which may name things outside the sandbox."""
    if _is_overflow(error):
        body = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": str(error)}
    else:
        body = {"type": "api_error", "code": None, "message": "no further turn is taken: the rollout is over"}
    return {"error": body}


async def _on_http_error(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else str(error)
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": detail, "code": None}}
    return json_response(body, status)


async def _on_sandlot_error(_request: Request, error: Exception) -> Response:
    """400 for a full context, from which an agent may recover; else 403, which client libraries do not retry."""
    return json_response({"type": "error"} | _error_body(error), 400 if _is_overflow(error) else 403)
