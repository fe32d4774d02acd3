"""A chat model behind any OpenAI-compatible endpoint, or one of Anthropic's API.

`endpoint.py` sends the requests: concurrency limit, retries, every failure a `ModelError` with a kind.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.images import load_images
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message
from sandlot.core.types import Json
from sandlot.model.endpoint.endpoint import Endpoint, EndpointConfig, PostRequest, open_endpoint
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.secret import KEY_VARIABLES, is_base_url, key_from, public_url
from sandlot.model.wire.anthropic_client import messages_request, parse_messages_reply
from sandlot.model.wire.openai_client import parse_reply, request_body

DEFAULT_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
_ANTHROPIC_KEYS = ("SANDLOT_API_KEY", "ANTHROPIC_API_KEY")
_ANTHROPIC_VERSION = "2023-06-01"
"""The version of the API whose shapes are sent and read here."""


class OpenAIConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chat model: name, URL, key, timeouts and limits."""

    model: str
    url: str = DEFAULT_URL
    """The base URL, including `/v1`. It may hold a user, password and query, so store and print only `public()`."""
    key_env: str | None = None
    """The environment variable with the key. None: `SANDLOT_API_KEY`, else `OPENAI_API_KEY`, else no key."""
    at_once: int = 1024
    """Maximum concurrent requests. The wait of further ones does not count as agent time."""
    request_s: float = 300.0
    """Timeout of one attempt, from sending to the last byte. Keep it below the agent's time limit."""
    connect_s: float = 30.0
    patience_s: float = 300.0
    """How long failures are retried."""
    reply_bytes: int = 64 * 2**20
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI's newer models need the second."""
    images: bool = False
    """True if the model sees images."""
    dialect: Literal["openai", "anthropic"] = "openai"
    """The API: chat completions, or Anthropic's messages."""
    extra: Json = {}
    """Further fields of the request body, such as `top_k`. Null removes a field that the endpoint refuses, such as `seed`."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("the model has no name; write `openai:NAME@URL`")
        if not is_base_url(self.url):
            raise ConfigError(
                f"model `{self.model}`: {public_url(self.url)!r} is not an http(s) base URL; write `openai:NAME@http://host:port/v1`"
            )
        for name in ("at_once", "request_s", "connect_s", "reply_bytes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"model `{self.model}`: `{name}` is {getattr(self, name)!r}; give a positive, finite number")

    def __repr__(self) -> str:
        return f"OpenAIConfig({self.name!r})"

    def public(self) -> "OpenAIConfig":
        """The config without secrets: its URL has no user, password and query."""
        return msgspec.structs.replace(self, url=public_url(self.url))

    @property
    def is_default(self) -> bool:
        """True if the URL is the vendor's own."""
        return self.url == (ANTHROPIC_URL if self.dialect == "anthropic" else DEFAULT_URL)

    @property
    def name(self) -> str:
        """`openai:NAME@URL` without secrets."""
        return f"{self.dialect}{'+images' if self.images else ''}:{self.model}@{public_url(self.url)}"


def openai_config(spec: str) -> OpenAIConfig:
    """Parse `NAME@URL` or `NAME` from the command line, with or without the prefix `openai:`."""
    spec = spec.removeprefix("openai:")
    model, mark, rest = spec.partition("@http")
    if not mark and "://" not in spec and spec.rfind("@") > 0:
        host = spec.rpartition("@")[2]  # else the key would go to the default URL with a wrong name
        raise ConfigError(f"`{host}` is not a URL; write `openai:NAME@http://{host}` or `openai:NAME@https://{host}`")
    if mark or "://" not in spec:
        return OpenAIConfig(model=model, url="http" + rest) if mark else OpenAIConfig(model=spec)
    model, _, url = spec.rpartition("@")  # another scheme: refused by OpenAIConfig
    return OpenAIConfig(model=model, url=url)


def chat_config(dialect: str, spec: str) -> OpenAIConfig:
    """Parse `NAME@URL` or `NAME` for one of the two APIs."""
    named = openai_config(spec)
    if dialect != "anthropic":
        return named
    return msgspec.structs.replace(named, dialect="anthropic", url=ANTHROPIC_URL if named.url == DEFAULT_URL else named.url)


def has_key(config: OpenAIConfig, environ: Mapping[str, str]) -> bool:
    """True if the environment holds a key for the endpoint."""
    names = _ANTHROPIC_KEYS if config.dialect == "anthropic" else KEY_VARIABLES
    return key_from(environ, config.key_env, names) is not None


@asynccontextmanager
async def open_openai(
    config: OpenAIConfig, *, environ: Mapping[str, str] = os.environ, patience: Patience | None = None
) -> AsyncGenerator["OpenAIChat"]:
    """Open the model; its connections are closed when the context ends."""
    shared = ("name", "url", "key_env", "at_once", "request_s", "connect_s", "patience_s", "reply_bytes")
    settings = EndpointConfig(**{name: getattr(config, name) for name in shared})
    if config.dialect == "anthropic":
        headers = {"anthropic-version": _ANTHROPIC_VERSION}
        settings = msgspec.structs.replace(settings, key_names=_ANTHROPIC_KEYS, key_header="x-api-key", headers=headers)
    async with open_endpoint(settings, environ=environ, patience=patience) as endpoint:
        yield OpenAIChat(config, endpoint)


class OpenAIChat:
    """`ports.ChatModel` over HTTP. Open it with `open_openai`."""

    def __init__(self, config: OpenAIConfig, endpoint: Endpoint) -> None:
        self.config = config
        self.name = endpoint.name
        self.endpoint = endpoint

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r})"

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply. Transient failures are retried; `listen_for_retries` reports each retry."""
        request = await self.request(messages, tools, sampling)
        return await self.endpoint.post(request.path, request.body, request.read)

    async def request(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> PostRequest[Reply]:
        """The request of `chat`."""
        config = self.config
        if config.dialect == "anthropic":
            images = await load_images(messages) if config.images else None
            body = messages_request(config.model, messages, tools, sampling, images)
            return PostRequest("/messages", body, parse_messages_reply)
        body = request_body(
            config.model,
            messages,
            tools,
            sampling,
            max_tokens_field=config.max_tokens_field,
            extra=config.extra,
            images=await load_images(messages) if config.images else None,
        )
        return PostRequest("/chat/completions", body, parse_reply)
