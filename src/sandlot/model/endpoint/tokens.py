"""A token model behind HTTP: our own server, vLLM or SGLang.

Requests and replies hold token ids; each sampled id has its log-probability and weight version. Log-probabilities must be of the
distribution that was sampled from: settings under which an engine reports others are refused when it is opened.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote

import msgspec

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.model.endpoint.endpoint import Endpoint, EndpointConfig, PostRequest, open_endpoint
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.secret import is_base_url, public_url, split_urls
from sandlot.model.wire.server_load import ServerLoad, parse_load
from sandlot.model.wire.token_engines import DIALECTS, CompletionRequest, Dialect

_PROBE_IDS = (1, 2, 3)
"""A prompt that is valid in every vocabulary."""
_PROBE_TEMPERATURE = 0.25
_SAME_LOGPROB = 1e-2
"""Log-probabilities closer than this are equal up to rounding."""


class RemoteConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token model: name, URL or socket, dialect, limits."""

    model: str = ""
    """The name the server lists; empty for its only model."""
    url: str = "http://sandlot"
    """Of several servers, all with commas between them."""
    dialect: Literal["sandlot", "vllm", "sglang"] = "sandlot"
    unix: Path | None = None
    """The server's unix socket, used instead of the URL's host."""
    name: str = ""
    """The name for messages; empty for dialect, model and URL."""
    at_once: int = 1024
    request_s: float = 3600.0
    patience_s: float = 300.0

    @property
    def each(self) -> "list[RemoteConfig]":
        """One for every server."""
        return [msgspec.structs.replace(self, url=url) for url in split_urls(self.url)]

    @property
    def base(self) -> str:
        """The URL without a trailing `/v1`."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def public_name(self) -> str:
        """The name without secrets."""
        return self.name or f"{self.dialect}:{self.model}@{public_url(self.url)}"

    @property
    def endpoint(self) -> EndpointConfig:
        """The settings of its connections."""
        return EndpointConfig(
            name=self.public_name,
            url=self.base,
            unix=self.unix,
            at_once=self.at_once,
            request_s=self.request_s,
            patience_s=self.patience_s,
        )


def remote_config(dialect: Literal["sandlot", "vllm", "sglang"], rest: str) -> RemoteConfig:
    """Parse `NAME@URL` from the command line."""
    model, mark, url = rest.partition("@http")
    urls = "http" + url
    if not mark or not all(map(is_base_url, split_urls(urls))):
        shown = f"{model}@{public_url(urls)}" if mark else rest
        raise ConfigError(f"model `{dialect}:{shown}`: write `{dialect}:NAME@http://host:port`")
    return RemoteConfig(model=model, url=urls, dialect=dialect)


@asynccontextmanager
async def open_remote(
    config: RemoteConfig,
    sampling: Sampling | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    patience: Patience | None = None,
) -> AsyncGenerator["RemoteTokens"]:
    """Open the model. `sampling` is refused if the server would report log-probabilities of another distribution."""
    async with open_endpoint(config.endpoint, environ=environ, patience=patience) as endpoint:
        yield await examine_server(endpoint, config, sampling or Sampling())


async def examine_server(endpoint: Endpoint, config: RemoteConfig, sampling: Sampling) -> "RemoteTokens":
    """The model of a server; `ConfigError` if it is another one, or its log-probabilities would not be true."""
    found = await _find_model(endpoint, config)
    assert found.max_model_len is not None
    await _require_true_logprobs(endpoint, config, found.id, sampling)
    dialect = DIALECTS[config.dialect]
    return RemoteTokens(endpoint, dialect, found.id, found.max_model_len, cache_tokens=found.cache_tokens)


class RemoteTokens:
    """`ports.TokenModel` over HTTP. Open it with `open_remote`."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        model: str,
        context: int,
        *,
        adapter: bool = False,
        cache_tokens: int | None = None,
    ) -> None:
        self.name = endpoint.name
        self.context = context
        self.endpoint = endpoint
        self.cache_tokens = cache_tokens
        """Tokens that the server's prefix cache holds, if it reports them."""
        self._dialect = dialect
        self._model = model
        self._adapter = adapter

    def __repr__(self) -> str:
        return f"RemoteTokens({self.name!r})"

    async def post_to_all(self, path: str, body: bytes) -> list[ModelError | None]:
        """POST to the server once; what failed, else None."""
        return [await self.endpoint.post_once(path, body, lambda _reply: None)]

    async def list_models(self) -> "list[InModel]":
        """The models and adapters of the server."""
        return await self.endpoint.get("/v1/models", parse_models)

    async def server_load(self) -> ServerLoad:
        """How busy the server is, as its metrics say."""
        found = await self.endpoint.for_probes().get_once("/metrics", lambda reply: reply.decode(errors="replace"))
        text = "" if isinstance(found, ModelError) else found
        return parse_load(text, self._dialect.name, self.cache_tokens)

    def with_adapter(self, name: str) -> "RemoteTokens":
        """The same model with an adapter that is loaded in its server."""
        return RemoteTokens(self.endpoint, self._dialect, name, self.context, adapter=True)

    def over(self, endpoint: Endpoint) -> "RemoteTokens":
        """The same model with other connections to its server."""
        return RemoteTokens(
            endpoint, self._dialect, self._model, self.context, adapter=self._adapter, cache_tokens=self.cache_tokens
        )

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids. Cancelling closes the connection, which cancels the request in the server."""
        request = self.request(ids, sampling, stop_ids, session)
        return await self.endpoint.post(request.path, request.body, request.read)

    def request(self, ids: Sequence[int], sampling: Sampling, stop_ids: Sequence[int], session: str) -> PostRequest[Sampled]:
        """The request of `sample`; `ModelError` if the ids do not fit."""
        room = self.context - len(ids)
        if room < 1:
            raise ModelError(f"{self.name}: {len(ids)} tokens do not fit into a context of {self.context}", kind="context")
        if not ids:
            raise ModelError(f"{self.name}: the prompt is empty", kind="bad_request")
        most = room if sampling.max_tokens is None else min(room, sampling.max_tokens)
        wanted = CompletionRequest(self._model, ids, sampling, most, stop_ids, session, self._adapter)
        body = msgspec.json.encode(self._dialect.write(wanted))
        return PostRequest(self._dialect.path, body, lambda reply: self._dialect.read(reply, wanted))

    async def release(self, session: str) -> None:
        """Report the end of a rollout to servers that have sessions."""
        if self._dialect.sessions and session:
            await self.endpoint.delete(f"/v1/sessions/{quote(session, safe='')}")


class InModel(msgspec.Struct):
    """A model or adapter of a server."""

    id: str
    max_model_len: int | None = None
    parent: str | None = None
    """The base model of an adapter."""
    cache_tokens: int | None = None
    """Tokens that the server's prefix cache holds; our own server reports it."""


class _InModels(msgspec.Struct):
    """A reply of `/v1/models`."""

    data: list[InModel]


async def _find_model(endpoint: Endpoint, config: RemoteConfig) -> InModel:
    """The model as the server describes it, with its context length."""
    models = await endpoint.get("/v1/models", parse_models)
    names = [model.id for model in models]
    found = next((model for model in models if model.id == config.model), None)
    whole = [model for model in models if model.parent is None]
    if not config.model and len(whole) == 1:
        found = whole[0]
    if found is None:
        raise ConfigError(
            f"{config.public_name}: the server has no model `{config.model}`; it has: {', '.join(names[:20]) or 'none'}"
        )
    if not found.max_model_len or found.max_model_len < 1:
        raise ConfigError(f"{config.public_name}: the server does not report its context length (`max_model_len` in /v1/models)")
    return found


def parse_models(reply: bytes) -> list[InModel]:
    """The models in a reply of `/v1/models`."""
    try:
        return msgspec.json.decode(reply, type=_InModels).data
    except (ValueError, RecursionError) as error:
        raise ModelError(f"/v1/models did not answer with a list of models: {error}", kind="malformed") from None


async def _require_true_logprobs(endpoint: Endpoint, config: RemoteConfig, model: str, sampling: Sampling) -> None:
    """Refuse settings under which an engine reports log-probabilities of another distribution than it samples from."""
    shaped = sampling.top_p < 1 or sampling.top_k > 0
    if config.dialect == "sglang" and shaped:
        raise ConfigError(f"{config.public_name}: SGLang reports log-probabilities before top-p and top-k; sample without both")
    if config.dialect != "vllm" or not (shaped or sampling.temperature not in {0.0, 1.0}):
        return
    if await _reports_raw_logprobs(endpoint, model):
        raise ConfigError(
            f"{config.public_name}: the server reports log-probabilities before temperature, top-p and top-k; start vLLM with "
            "`--logprobs-mode processed_logprobs`, or sample with temperature 1 and without both"
        )


async def _reports_raw_logprobs(endpoint: Endpoint, model: str) -> bool:
    """True if log-probabilities are the same at two temperatures: they are then taken before temperature."""
    found = [await endpoint.post("/v1/completions", _probe(model, heat), _alternatives) for heat in (1.0, _PROBE_TEMPERATURE)]
    shared = set(found[0]) & set(found[1])
    return bool(shared) and all(abs(found[0][each] - found[1][each]) < _SAME_LOGPROB for each in shared)


def _probe(model: str, temperature: float) -> bytes:
    body = {"model": model, "prompt": list(_PROBE_IDS), "max_tokens": 1, "temperature": temperature, "logprobs": 4, "seed": 0}
    return msgspec.json.encode(body)


def _alternatives(reply: bytes) -> dict[str, float]:
    try:
        body: Any = msgspec.json.decode(reply)
        return cast("dict[str, float]", body["choices"][0]["logprobs"]["top_logprobs"][0])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelError(f"the reply has no `top_logprobs`: {type(error).__name__}: {error}", kind="malformed") from None
