"""Requests for exact tokens in the dialects of our own server, vLLM and SGLang.

Each dialect is one function that writes a request and one that reads its reply. A reply is accepted only if it is consistent: as
many log-probabilities as ids, all finite, weight versions that add up, no more tokens than requested, and the sampled stop token
included. Anything else is `ModelError(kind="malformed")`, never a trace with wrong tokens.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.types import Json
from sandlot.model.wire.failure import error_in_reply
from sandlot.model.wire.openai import CompletionReply, Count, ReplyPromptUsage, TokenId

_SLACK = 1e-3
"""A log-probability may exceed 0 by this much, from rounding."""

_NEUTRAL: Json = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Sent with every request. For fields that are missing an engine takes defaults from the model's `generation_config.json`, and
would then sample from another distribution than the recorded one."""

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion to request."""

    model: str
    ids: Sequence[int]
    sampling: Sampling
    max_tokens: int
    stop_ids: Sequence[int]
    session: str
    adapter: bool = False
    """True if the model is an adapter; the reply must then name it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The request format of one engine."""

    name: str
    path: str
    write: Callable[[CompletionRequest], Json]
    read: Callable[[bytes, CompletionRequest], Sampled]
    sessions: bool = False
    """True if the end of a rollout is reported to it."""


# -- vLLM, and our own server ------------------------------------------------------------------------------------------


def _write_completion(request: CompletionRequest) -> Json:
    sampling = request.sampling
    body: Json = {
        "model": request.model,
        "prompt": list(request.ids),
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        **_NEUTRAL,
        "logprobs": 1,
        "return_token_ids": True,
        "ignore_eos": True,  # only the stops named here end a turn
        "stop_token_ids": list(request.stop_ids),
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.stop:
        body |= {"stop": list(sampling.stop), "include_stop_str_in_output": True}
    return body


def _write_own(request: CompletionRequest) -> Json:
    return _write_completion(request) | ({"session": request.session} if request.session else {})


def _read_completion(reply: bytes, request: CompletionRequest) -> Sampled:
    answer = _decode_reply(reply, CompletionReply)
    if answer.error is not None:
        raise error_in_reply(answer.error)
    if request.adapter and answer.model != request.model:
        raise _malformed(f"`{request.model}` was requested, `{answer.model}` answered")
    if not answer.choices or len(answer.choices) != 1:
        raise _malformed(f"it has {len(answer.choices or ())} choices; 1 was requested")
    choice = answer.choices[0]
    if choice.token_ids is None:
        raise _malformed("it has no `token_ids`; the server is too old for `return_token_ids`, or not vLLM")
    if choice.prompt_token_ids is not None and choice.prompt_token_ids != list(request.ids):
        raise _malformed("`prompt_token_ids` differ from the prompt that was sent")
    if choice.logprobs is None or choice.logprobs.token_logprobs is None:
        raise _malformed("it has no `logprobs`")
    usage = answer.usage or ReplyPromptUsage()
    if usage.prompt_tokens is not None and usage.prompt_tokens != len(request.ids):
        raise _malformed(f"the prompt has {len(request.ids)} tokens, the server counted {usage.prompt_tokens}")
    return _require_exact(
        request,
        choice.token_ids,
        choice.logprobs.token_logprobs,
        [(len(choice.token_ids), 0)] if choice.weight_versions is None else choice.weight_versions,
        stop=choice.finish_reason,
        cached=usage.cached_tokens,
    )


# -- SGLang ------------------------------------------------------------------------------------------------------------


class _InFinish(msgspec.Struct):
    """Why it stopped, and the token or text that matched."""

    type: str
    matched: Any = None
    message: str | None = None


class _InMeta(msgspec.Struct):
    """A completion without its text."""

    output_token_logprobs: list[tuple[float | None, TokenId, Any]] | None = None
    finish_reason: _InFinish | None = None
    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    weight_version: str | int | None = None


class _InGenerated(msgspec.Struct):
    """A reply of `/generate`."""

    meta_info: _InMeta | None = None
    output_ids: list[TokenId] | None = None
    error: Any = None


def _write_generate(request: CompletionRequest) -> Json:
    sampling = request.sampling
    settings: Json = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        **_NEUTRAL,
        "max_new_tokens": request.max_tokens,
        "stop_token_ids": list(request.stop_ids),
        "skip_special_tokens": False,
        "no_stop_trim": True,
    }
    if sampling.stop:
        settings["stop"] = list(sampling.stop)
    return {"input_ids": list(request.ids), "sampling_params": settings, "return_logprob": True, "logprob_start_len": -1}


def _read_generate(reply: bytes, request: CompletionRequest) -> Sampled:
    answer = _decode_reply(reply, _InGenerated)
    if answer.error is not None:
        raise error_in_reply(answer.error)
    meta = answer.meta_info
    if meta is None or meta.output_token_logprobs is None or meta.finish_reason is None:
        raise _malformed("it has no `meta_info` with `output_token_logprobs` and `finish_reason`")
    logprobs = [value for value, *_ in meta.output_token_logprobs]
    ids = [token for _, token, *_ in meta.output_token_logprobs]
    if answer.output_ids is not None and answer.output_ids != ids:
        raise _malformed("`output_ids` and `output_token_logprobs` name different tokens")
    if meta.prompt_tokens is not None and meta.prompt_tokens != len(request.ids):
        raise _malformed(f"the prompt has {len(request.ids)} tokens, the server counted {meta.prompt_tokens}")
    matched = meta.finish_reason.matched
    return _require_exact(
        request,
        ids,
        logprobs,
        [(len(ids), _version_number(meta.weight_version))],
        stop=meta.finish_reason.type,
        cached=meta.cached_tokens or 0,
        also_stops=(matched,) if isinstance(matched, int) else (),
    )


def _version_number(named: str | int | None) -> int:
    """SGLang names versions by text; `default` are the weights it started with."""
    if named in (None, "default"):
        return 0
    if str(named).isdecimal():
        return int(named)
    raise _malformed(f"the weight version is {named!r}; publish weights under numbers, so that versions have an order")


# -- checks of every reply ------------------------------------------------------------------------------------------


def _require_exact(
    request: CompletionRequest,
    ids: Sequence[int],
    logprobs: Sequence[float | None],
    versions: Sequence[tuple[int, int]],
    *,
    stop: str | None,
    cached: int = 0,
    also_stops: Sequence[int] = (),
) -> Sampled:
    """The completion if it is consistent. `also_stops` are further tokens that the engine reports to have stopped at."""
    if stop not in {"stop", "length"}:
        raise ModelError(f"the engine stopped early with finish reason `{stop}`", kind="server", retryable=True)
    if not ids or len(ids) > request.max_tokens:
        raise _malformed(f"it has {len(ids)} tokens; 1 to {request.max_tokens} were requested")
    if len(logprobs) != len(ids):
        raise _malformed(f"it has {len(ids)} tokens and {len(logprobs)} log-probabilities")
    numbers = [value if value is not None and math.isfinite(value) and value <= _SLACK else None for value in logprobs]
    if None in numbers:
        place = numbers.index(None)
        raise _malformed(f"the log-probability of token {place} is {logprobs[place]!r}")
    if sum(count for count, _ in versions) != len(ids) or any(count < 1 for count, _ in versions):
        raise _malformed(f"weight versions {list(versions)[:8]} do not add up to {len(ids)} tokens")
    if stop == "stop" and not request.sampling.stop and ids[-1] not in (*request.stop_ids, *also_stops):
        raise _malformed(
            f"finish reason is `stop`, but the last token {ids[-1]} is not a stop token; the sampled stop token is missing"
        )
    if not 0 <= cached <= len(request.ids):
        raise _malformed(f"it reports {cached} cached tokens of a prompt of {len(request.ids)}")
    return Sampled(
        ids=struct.pack(f"<{len(ids)}i", *ids),
        logprobs=struct.pack(f"<{len(ids)}f", *(min(value, 0.0) for value in numbers if value is not None)),
        versions=tuple(versions),
        stop=stop,
        cached=cached,
    )


def _malformed(why: str) -> ModelError:
    """The error for an inconsistent reply."""
    return ModelError(f"the engine's reply is not an exact completion: {why}", kind="malformed")


def _decode_reply(reply: bytes, kind: type[Read]) -> Read:
    try:
        return msgspec.json.decode(reply, type=kind)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{type(error).__name__}: {error}") from None


DIALECTS: dict[Literal["sandlot", "vllm", "sglang"], Dialect] = {
    "sandlot": Dialect("sandlot", "/v1/completions", _write_own, _read_completion, sessions=True),
    "vllm": Dialect("vllm", "/v1/completions", _write_completion, _read_completion),
    "sglang": Dialect("sglang", "/generate", _write_generate, _read_generate),
}
