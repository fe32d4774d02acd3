"""`/v1/chat/completions`: renders messages and tools, samples, and parses the completion into a message with calls.

The reply is parsed when it is complete, since a tool call is known only at its end; a stream sends keep-alive comments until
then. For exact tokens over several turns use `/v1/completions` with ids, since chat renders the history again in every request.
"""

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sandlot.core.errors import SandlotError
from sandlot.core.ports.model import Sampled
from sandlot.core.trace import Usage
from sandlot.core.types import Json
from sandlot.model.wire.http import LAST_EVENT, EventStream, json_response, read_body, run_while_connected, sse_event
from sandlot.model.wire.openai import ChatRequest
from sandlot.model.wire.openai_server import chat_choice, choice_events, read_chat, reply_head, usage_body
from sandlot.model.wire.turn import TurnReply, TurnRequest, bad_field
from sandlot.serve.model.server import ModelServer, error_body, ids_of, logprobs_of, sampling_of, server_of, session_of


async def chat_completions(request: Request) -> Response:
    """Handle one request."""
    server = server_of(request)
    wanted, asked = read_chat(await read_body(request, server.body_bytes))
    if wanted.top_logprobs:
        raise bad_field("top_logprobs", "is not supported; remove it")
    session = session_of(request, wanted)
    job = await to_thread.run_sync(_Job, server, wanted, asked, session)  # rendering a long history takes seconds
    if wanted.stream:
        server.metrics.count("/v1/chat/completions", 200)
        return EventStream(job.events)
    body = await run_while_connected(request.receive, job.body)
    server.metrics.count("/v1/chat/completions", 499 if body is None else 200)
    return json_response(body)


class _Job:
    """A checked and rendered request."""

    def __init__(self, server: ModelServer, wanted: ChatRequest, asked: TurnRequest, session: str) -> None:
        self.server = server
        self.wanted = wanted
        self.session = session
        self.sampling = sampling_of(wanted, wanted.max_completion_tokens or wanted.max_tokens)
        self.prompt = server.renderer.render(asked.messages, asked.tools)
        server.require_ids(self.prompt, "messages")

    async def sample(self) -> list[Sampled]:
        """Sample all choices."""
        stop_ids = self.server.renderer.stop_ids
        async with self.server.admit(self.wanted.n or 1):
            return await self.server.sample_all([self.prompt], self.wanted, self.sampling, stop_ids, self.session)

    async def body(self) -> Json:
        """The reply body."""
        sampled = await self.sample()
        choices = [self.choice(place, each) for place, each in enumerate(sampled)]
        top = reply_head("chat.completion", self.server.model.name)
        prompt = {"prompt_token_ids": self.prompt} if self.wanted.return_token_ids else {}
        return top | {"choices": choices, "usage": usage_body(self.usage(sampled))} | prompt

    async def events(self) -> AsyncIterator[bytes]:
        """The reply as a stream; a failure after the start is an event."""
        top = reply_head("chat.completion.chunk", self.server.model.name)
        try:
            sampled = await self.sample()
        except (HTTPException, SandlotError) as error:
            yield sse_event({"error": error_body(error)[1]})
            return
        for place, each in enumerate(sampled):
            for piece in choice_events(top, self.choice(place, each)):
                yield piece
        if self.wanted.with_usage:
            yield sse_event(top | {"choices": [], "usage": usage_body(self.usage(sampled))})
        yield LAST_EVENT

    def choice(self, place: int, sampled: Sampled) -> Json:
        """One completion as a choice."""
        ids = ids_of(sampled)
        message = self.server.renderer.parse(ids, f"call_{uuid4().hex[:12]}_")
        stop = "calls" if message.calls and sampled.stop == "stop" else sampled.stop
        choice = chat_choice(TurnReply(message, stop, Usage()), place) | {"weight_versions": sampled.versions}
        if self.wanted.logprobs:
            choice["logprobs"] = {
                "content": [self._token(each, value) for each, value in zip(ids, logprobs_of(sampled), strict=True)]
            }
        if self.wanted.return_token_ids:
            choice["token_ids"] = ids
        return choice

    def _token(self, token: int, logprob: float) -> Json:
        text = self.server.tokenizer.decode([token])
        return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}

    def usage(self, sampled: Sequence[Sampled]) -> Usage:
        """Token counts of all choices."""
        return Usage(
            prompt_tokens=len(self.prompt),
            completion_tokens=sum(len(each.ids) // 4 for each in sampled),
            cached_tokens=sum(each.cached for each in sampled),
        )
