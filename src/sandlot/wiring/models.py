"""From model specs to open policies and judges: `smollm2`, `openai:NAME@URL`, `scripted:NAME` and so on, or an installed scheme.

Each scheme has one opener below; an installed one (entry point group `sandlot.models`) has the same signature. Prompts for
token models (`smollm2`, `rookie`, `hf:`, `sandlot:`, `vllm:`, `sglang:`) are rendered in this process, so that traces hold exact
tokens.
"""

import functools
import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.grading import Judge
from sandlot.core.ports.model import ChatModel, Renderer, TokenModel
from sandlot.core.ports.session import Policies, Users
from sandlot.core.task import Task
from sandlot.core.trace import Usage
from sandlot.env.environment import Environment
from sandlot.env.grading import needs_sight
from sandlot.grade.cache import VerdictCache
from sandlot.grade.judge import ModelJudge
from sandlot.model.endpoint.child import AT_ONCE, open_engine, open_engine_tokens
from sandlot.model.endpoint.secret import public_url, split_replicas, split_urls
from sandlot.model.endpoint.spend import Prices, Spend, SpendCaps, capped_chat, capped_tokens
from sandlot.model.policy.chat import chat_policies
from sandlot.model.policy.faithful_user import FAITHFUL, FaithfulUsers
from sandlot.model.policy.replay import FindTrace, ReplayUsers, replay_policies
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.user import ModelUsers
from sandlot.model.routing.router import RouterConfig
from sandlot.store.reader import RunReader
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.plugins import find_opener

_REQUEST_S = 300.0
"""Maximum time of one request, from sending to the last byte."""

_LISTENER_S = 10.0
"""Maximum time for a model server to accept the first connection."""

Opener = Callable[[str, ModelConfig, AgentConfig, Environment, Spend], AbstractAsyncContextManager[Policies]]


@asynccontextmanager
async def open_policies(
    model: ModelConfig, agent: AgentConfig, env: Environment, spent: Usage | None = None
) -> AsyncGenerator[Policies]:
    """The policies of a model, open until the block ends; `spent` is the cost of earlier sittings of the run."""
    open_scheme, rest = find_opener("models", SCHEMES, model.spec)
    require_applicable(model)
    require_sight(model, env)
    async with open_scheme(rest, model, agent, env, Spend(_caps(model), spent)) as policies:
        yield policies


@asynccontextmanager
async def open_users(config: ModelConfig, env: Environment) -> AsyncGenerator[Users]:
    """Simulated users for the environment's persona: any model, a scripted one, or the users of a recorded run."""
    scheme, _, rest = config.spec.partition(":")
    if scheme == "replay":
        yield ReplayUsers(_traces_of(rest))
        return
    if config.spec == FAITHFUL:
        if env.marked.roles:
            raise ConfigError(
                f"user `{FAITHFUL}` follows a persona, and `{env.name}` has none: its program asks a model in the role "
                f"{', '.join(env.marked.roles)}; name a model, or `scripted:echo`, which repeats what it is told"
            )
        yield FaithfulUsers()
        return
    if scheme == "scripted" and rest.partition(":")[0] in {"golden", "mixed"}:
        raise ConfigError(f"user `{config.spec}`: the golden solution plays the agent, not the user; leave out `--user`")
    async with open_policies(config, AgentConfig(), env) as policies:
        yield ModelUsers(policies)


@asynccontextmanager
async def open_judge(config: ModelConfig, cache: Path | None = None) -> AsyncGenerator[Judge]:
    """A judge: any chat endpoint, a model of the built-in engine, or an installed one (entry point group `sandlot.judges`).

    Verdicts of models are stored in the folder `cache`, if given; an installed judge stores its own.
    """
    ready: dict[str, Callable[..., Any]] = dict.fromkeys((*_CHATS, *_ENGINES), functools.partial(_open_model_judge, cache=cache))
    open_scheme, rest = find_opener("judges", ready, config.spec)
    async with open_scheme(rest, config) as judge:
        yield judge


@asynccontextmanager
async def _open_model_judge(_rest: str, config: ModelConfig, cache: Path | None) -> AsyncGenerator[Judge]:
    async with open_chat(config, "judge") as chat:
        yield ModelJudge(chat, VerdictCache(cache) if cache else None, config.sampling)


@asynccontextmanager
async def open_panel(config: ModelConfig, size: int) -> AsyncGenerator[list[ModelJudge]]:
    """The same judge several times with different sampling seeds, without cache or canaries, to measure it."""
    async with open_chat(config, "judge") as chat:
        seeded = [msgspec.structs.replace(config.sampling, seed=(config.sampling.seed or 0) + number) for number in range(size)]
        yield [ModelJudge(chat, None, sampling, canary_every=None) for sampling in seeded]


def open_chat(config: ModelConfig, role: str) -> AbstractAsyncContextManager[ChatModel]:
    """A chat model in a role that takes no turns, such as `judge`: any chat endpoint, or a model of the built-in engine."""
    scheme, _, rest = config.spec.partition(":")
    if scheme not in {*_CHATS, *_ENGINES}:
        kind = f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
        raise ConfigError(f"{role} `{config.shown}`: {kind} is a chat model, `openai:NAME@URL`, or one of {', '.join(_ENGINES)}")
    spend = Spend(_caps(config))
    return _open_chat(rest, config, spend) if scheme in _CHATS else _open_engine_chat(config, spend)


@asynccontextmanager
async def _open_chat(rest: str, config: ModelConfig, spend: Spend, time_s: float = math.inf) -> AsyncGenerator[ChatModel]:
    """A chat endpoint whose costs go to `spend`. Requests time out before `time_s`: a hang is not a slow agent."""
    from sandlot.model.endpoint.chat import chat_config, has_key, open_openai  # noqa: PLC0415 - only where needed

    scheme = config.spec.partition(":")[0]
    each = [
        msgspec.structs.replace(
            chat_config(scheme.removesuffix(_IMAGES), spec),
            at_once=config.connections,
            patience_s=config.patience_s,
            request_s=min(_REQUEST_S, 0.9 * time_s),
            images=sees_images(config),
        )
        for spec in split_replicas(rest)
    ]
    settings = each[0]
    prices = Prices(prompt=config.usd_per_million_prompt, completion=config.usd_per_million_completion)
    if settings.is_default and not has_key(settings, os.environ):
        raise ConfigError(
            f"`{scheme}:{settings.model}` without a URL is {settings.url}, which needs a key: "
            f"`export {settings.dialect.upper()}_API_KEY=...`, or name another server, "
            f"`{scheme}:{settings.model}@http://127.0.0.1:8000/v1`"
        )
    if len(each) > 1:
        from sandlot.model.endpoint.replicated import open_replicated_chat  # noqa: PLC0415 - as above

        async with open_replicated_chat(each, routing=RouterConfig(routing=config.routing)) as chat:
            yield capped_chat(chat, spend, prices)
        return
    await require_listener(settings.url)
    async with open_openai(settings) as chat:
        yield capped_chat(chat, spend, prices)


@asynccontextmanager
async def _open_engine_chat(config: ModelConfig, spend: Spend) -> AsyncGenerator[ChatModel]:
    """A model of the built-in engine as a chat model: the engine renders the messages."""
    from sandlot.model.endpoint.chat import OpenAIChat, OpenAIConfig  # noqa: PLC0415 - only where needed
    from sandlot.model.endpoint.endpoint import EndpointConfig, open_endpoint  # noqa: PLC0415 - as above

    async with open_engine(config.spec, _options(config)) as engine:
        named = OpenAIConfig(model=config.spec, url="http://sandlot/v1")
        settings = EndpointConfig(name=config.spec, url=named.url, unix=engine.socket, at_once=min(config.connections, AT_ONCE))
        async with open_endpoint(settings, environ={}) as endpoint:
            yield capped_chat(OpenAIChat(named, endpoint), spend)


def _options(config: ModelConfig) -> list[str]:
    """Options of the engine's command line."""
    kv_gib = [] if config.kv_gib is None else ["--kv-gib", f"{config.kv_gib:g}"]
    kv_dtype = [] if config.kv_dtype is None else ["--kv-dtype", config.kv_dtype]
    evict = [] if config.eviction is None else ["--evict", config.eviction]
    speculate = [] if config.speculate is None else ["--speculate", config.speculate]
    return [*kv_gib, *kv_dtype, *evict, *speculate, *([] if config.dtype is None else ["--dtype", config.dtype.value])]


def _caps(config: ModelConfig) -> SpendCaps:
    return SpendCaps(tokens=config.max_total_tokens, usd=config.max_usd)


async def require_listener(url: str) -> None:
    """Refuse an address without a server now; every rollout would retry it for minutes. Of several, one must answer later."""
    if len(split_urls(url)) > 1:
        return
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with anyio.fail_after(_LISTENER_S):
            stream = await anyio.connect_tcp(parts.hostname or "", port)
            await stream.aclose()
    except (OSError, TimeoutError) as error:
        raise ConfigError(
            f"no model server answers at {public_url(url)}: {error or 'time-out'}; start it, or correct the address in "
            "`openai:NAME@URL`"
        ) from error


@asynccontextmanager
async def _open_openai(
    rest: str, model: ModelConfig, agent: AgentConfig, env: Environment, spend: Spend
) -> AsyncGenerator[Policies]:
    async with _open_chat(rest, model, spend, env.limits.time_s) as chat:
        images = "send" if sees_images(model) else _text_for_images(env)
        yield chat_policies(chat, model.sampling, calls=agent.calls, reasoning=agent.reasoning, images=images)


@asynccontextmanager
async def _open_scripted(
    rest: str, _model: ModelConfig, _agent: AgentConfig, env: Environment, _spend: Spend
) -> AsyncGenerator[Policies]:
    yield scripted_policies(rest, env.marked.solution)


@asynccontextmanager
async def _open_replay(
    rest: str, _model: ModelConfig, _agent: AgentConfig, _env: Environment, _spend: Spend
) -> AsyncGenerator[Policies]:
    yield replay_policies(_traces_of(rest))


def _traces_of(run: str) -> FindTrace:
    """The traces of a run directory."""
    reader = RunReader(Path(run))
    recorded = reader.done_keys()
    return lambda task, rollout: reader.trace(task, rollout) if (task, rollout) in recorded else None


@asynccontextmanager
async def _open_engine_policies(
    _rest: str, model: ModelConfig, agent: AgentConfig, env: Environment, spend: Spend
) -> AsyncGenerator[Policies]:
    renderer = await anyio.to_thread.run_sync(renderer_of, model)
    request_s = 0.9 * env.limits.time_s  # a hang must not count as a slow agent
    async with open_engine_tokens(model.spec, _options(model), at_once=model.connections, request_s=request_s) as tokens:
        yield _render_policies(tokens, renderer, model, agent, env, spend)


def _remote_opener(dialect: Literal["sandlot", "vllm", "sglang"]) -> Opener:
    """The opener for servers of a token model: our own, vLLM or SGLang."""

    @asynccontextmanager
    async def opened(
        rest: str, model: ModelConfig, agent: AgentConfig, env: Environment, spend: Spend
    ) -> AsyncGenerator[Policies]:
        from sandlot.model.endpoint.replicated import open_tokens  # noqa: PLC0415 - only where needed
        from sandlot.model.endpoint.tokens import remote_config  # noqa: PLC0415 - as above

        named = remote_config(dialect, rest)
        renderer = await anyio.to_thread.run_sync(renderer_of, model)
        config = msgspec.structs.replace(
            named, at_once=model.connections, patience_s=model.patience_s, request_s=min(_REQUEST_S, 0.9 * env.limits.time_s)
        )
        await require_listener(named.url)
        async with open_tokens(config, model.sampling, routing=RouterConfig(routing=model.routing)) as tokens:
            yield _render_policies(tokens, renderer, model, agent, env, spend)

    return opened


def _render_policies(
    tokens: TokenModel,
    renderer: Renderer | None,
    model: ModelConfig,
    agent: AgentConfig,
    env: Environment,
    spend: Spend,
) -> Policies:
    from sandlot.model.policy.tokens import token_policies  # noqa: PLC0415 - only token models need it

    if agent.calls == "text":
        raise ConfigError(f"model `{model.shown}` writes tool calls in its own format; leave `--calls text` out")
    assert renderer is not None
    return token_policies(capped_tokens(tokens, spend), renderer, model.sampling, images=_text_for_images(env))


def _text_for_images(env: Environment) -> Literal["describe", "drop", "refuse"]:
    """What a model that takes text only gets for an image."""
    return "refuse" if env.images is None or env.images == "require" else env.images


def sees_images(model: ModelConfig) -> bool:
    """True if the spec says that the model sees images: `openai+images:NAME@URL`."""
    return model.spec.partition(":")[0].endswith(_IMAGES)


def require_seeing_judge(judge: ModelConfig | None, env: Environment, tasks: list[Task], rubric: str | None = None) -> None:
    """Refuse a judge that takes text only, before the first rollout, if a check shows it images."""
    if judge is not None and not sees_images(judge) and needs_sight(env, tasks, rubric):
        raise ConfigError(
            f"the rubric of `{env.name}` shows the judge images, and judge `{judge.shown}` takes text only; name one that sees "
            f"them: `--judge openai{_IMAGES}:NAME@URL`"
        )


def require_sight(model: ModelConfig, env: Environment) -> None:
    """Refuse a model that takes text only, before the first rollout, if the environment needs one that sees."""
    scheme = model.spec.partition(":")[0]
    if env.images != "require" or sees_images(model) or scheme not in {*_CHATS, *_ENGINES, *_REMOTE}:
        return  # scripted and replayed agents look at nothing; an installed scheme checks for itself
    seeing = f"; if it sees images, write `{scheme}{_IMAGES}:...`" if scheme in _CHATS else ""
    raise ConfigError(f"environment `{env.name}` shows images, and model `{model.shown}` takes text only{seeing}")


def folder_of_model(model: ModelConfig) -> Path | None:
    """The local folder of a model's files, or of the tokenizer of a remote model; None if there is none."""
    scheme = model.spec.partition(":")[0]
    if scheme in _ENGINES:
        from sandlot.model.engine.weights import model_folder  # noqa: PLC0415 - as below

        return model_folder(model.spec)
    if scheme in _REMOTE and model.tokenizer is not None:
        return Path(model.tokenizer).expanduser()
    served = model.spec.removeprefix("sandlot:").partition("@http")[0]
    if scheme == "sandlot" and served.partition(":")[0] in _ENGINES:  # our own server names its model as it was given
        from sandlot.model.engine.weights import model_folder  # noqa: PLC0415 - as above

        return model_folder(served)
    return None


def renderer_of(model: ModelConfig) -> Renderer | None:
    """The renderer of a token model; None for chat models. Its name is part of the setting."""
    folder = folder_of_model(model)
    if folder is None and model.spec.partition(":")[0] in _REMOTE:
        raise ConfigError(f"model `{model.shown}`: name the folder of its tokenizer.json and chat template: `--tokenizer FOLDER`")
    return _renderer_at(folder) if folder is not None else None


@functools.cache
def _renderer_at(folder: Path) -> Renderer:
    """Cached: opening a renderer runs its self-test."""
    try:
        from sandlot.model.render.open import open_renderer  # noqa: PLC0415 - only token models need it
    except ImportError as error:
        raise ConfigError(f"token models need the torch extra ({error}); install it: pip install 'sandlot[torch]'") from error
    return open_renderer(folder)


_IMAGES = "+images"
"""The end of a scheme whose model sees images."""
_CHATS = ("openai", f"openai{_IMAGES}", "anthropic", f"anthropic{_IMAGES}")
"""Schemes of chat endpoints."""
_ENGINES = ("smollm2", "rookie", "hf")
"""Schemes of the built-in engine."""
_REMOTE = ("sandlot", "vllm", "sglang")
"""Schemes of servers."""
SCHEMES: dict[str, Opener] = {
    **dict.fromkeys(_ENGINES, _open_engine_policies),
    "sandlot": _remote_opener("sandlot"),
    "vllm": _remote_opener("vllm"),
    "sglang": _remote_opener("sglang"),
    **dict.fromkeys(_CHATS, _open_openai),
    "scripted": _open_scripted,
    "replay": _open_replay,
}


def require_applicable(model: ModelConfig) -> None:
    """Refuse settings that have no effect on the model they are given with."""
    scheme = model.spec.partition(":")[0]
    if scheme not in SCHEMES:
        return  # an installed scheme checks its own settings
    if model.tokenizer is not None and scheme not in _REMOTE:
        own = "has its tokenizer in its folder" if scheme in _ENGINES else "is a chat model"
        raise ConfigError(f"--tokenizer is for `sandlot:`, `vllm:` and `sglang:`; model `{model.shown}` {own}: leave it out")
    if model.routing != "prefix" and len(split_replicas(model.spec)) == 1:
        raise ConfigError(f"`routing` is for models with several servers; model `{model.shown}` has one: leave it out")
    if model.routing == "reported" and scheme != "sandlot":
        raise ConfigError(f"`routing`: only `sandlot:` servers report; model `{model.shown}` has others: use `prefix`")
    of_engine = {"--kv-gib": model.kv_gib, "`kv_dtype`": model.kv_dtype, "`eviction`": model.eviction}
    of_engine |= {"`speculate`": model.speculate, "--dtype": model.dtype}
    for option, value in of_engine.items():
        if value is not None and scheme not in _ENGINES:
            raise ConfigError(f"{option} is for {', '.join(_ENGINES)}; model `{model.shown}` runs elsewhere: leave it out")


def parse_prices(text: str | None) -> tuple[float, float]:
    """USD per million prompt and completion tokens from `IN/OUT`."""
    if text is None:
        return 0.0, 0.0
    try:
        prompt, completion = (float(piece) for piece in text.split("/"))
    except ValueError as error:
        raise ConfigError(f"price `{text}`: write USD per million prompt and completion tokens as `0.5/1.5`") from error
    checked = Prices(prompt=prompt, completion=completion)
    return checked.prompt, checked.completion
