"""`/v1/completions`: continues text or exact ids, in vLLM's dialect.

With `return_token_ids` a choice has the ids of prompt and completion, so clients need no tokenizer; with `logprobs` it has the
log-probability of each sampled token. `weight_versions` is a list of (count, version) over the completion.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from sandlot.core.ports.model import Sampled
from sandlot.core.tokens import unpacked_ids
from sandlot.core.types import Json
from sandlot.model.wire.http import decode_body, read_body, sse_event
from sandlot.model.wire.openai import SamplingRequest, TokenLimit
from sandlot.model.wire.openai_server import FINISH_REASONS
from sandlot.model.wire.turn import bad_field
from sandlot.serve.model.job import SamplingJob
from sandlot.serve.model.server import ModelServer, logprobs_of, sampling_of, server_of, session_of

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
    return await job.respond(request)


def _check_request(server: ModelServer, request: Request, wanted: _CompletionRequest) -> SamplingJob:
    for name, value in {
        "echo": wanted.echo,
        "suffix": wanted.suffix,
        "best_of": wanted.best_of not in (None, 1, wanted.n),
    }.items():
        if value:
            raise bad_field(name, "is not supported")
    model = server.model_named(wanted.model)
    prompts = _prompts(server, wanted.prompt)
    for place, prompt in enumerate(prompts):
        server.require_ids(prompt, "prompt" if len(prompts) == 1 else f"prompt[{place}]")
    if wanted.stop_token_ids:
        server.require_stops(wanted.stop_token_ids)
    own = () if wanted.ignore_eos else server.renderer.stop_ids
    stop_ids = tuple(dict.fromkeys([*own, *(wanted.stop_token_ids or ())]))
    return SamplingJob(
        server=server,
        model=model,
        wanted=wanted,
        prompts=prompts,
        session=session_of(request, wanted),
        sampling=sampling_of(wanted, wanted.max_tokens or _DEFAULT_TOKENS),
        stop_ids=stop_ids,
        choice=partial(_choice, server, wanted, prompts, stop_ids),
        events=lambda top, choice: [sse_event(top | {"choices": [choice]})],
        kinds=("text_completion", "text_completion"),
        more={},
    )


def _choice(
    server: ModelServer,
    wanted: _CompletionRequest,
    prompts: list[list[int]],
    stop_ids: Sequence[int],
    place: int,
    sampled: Sampled,
) -> Json:
    ids = unpacked_ids(sampled.ids)
    ends_in_stop = sampled.stop == "stop" and bool(ids) and ids[-1] in stop_ids  # a stop token is not part of the text
    choice: Json = {
        "index": place,
        "text": server.tokenizer.decode(ids[:-1] if ends_in_stop else ids),
        "finish_reason": FINISH_REASONS[sampled.stop],
        "weight_versions": sampled.versions,
    }
    if wanted.logprobs is not None and wanted.logprobs is not False:
        choice["logprobs"] = {
            "tokens": [server.tokenizer.decode([each]) for each in ids],
            "token_logprobs": logprobs_of(sampled),
            "top_logprobs": None,
            "text_offset": None,
        }
    if wanted.return_token_ids:
        choice["token_ids"] = ids
        choice["prompt_token_ids"] = prompts[place // (wanted.n or 1)]
    return choice


def _prompts(server: ModelServer, prompt: Any) -> list[list[int]]:
    """One text, in which control tokens may be spelled, one list of ids, or a list of either."""
    if isinstance(prompt, str):
        return [server.tokenizer.encode_template(prompt)]
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
            prompts.append(server.tokenizer.encode_template(item))
        elif isinstance(item, list) and all(type(each) is int for each in cast("list[Any]", item)):
            prompts.append(cast("list[int]", item))
        else:
            raise bad_field(f"prompt[{place}]", "give text or a list of token ids")
    return prompts
