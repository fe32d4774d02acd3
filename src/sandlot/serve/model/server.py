"""A model as an OpenAI-compatible server with exact tokens: `sandlot serve --model`.

It serves any `TokenModel` with its `Renderer`. `/v1/completions` takes text or ids and returns ids, log-probabilities and weight
versions in vLLM's dialect; `/v1/chat/completions` renders messages and tools. A request is cancelled when its client disconnects.
Requests beyond `at_once` get HTTP 429, so that clients decide whether to wait.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request

from sandlot.core.errors import ModelError, unwrapped
from sandlot.core.ports.model import Renderer, Sampled, Sampling, TokenModel
from sandlot.model.render.tokenizer import Tokenizer
from sandlot.model.wire.http import MAX_BODY_BYTES
from sandlot.model.wire.openai import SamplingRequest
from sandlot.model.wire.openai_server import refuse_unsupported
from sandlot.serve.model.adapters import ServedAdapters
from sandlot.serve.model.cache import ServedCache
from sandlot.serve.model.metrics import Metrics

_AT_ONCE = 1024
"""Maximum completions running or queued; further requests get HTTP 429."""
_REQUEST_S = 3600.0
"""Timeout of a request."""
_MAX_SESSION = 256
_MAX_STOPS = 64
"""Maximum stop texts of a request: the engine searches for each after every token."""
_MAX_STOP_TOKENS = 1024
_MAX_STOP_CHARS = 1024
_BODY_BYTES_PER_TOKEN = 512
"""A body with more bytes per token of the context cannot hold a prompt that fits."""
_STATUS = {"context": 400, "bad_request": 400, "request": 400, "not_found": 404, "rate_limit": 429, "timeout": 504}
"""HTTP status by kind of `ModelError`; 500 for others."""


class ModelServer:
    """A served model with its renderer, tokenizer and metrics."""

    def __init__(
        self,
        model: TokenModel,
        renderer: Renderer,
        tokenizer: Tokenizer,
        *,
        vocabulary: int,
        at_once: int = _AT_ONCE,
        gauges: Callable[[], Mapping[str, float]] | None = None,
        cache: ServedCache | None = None,
        adapters: ServedAdapters | None = None,
    ) -> None:
        self.model = model
        self.renderer = renderer
        self.tokenizer = tokenizer
        self._vocabulary = vocabulary
        """How many ids the model has, which may be more than its tokenizer names."""
        self.metrics = Metrics(gauges or dict[str, float])
        self.body_bytes = min(MAX_BODY_BYTES, 2**20 + _BODY_BYTES_PER_TOKEN * model.context)
        """Limit of a request body; a larger one could not fit into the context."""
        self.cache = cache or ServedCache()
        self.adapters = adapters
        """None if it serves the base model only, under whatever name a client uses."""
        self._at_once = at_once

    def model_named(self, name: str) -> TokenModel:
        """The model that a request names; HTTP 404 for a name that a server with adapters does not list."""
        return self.model if self.adapters is None else self.adapters.model_named(name)

    @asynccontextmanager
    async def admit(self, num: int) -> AsyncGenerator[None]:
        """Reserve places for `num` completions inside the context; HTTP 429 if there are too few."""
        if self.metrics.running + num > self._at_once:
            raise HTTPException(
                429, f"{self.metrics.running} completions are running; the maximum is {self._at_once}", {"Retry-After": "1"}
            )
        self.metrics.running += num
        try:
            with anyio.fail_after(_REQUEST_S):
                yield
        except TimeoutError:
            raise HTTPException(504, f"not finished within {_REQUEST_S:g} s") from None
        finally:
            self.metrics.running -= num

    def require_ids(self, ids: Sequence[int], field: str) -> None:
        """Refuse an empty prompt, unknown token ids, and a prompt that does not fit into the context."""
        if not ids:
            raise HTTPException(400, f"`{field}`: the prompt is empty")
        if not 0 <= min(ids) <= max(ids) < self._vocabulary:
            raise HTTPException(400, f"`{field}`: a token id is outside 0..{self._vocabulary - 1}")
        if len(ids) >= self.model.context:
            raise ModelError(
                f"the prompt has {len(ids)} tokens and the model's context length is {self.model.context}", kind="context"
            )

    def require_stops(self, ids: Sequence[int]) -> None:
        """Refuse unknown stop tokens, and too many."""
        if len(ids) > _MAX_STOP_TOKENS:
            raise HTTPException(400, f"`stop_token_ids`: {len(ids)} ids; the maximum is {_MAX_STOP_TOKENS}")
        if not 0 <= min(ids) <= max(ids) < self._vocabulary:
            raise HTTPException(400, f"`stop_token_ids`: a token id is outside 0..{self._vocabulary - 1}")

    async def sample(
        self, model: TokenModel, ids: Sequence[int], sampling: Sampling, stop_ids: Sequence[int], session: str
    ) -> Sampled:
        """Sample one completion of a model and count it."""
        sampled = await model.sample(ids, sampling, stop_ids=stop_ids, session=session)
        self.metrics.prompt_tokens += len(ids)
        self.metrics.cached_tokens += sampled.cached
        self.metrics.sampled_tokens += len(sampled.ids) // 4
        return sampled

    async def sample_all(
        self,
        model: TokenModel,
        prompts: Sequence[Sequence[int]],
        num: int,
        sampling: Sampling,
        stop_ids: Sequence[int],
        session: str,
    ) -> list[Sampled]:
        """Sample `num` completions of every prompt concurrently, in order, each with its own seed."""
        places = [(prompt, choice) for prompt in prompts for choice in range(num)]
        done: dict[int, Sampled] = {}

        async def one(place: int, prompt: Sequence[int], choice: int) -> None:
            seed = None if sampling.seed is None else sampling.seed + choice
            done[place] = await self.sample(model, prompt, msgspec.structs.replace(sampling, seed=seed), stop_ids, session)

        try:
            async with anyio.create_task_group() as group:
                for place, (prompt, choice) in enumerate(places):
                    group.start_soon(one, place, prompt, choice)
        except BaseExceptionGroup as wrapped:
            raise unwrapped(wrapped) from None
        return [done[place] for place in range(len(places))]


def logprobs_of(sampled: Sampled) -> list[float]:
    """The log-probabilities as numbers."""
    return np.frombuffer(sampled.logprobs, dtype="<f4").tolist()


def sampling_of(wanted: SamplingRequest, max_tokens: int | None) -> Sampling:
    """The sampling settings of a request."""
    refuse_unsupported(wanted)
    stop = (wanted.stop,) if isinstance(wanted.stop, str) else tuple(wanted.stop or ())
    if any(not text for text in stop):
        raise HTTPException(400, "`stop`: a stop text is empty; remove it")
    if len(stop) > _MAX_STOPS or any(len(text) > _MAX_STOP_CHARS for text in stop):
        raise HTTPException(400, f"`stop`: give at most {_MAX_STOPS} texts of at most {_MAX_STOP_CHARS} characters")
    return Sampling(
        temperature=1.0 if wanted.temperature is None else wanted.temperature,
        top_p=1.0 if wanted.top_p is None else wanted.top_p,
        top_k=max(0, wanted.top_k or 0),
        max_tokens=max_tokens,
        stop=stop,
        seed=None if wanted.seed is None else wanted.seed % 2**62,
    )


def session_of(request: Request, wanted: SamplingRequest) -> str:
    """The rollout a request belongs to: the field `session`, or the header `X-Session-Id`; empty for none."""
    session = wanted.session or request.headers.get("x-session-id", "")
    if len(session) > _MAX_SESSION:
        raise HTTPException(400, f"`session`: longer than {_MAX_SESSION} characters")
    return session


def server_of(request: Request) -> ModelServer:
    """The server that handles a request."""
    return request.app.state.server


def error_body(error: Exception) -> tuple[int, dict[str, Any]]:
    """HTTP status and OpenAI error body of an exception."""
    if isinstance(error, HTTPException):
        return error.status_code, {"message": error.detail, "type": "invalid_request_error", "code": error.status_code}
    kind = error.kind if isinstance(error, ModelError) else "crash"
    code = "context_length_exceeded" if kind == "context" else kind
    return _STATUS.get(kind, 500), {"message": str(error), "type": "model_error", "code": code}
