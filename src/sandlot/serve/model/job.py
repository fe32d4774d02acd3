"""A checked request of a route that samples: its completions, and the reply as a body or as a stream."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sandlot.core.errors import SandlotError
from sandlot.core.ports.model import Sampled, Sampling, TokenModel
from sandlot.core.trace import Usage
from sandlot.core.types import Json
from sandlot.model.wire.http import LAST_EVENT, EventStream, json_response, run_while_connected, sse_event
from sandlot.model.wire.openai import SamplingRequest
from sandlot.model.wire.openai_server import reply_head, usage_body
from sandlot.serve.model.server import ModelServer, error_body


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingJob:
    """Prompts as ids, sampling settings, and how this route writes its reply."""

    server: ModelServer
    model: TokenModel
    """The model or adapter that the request names."""
    wanted: SamplingRequest
    prompts: list[list[int]]
    sampling: Sampling
    stop_ids: Sequence[int]
    session: str
    choice: Callable[[int, Sampled], Json]
    """One completion, by its place, as a choice."""
    events: Callable[[Json, Json], Iterable[bytes]]
    """The head of a stream and one choice, as events."""
    kinds: tuple[str, str]
    """The field `object` of a body and of an event."""
    more: Json
    """Further fields of a body."""

    async def respond(self, request: Request) -> Response:
        """Sample, and reply as the request wants."""
        if self.wanted.stream:
            self.server.metrics.count(request.url.path, 200)
            return EventStream(self._stream)
        body = await run_while_connected(request.receive, self._body)
        self.server.metrics.count(request.url.path, 499 if body is None else 200)
        return json_response(body)

    async def _sample(self) -> list[Sampled]:
        async with self.server.admit(len(self.prompts) * (self.wanted.n or 1)):
            return await self.server.sample_all(
                self.model, self.prompts, self.wanted.n or 1, self.sampling, self.stop_ids, self.session
            )

    async def _body(self) -> Json:
        sampled = await self._sample()
        choices = [self.choice(place, each) for place, each in enumerate(sampled)]
        return reply_head(self.kinds[0], self.model.name) | {"choices": choices, "usage": self._usage(sampled)} | self.more

    async def _stream(self) -> AsyncIterator[bytes]:
        """The events; a failure after the start is one too."""
        top = reply_head(self.kinds[1], self.model.name)
        try:
            sampled = await self._sample()
        except (HTTPException, SandlotError) as error:
            yield sse_event({"error": error_body(error)[1]})
            return
        for place, each in enumerate(sampled):
            for event in self.events(top, self.choice(place, each)):
                yield event
        if self.wanted.with_usage:
            yield sse_event(top | {"choices": [], "usage": self._usage(sampled)})
        yield LAST_EVENT

    def _usage(self, sampled: Sequence[Sampled]) -> Json:
        usage = Usage(
            prompt_tokens=sum(map(len, self.prompts)),
            completion_tokens=sum(len(each.ids) // 4 for each in sampled),
            cached_tokens=sum(each.cached for each in sampled),
        )
        return usage_body(usage)
