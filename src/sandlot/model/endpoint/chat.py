"""A chat model behind any OpenAI-compatible endpoint.

What a request goes through is `endpoint.py`: slots, retries, every failure a `ModelError` with a kind. Import this module only
when a model is opened: aiohttp is slow to import.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message
from sandlot.core.types import Json
from sandlot.model.endpoint.endpoint import Endpoint, EndpointConfig, open_endpoint
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.secret import public_url
from sandlot.model.wire.openai_client import parse_reply, request_body

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, where, and how patiently. `key_env` names the variable that holds the key."""

    model: str
    url: str = DEFAULT_URL
    """The base, up to and with `/v1`. May hold user, password and query: write down `public()` only."""
    key_env: str | None = None
    """None: `SANDLOT_API_KEY`, else `OPENAI_API_KEY`, else no key."""
    at_once: int = 1024
    """Requests open at the same time; further ones wait, excused."""
    request_s: float = 300.0
    """One attempt, from sending to the last byte. Keep it below the agent's time limit: a hang is not a slow agent."""
    connect_s: float = 30.0
    patience_s: float = 300.0
    """How long failures are tried again."""
    reply_bytes: int = 64 * 2**20
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI's own newer models want the second."""
    extra: Json = {}
    """Further fields of the request body as the endpoint names them (`top_k`); null takes one out that it refuses (`seed`)."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("the model has no name; write `openai:NAME@URL`")
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(
                f"model `{self.model}`: {public_url(self.url)!r} is no http(s) base URL; write `openai:NAME@http://host:port/v1`"
            )
        for name in ("at_once", "request_s", "connect_s", "reply_bytes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"model `{self.model}`: `{name}` is {getattr(self, name)!r}; give a positive, finite number")

    def __repr__(self) -> str:
        return f"OpenAIConfig({self.name!r})"

    def public(self) -> "OpenAIConfig":
        """The config as it may be written down: its URL without user, password and query."""
        return msgspec.structs.replace(self, url=public_url(self.url))

    @property
    def name(self) -> str:
        """`openai:NAME@URL` without anything secret."""
        return f"openai:{self.model}@{public_url(self.url)}"


def openai_config(spec: str) -> OpenAIConfig:
    """From `NAME@URL` or `NAME` as the command line has it, with or without `openai:` before it."""
    spec = spec.removeprefix("openai:")
    model, mark, rest = spec.partition("@http")
    if not mark and "://" not in spec and spec.rfind("@") > 0:
        host = spec.rpartition("@")[2]  # `m@localhost:8000` is no model's name to ask the default for, with its key
        raise ConfigError(f"`{host}` is no URL; write `openai:NAME@http://{host}` or `openai:NAME@https://{host}`")
    if mark or "://" not in spec:
        return OpenAIConfig(model=model, url="http" + rest) if mark else OpenAIConfig(model=spec)
    model, _, url = spec.rpartition("@")  # some other scheme: refused by name, not sent as a model's name to the default
    return OpenAIConfig(model=model, url=url)


@asynccontextmanager
async def open_openai(
    config: OpenAIConfig, *, environ: Mapping[str, str] = os.environ, patience: Patience | None = None
) -> AsyncGenerator["OpenAIChat"]:
    """The model for as long as the context lives; its connections are closed at the end."""
    shared = ("name", "url", "key_env", "at_once", "request_s", "connect_s", "patience_s", "reply_bytes")
    settings = EndpointConfig(**{name: getattr(config, name) for name in shared})
    async with open_endpoint(settings, environ=environ, patience=patience) as endpoint:
        yield OpenAIChat(config, endpoint)


class OpenAIChat:
    """`ports.ChatModel` over HTTP. Open it with `open_openai`."""

    def __init__(self, config: OpenAIConfig, endpoint: Endpoint) -> None:
        self.config = config
        self.name = endpoint.name
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r})"

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply. Transient failures are tried again; each retry is told to `retries_told`."""
        config = self.config
        body = request_body(config.model, messages, tools, sampling, max_tokens_field=config.max_tokens_field, extra=config.extra)
        return await self._endpoint.post("/chat/completions", body, parse_reply)
