"""Chat and token models with several servers: `openai:NAME@URL,URL,...`, `vllm:NAME@URL,URL,...`.

Servers that do not answer when the model is opened are down and may come later, as long as one answers. A server that has another
model, another context or wrong log-probabilities is refused.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Reply, Sampled, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.tokens import packed_ids
from sandlot.core.trace import Message
from sandlot.model.endpoint.chat import OpenAIChat, OpenAIConfig, open_openai
from sandlot.model.endpoint.endpoint import Endpoint, EndpointConfig, open_endpoint
from sandlot.model.endpoint.followed import POLL_S, follow_replicas
from sandlot.model.endpoint.replicas import PROBE_S, Replicas, RoutedRequest, open_replicas
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.secret import public_url
from sandlot.model.endpoint.session import current_session
from sandlot.model.endpoint.tokens import InModel, RemoteConfig, RemoteTokens, examine_server, open_remote, parse_models
from sandlot.model.routing.router import PlacedRequest, Router, RouterConfig
from sandlot.model.wire.failure import is_unavailable, short_line
from sandlot.model.wire.kv_events import KV_EVENTS_BYTES
from sandlot.model.wire.server_load import ServerLoad, add_loads

_ONCE = Patience(0.0)
"""For one replica: `Replicas` itself tries another."""
_AFTER_MESSAGES = b'],"temperature":'
"""What follows the messages in a chat request; inside a JSON string the quotes would be escaped."""


# -- tokens ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_tokens(
    config: RemoteConfig,
    sampling: Sampling | None = None,
    *,
    routing: RouterConfig | None = None,
    environ: Mapping[str, str] = os.environ,
    patience: Patience | None = None,
) -> AsyncGenerator["RemoteTokens | ReplicatedTokens"]:
    """Open a token model with one server or several."""
    if len(config.each) == 1:
        async with open_remote(config, sampling, environ=environ, patience=patience) as tokens:
            yield tokens
    else:
        opening = open_replicated_tokens(config.each, sampling, routing=routing, environ=environ, patience=patience)
        async with opening as tokens:
            yield tokens


@asynccontextmanager
async def open_replicated_tokens(
    configs: Sequence[RemoteConfig],
    sampling: Sampling | None = None,
    *,
    routing: RouterConfig | None = None,
    environ: Mapping[str, str] = os.environ,
    patience: Patience | None = None,
    probe_s: float = PROBE_S,
    poll_s: float = POLL_S,
) -> AsyncGenerator["ReplicatedTokens"]:
    """Open a token model with several servers; `sampling` as in `open_remote`."""
    async with AsyncExitStack() as stack:
        endpoints = [
            await stack.enter_async_context(open_endpoint(config.endpoint, environ=environ, patience=_ONCE)) for config in configs
        ]
        router = Router([public_url(config.url) for config in configs], routing)
        servers = _TokenServers(configs, endpoints, sampling or Sampling(), router)
        wrong = await servers.examine_all()
        _require_one(configs[0].public_name, wrong)
        opening = open_replicas(
            servers.router,
            servers.check,
            patience=patience or Patience(configs[0].patience_s),
            down=[number for number, why in enumerate(wrong) if why is not None],
            probe_s=probe_s,
        )
        replicas = await stack.enter_async_context(opening)
        if router.config.routing == "reported" and configs[0].dialect == "sandlot":
            reporting = [
                await stack.enter_async_context(open_endpoint(_for_polls(config.endpoint), environ=environ, patience=_ONCE))
                for config in configs
            ]
            await stack.enter_async_context(follow_replicas(router, reporting, poll_s=poll_s))
        yield ReplicatedTokens(servers, replicas)


def _for_polls(config: EndpointConfig) -> EndpointConfig:
    """The same server, for its cache events: they do not wait for requests, and are short."""
    return msgspec.structs.replace(config, at_once=1, reply_bytes=KV_EVENTS_BYTES)


class _TokenServers:
    """The servers of a token model, as far as they have answered."""

    def __init__(
        self, configs: Sequence[RemoteConfig], endpoints: Sequence[Endpoint], sampling: Sampling, router: Router
    ) -> None:
        self.configs = configs
        self.router = router
        self.tokens: list[RemoteTokens | None] = [None] * len(configs)
        self.context = 0
        """That of all of them: else it would depend on the router where a rollout is cut."""
        self.prepare: Callable[[RemoteTokens], Awaitable[ModelError | None]] | None = None
        """Called with a server that was down before it gets requests: what is missing there, such as adapters, is loaded."""
        self.visited: dict[str, set[int]] = {}
        """The servers that each rollout has been at, until it ends."""
        self._endpoints = endpoints
        self._sampling = sampling

    async def examine_all(self) -> list[str | None]:
        """Ask every server for its model; why one does not answer, else None. `ConfigError` if one cannot serve this model."""
        wrong: list[str | None] = []
        for number in range(len(self.configs)):
            try:
                self.tokens[number] = (await self._examine(number)).over(self._endpoints[number])
                wrong.append(None)
            except ModelError as error:
                wrong.append(str(error))
        found = [tokens for tokens in self.tokens if tokens is not None]
        self.context = found[0].context if found else 0
        if any(tokens.context != self.context for tokens in found):
            contexts = ", ".join(f"{tokens.name} has {tokens.context}" for tokens in found)
            raise ConfigError(f"the servers of a model must have the same context: {contexts}; start them with the same")
        return wrong

    async def check(self, number: int) -> str | None:
        """Ask a server that was down for its model; why it cannot serve, else None."""
        try:
            found = await self._examine(number)
        except (ModelError, ConfigError) as error:
            return str(error)
        if found.context != self.context:
            return f"{found.name}: its context is {found.context}, and that of the others {self.context}"
        missing = await self.prepare(found) if self.prepare is not None else None
        if missing is not None:
            return str(missing)
        self.tokens[number] = found.over(self._endpoints[number])
        return None

    async def _examine(self, number: int) -> RemoteTokens:
        found = await examine_server(self._endpoints[number].for_probes(), self.configs[number], self._sampling)
        if found.cache_tokens is not None:
            self.router.resize(number, found.cache_tokens)
        return found

    def __getitem__(self, number: int) -> RemoteTokens:
        found = self.tokens[number]
        assert found is not None, "a server gets requests only after it has answered"
        return found


class ReplicatedTokens:
    """`ports.TokenModel` over several servers. Open it with `open_replicated_tokens`."""

    def __init__(self, servers: _TokenServers, replicas: Replicas, adapter: str = "") -> None:
        self.name = _joined([config.public_name for config in servers.configs])
        self.context = servers.context
        self.router = replicas.router
        self._servers = servers
        self._replicas = replicas
        self._adapter = adapter

    def __repr__(self) -> str:
        return f"ReplicatedTokens({self.name!r})"

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids on one of the servers. Cancelling closes the connection."""

        async def attempt(number: int) -> Sampled | ModelError:
            if session:
                self._servers.visited.setdefault(session, set()).add(number)
            server = self._servers[number]
            server = server.with_adapter(self._adapter) if self._adapter else server
            request = server.request(ids, sampling, stop_ids, session)
            return await server.endpoint.post_once(request.path, request.body, request.read)

        if len(ids) >= self.context:
            raise ModelError(f"{self.name}: {len(ids)} tokens do not fit into a context of {self.context}", kind="context")
        routed = RoutedRequest(packed_ids(ids), session, self._adapter, sampling.max_tokens)
        sampled, replica = await self._replicas.call(routed, attempt, self._note)
        return msgspec.structs.replace(sampled, replica=replica)

    async def server_load(self) -> ServerLoad:
        """How busy the servers that are up are, together."""
        return add_loads([await self._servers[number].server_load() for number in self._numbers_up()])

    def with_adapter(self, name: str) -> "ReplicatedTokens":
        """The same model with an adapter that is loaded in its servers. What they cached for another one is not expected."""
        return ReplicatedTokens(self._servers, self._replicas, name)

    async def post_to_all(self, path: str, body: bytes) -> list[ModelError | None]:
        """POST to each server that is up; what failed, else None. One that is unavailable is down, unless all are."""
        errors: dict[int, ModelError | None] = {}
        while more := [number for number in self._numbers_up() if number not in errors]:  # one may come back meanwhile
            errors[more[0]] = await self._post(more[0], path, body)
        lost = [number for number, error in errors.items() if error is not None and is_unavailable(error)]
        if len(lost) < len(errors):
            for number in lost:
                self._replicas.remove(number, str(errors.pop(number)))
        return list(errors.values()) or [self._replicas.none_up()]

    async def list_models(self) -> list[InModel]:
        """The models and adapters of all servers that are up."""
        found: dict[int, list[InModel]] = {}
        for number in self._numbers_up():
            try:
                found[number] = await self._servers[number].list_models()
            except ModelError as error:
                self._replicas.remove(number, str(error))
        if not found:
            raise self._replicas.none_up()
        return [model for models in found.values() for model in models]

    def prepare_with(self, load: Callable[[RemoteTokens], Awaitable[ModelError | None]]) -> None:
        """Call `load` with a server that comes back; it gets requests only if that does not fail."""
        self._servers.prepare = load

    def _numbers_up(self) -> list[int]:
        return [number for number, replica in enumerate(self.router.replicas) if replica.is_up]

    async def _post(self, number: int, path: str, body: bytes) -> ModelError | None:
        return (await self._servers[number].post_to_all(path, body))[0]

    def _note(self, placed: PlacedRequest, sampled: Sampled) -> None:
        version = max(version for _, version in sampled.versions)
        self.router.finish(placed, sampled.ids, cached=sampled.cached, version=version)

    async def release(self, session: str) -> None:
        """Report the end of a rollout to every server that it was at."""
        self.router.release(session)
        for number in sorted(self._servers.visited.pop(session, ())):
            if self.router.replicas[number].is_up:
                await self._servers[number].release(session)


# -- chat --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_replicated_chat(
    configs: Sequence[OpenAIConfig],
    *,
    routing: RouterConfig | None = None,
    environ: Mapping[str, str] = os.environ,
    patience: Patience | None = None,
    probe_s: float = PROBE_S,
) -> AsyncGenerator["ReplicatedChat"]:
    """Open a chat model with several servers."""
    async with AsyncExitStack() as stack:
        chats = [await stack.enter_async_context(open_openai(each, environ=environ, patience=_ONCE)) for each in configs]
        probes = [OpenAIChat(chat.config, chat.endpoint.for_probes()) for chat in chats]
        wrong = [await _check_chat(probe) for probe in probes]
        _require_one(configs[0].name, wrong)
        router = Router([public_url(config.url) for config in configs], routing)
        opening = open_replicas(
            router,
            lambda number: _probe_chat(probes[number]),
            patience=patience or Patience(configs[0].patience_s),
            down=[number for number, why in enumerate(wrong) if why is not None],
            probe_s=probe_s,
        )
        yield ReplicatedChat(chats, await stack.enter_async_context(opening))


class ReplicatedChat:
    """`ports.ChatModel` over several servers. Open it with `open_replicated_chat`."""

    def __init__(self, chats: Sequence[OpenAIChat], replicas: Replicas) -> None:
        self.name = _joined([chat.name for chat in chats])
        self.router = replicas.router
        self._chats = chats
        self._replicas = replicas

    def __repr__(self) -> str:
        return f"ReplicatedChat({self.name!r})"

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply, of the server that the rollout is at or of another."""
        request = await self._chats[0].request(messages, tools, sampling)  # the same for all of them
        session = current_session()
        if session is not None:
            session.at_end(self, self.router.release)

        async def attempt(number: int) -> Reply | ModelError:
            return await self._chats[number].endpoint.post_once(request.path, request.body, request.read)

        prompt = request.body.partition(_AFTER_MESSAGES)[0]
        routed = RoutedRequest(prompt, session.name if session is not None else "", max_tokens=sampling.max_tokens)
        reply, replica = await self._replicas.call(routed, attempt, self._note)
        return msgspec.structs.replace(reply, replica=replica)

    def _note(self, placed: PlacedRequest, reply: Reply) -> None:
        self.router.finish(placed, num_sampled=reply.usage.completion_tokens)


async def _probe_chat(chat: OpenAIChat) -> str | None:
    """Why the server cannot serve now, else None."""
    try:
        return await _check_chat(chat)
    except ConfigError as error:
        return str(error)


async def _check_chat(chat: OpenAIChat) -> str | None:
    """Why the server does not answer, else None; `ConfigError` if it refuses the key, or lists other models.

    Some have no list of models: any other answer will do.
    """
    models = await chat.endpoint.get_once("/models", parse_models)
    if isinstance(models, ModelError):
        if models.kind == "auth":
            raise ConfigError(str(models))
        return str(models) if models.kind in {"connect", "server", "timeout"} else None
    names = [model.id for model in models]
    is_listed = any(chat.config.model in {name, name.partition(":")[0]} for name in names)  # NAME may stand for NAME:latest
    if names and not is_listed and chat.config.dialect == "openai":  # Anthropic lists a page, without the short names
        raise ConfigError(
            f"{chat.name}: the server has no model `{chat.config.model}`; it has: {short_line(', '.join(names[:20]))}. "
            "Write one of these names, or leave the server out"
        )
    return None


# -- both --------------------------------------------------------------------------------------------------------------


def _require_one(name: str, wrong: Sequence[str | None]) -> None:
    if None not in wrong:
        raise ConfigError(
            f"none of the servers of `{name}` answers; start one, or correct the addresses: {'; '.join(map(str, wrong))}"
        )


def _joined(names: Sequence[str]) -> str:
    """`SCHEME:NAME@URL` of each as `SCHEME:NAME@URL,URL,...`."""
    first, *others = names
    return ",".join([first, *("http" + name.partition("@http")[2] for name in others)])
