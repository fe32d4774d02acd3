"""`/v1/completions`: continues text or exact ids, in vLLM's dialect.

With `return_token_ids` a choice has the ids of prompt and completion, so clients need no tokenizer; with `logprobs` it has the
log-probability of each sampled token. `weight_versions` is a list of (count, version) over the completion.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, cast

import msgspec
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sandlot.core.errors import SandlotError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.trace import Usage
from sandlot.core.types import Json
from sandlot.model.wire.http import LAST_EVENT, EventStream, decode_body, json_response, read_body, run_while_connected, sse_event
from sandlot.model.wire.openai import SamplingRequest, TokenLimit
from sandlot.model.wire.openai_server import FINISH_REASONS, reply_head, usage_body
from sandlot.model.wire.turn import bad_field
from sandlot.serve.model.server import ModelServer, error_body, ids_of, logprobs_of, sampling_of, server_of, session_of

_DEFAULT_TOKENS = 16
"""OpenAI's default of `max_tokens`."""
_MAX_PROMPTS = 64


class _CompletionRequest(SamplingRequest):
    """`POST /v1/completions`."""

    prompt: Any = None
    max_tokens: TokenLimit | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=1)] | bool | None = None
    """True, 0 or 1: log-probabilities of the sampled tokens only, without alternatives."""
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    """Ignore the model's end-of-turn token; only `stop` and `stop_token_ids` end the completion."""
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None


async def completions(request: Request) -> Response:
    """Handle one request."""
    server = server_of(request)
    wanted = decode_body(await read_body(request, server.body_bytes), _CompletionRequest)
    job = await to_thread.run_sync(_check_request, server, request, wanted)  # tokenising a long text takes seconds
    if wanted.stream:
        server.metrics.count("/v1/completions", 200)
        return EventStream(job.events)
    body = await run_while_connected(request.receive, job.body)
    server.metrics.count("/v1/completions", 499 if body is None else 200)
    return json_response(body)


class _Job:
    """A checked request: prompts as ids and sampling settings."""

    def __init__(self, server: ModelServer, wanted: _CompletionRequest, prompts: list[list[int]], session: str) -> None:
        self.server = server
        self.wanted = wanted
        self.prompts = prompts
        self.session = session
        self.sampling: Sampling = sampling_of(wanted, wanted.max_tokens or _DEFAULT_TOKENS)
        own = () if wanted.ignore_eos else server.renderer.stop_ids
        self.stop_ids = tuple(dict.fromkeys([*own, *(wanted.stop_token_ids or ())]))

    async def sample(self) -> list[Sampled]:
        """Sample all choices."""
        num = self.wanted.n or 1
        async with self.server.admit(len(self.prompts) * num):
            return await self.server.sample_all(self.prompts, self.wanted, self.sampling, self.stop_ids, self.session)

    async def body(self) -> Json:
        """The reply body."""
        sampled = await self.sample()
        choices = [self.choice(place, each) for place, each in enumerate(sampled)]
        return reply_head("text_completion", self.server.model.name) | {
            "choices": choices,
            "usage": usage_body(self.usage(sampled)),
        }

    async def events(self) -> AsyncIterator[bytes]:
        """The reply as a stream; a failure after the start is an event."""
        top = reply_head("text_completion", self.server.model.name)
        try:
            sampled = await self.sample()
        except (HTTPException, SandlotError) as error:
            yield sse_event({"error": error_body(error)[1]})
            return
        for place, each in enumerate(sampled):
            yield sse_event(top | {"choices": [self.choice(place, each)]})
        if self.wanted.with_usage:
            yield sse_event(top | {"choices": [], "usage": usage_body(self.usage(sampled))})
        yield LAST_EVENT

    def choice(self, place: int, sampled: Sampled) -> Json:
        """One completion as a choice."""
        ids = ids_of(sampled)
        choice: Json = {
            "index": place,
            "text": self.server.tokenizer.decode(_without_stop(ids, self.stop_ids, sampled.stop)),
            "finish_reason": FINISH_REASONS[sampled.stop],
            "weight_versions": sampled.versions,
        }
        if self.wanted.logprobs is not None and self.wanted.logprobs is not False:
            pieces = [self.server.tokenizer.decode([each]) for each in ids]
            choice["logprobs"] = {
                "tokens": pieces,
                "token_logprobs": logprobs_of(sampled),
                "top_logprobs": None,
                "text_offset": None,
            }
        if self.wanted.return_token_ids:
            choice["token_ids"] = ids
            choice["prompt_token_ids"] = self.prompts[place // (self.wanted.n or 1)]
        return choice

    def usage(self, sampled: Sequence[Sampled]) -> Usage:
        """Token counts of all choices."""
        return Usage(
            prompt_tokens=sum(map(len, self.prompts)),
            completion_tokens=sum(len(each.ids) // 4 for each in sampled),
            cached_tokens=sum(each.cached for each in sampled),
        )


def _check_request(server: ModelServer, request: Request, wanted: _CompletionRequest) -> _Job:
    for name, value in {
        "echo": wanted.echo,
        "suffix": wanted.suffix,
        "best_of": wanted.best_of not in (None, 1, wanted.n),
    }.items():
        if value:
            raise bad_field(name, "is not supported")
    prompts = _prompts(server, wanted.prompt)
    for place, prompt in enumerate(prompts):
        server.require_ids(prompt, "prompt" if len(prompts) == 1 else f"prompt[{place}]")
    if wanted.stop_token_ids:
        server.require_stops(wanted.stop_token_ids)
    return _Job(server, wanted, prompts, session_of(request, wanted))


def _prompts(server: ModelServer, prompt: Any) -> list[list[int]]:
    """One text, one list of ids, or a list of either."""
    if isinstance(prompt, str):
        return [server.tokenizer.encode(prompt)]
    if not isinstance(prompt, list) or not prompt:
        raise bad_field("prompt", "give text, a list of token ids, or a list of either")
    items = cast("list[Any]", prompt)
    if all(type(item) is int for item in items):
        return [cast("list[int]", items)]
    if len(items) > _MAX_PROMPTS:
        raise bad_field("prompt", f"{len(items)} prompts; the maximum is {_MAX_PROMPTS}")
    prompts: list[list[int]] = []
    for place, item in enumerate(items):
        if isinstance(item, str):
            prompts.append(server.tokenizer.encode(item))
        elif isinstance(item, list) and all(type(each) is int for each in cast("list[Any]", item)):
            prompts.append(cast("list[int]", item))
        else:
            raise bad_field(f"prompt[{place}]", "give text or a list of token ids")
    return prompts


def _without_stop(ids: list[int], stop_ids: Sequence[int], stop: str) -> list[int]:
    """The ids without the final stop token, which is not part of the text."""
    return ids[:-1] if stop == "stop" and ids and ids[-1] in stop_ids else ids
