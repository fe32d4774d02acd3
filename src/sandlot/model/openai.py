"""A chat model behind any OpenAI-compatible endpoint.

One connection pool for each model, kept alive; a turn costs well under a millisecond of our CPU, so one process can hold
thousands of requests open. Waiting for a free slot and out a rate limit is excused from agent time. Every way an endpoint can
fail ends as a `ModelError` with a kind; no error, name or reply shows a key. Import this module only when a model is opened:
aiohttp is slow to import.
"""

import logging
import os
import resource
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Literal
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec

from sandlot.clock import excuse, excused
from sandlot.errors import ConfigError, ModelError, boundary
from sandlot.model.failure import failure_of, shown
from sandlot.model.retry import Patience, retry_after, retrying
from sandlot.model.secret import Secrets, basic_auth, called_url, key_from, secrets_of, shown_url
from sandlot.model.wire import reply_from, request_body
from sandlot.ports import Reply, Sampling, ToolSpec
from sandlot.trace import Message
from sandlot.types import Json

log = logging.getLogger(__name__)

LARGE_BODY_BYTES = 2**20
"""From here on the library wants a stream, and sends it in pieces."""
SPARE_FILES = 256
"""Open files left to everything else in the process."""
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
                f"model `{self.model}`: {shown_url(self.url)!r} is no http(s) base URL; write `openai:NAME@http://host:port/v1`"
            )
        for name in ("at_once", "request_s", "connect_s", "reply_bytes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"model `{self.model}`: `{name}` is {getattr(self, name)!r}; give a positive, finite number")

    def __repr__(self) -> str:
        return f"OpenAIConfig({self.name!r})"

    def public(self) -> "OpenAIConfig":
        """The config as it may be written down: its URL without user, password and query."""
        return msgspec.structs.replace(self, url=shown_url(self.url))

    @property
    def name(self) -> str:
        """`openai:NAME@URL` without anything secret."""
        return f"openai:{self.model}@{shown_url(self.url)}"


def openai_config(spec: str) -> OpenAIConfig:
    """From `NAME@URL` or `NAME` as the command line has it, with or without `openai:` before it."""
    spec = spec.removeprefix("openai:")
    model, mark, rest = spec.partition("@http")
    if mark or "://" not in spec:
        return OpenAIConfig(model=model, url="http" + rest) if mark else OpenAIConfig(model=spec)
    model, _, url = spec.rpartition("@")  # some other scheme: refused by name, not sent as a model's name to the default
    return OpenAIConfig(model=model, url=url)


def connections_allowed(at_once: int) -> int:
    """As many as asked for, if the system lets this process open that many files; the soft limit is raised where it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = at_once + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            allowed = max(1, soft - SPARE_FILES)
            log.warning("fewer connections than asked for: open files are limited", extra={"asked": at_once, "allowed": allowed})
            return allowed
    return at_once


@asynccontextmanager
async def open_openai(
    config: OpenAIConfig, *, environ: Mapping[str, str] = os.environ, patience: Patience | None = None
) -> AsyncGenerator["OpenAIChat"]:
    """The model for as long as the context lives; its connections are closed at the end."""
    key = key_from(environ, config.key_env)
    header = basic_auth(config.url) or (f"Bearer {key}" if key else None)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "sandlot",
    }
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30),  # our own slots do the limiting
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=config.connect_s),
        headers=headers | ({"Authorization": header} if header else {}),
        trust_env=False,  # neither proxies nor ~/.netrc passwords come in by themselves
    )
    try:
        yield OpenAIChat(config, session, secrets_of(config.url, key), patience or Patience(config.patience_s))
    finally:
        with anyio.move_on_after(10, shield=True):
            await session.close()


class OpenAIChat:
    """`ports.ChatModel` over HTTP. Open it with `open_openai`."""

    def __init__(self, config: OpenAIConfig, session: aiohttp.ClientSession, secrets: Secrets, patience: Patience) -> None:
        self.config = config
        self.name = secrets.hidden(config.name)
        self._session = session
        self._secrets = secrets
        self._patience = patience
        self._url = called_url(config.url, "/chat/completions")
        self._slots = anyio.Semaphore(connections_allowed(config.at_once), fast_acquire=True)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r})"

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply. Transient failures are tried again; each retry is told to `retries_told`."""
        config = self.config
        body = request_body(config.model, messages, tools, sampling, max_tokens_field=config.max_tokens_field, extra=config.extra)
        return await retrying(self._patience, lambda: self._attempt(body))

    async def _attempt(self, body: bytes) -> Reply | ModelError:
        """One request. Errors come back as values: a raised one would drag the library's own, with its headers, along."""
        await self._slot()
        begun = anyio.current_time()
        try:
            with anyio.move_on_after(self.config.request_s), boundary(ModelError, self.name):
                return await self._exchange(body)
            error = self._failed("timeout", f"no whole reply within {self.config.request_s:g} s")
        except ModelError as raised:
            error = self._clean(raised)
        finally:
            self._slots.release()
        excuse(anyio.current_time() - begun)  # only now is it known that this was not the agent's time
        return error

    async def _slot(self) -> None:
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            with excused():
                await self._slots.acquire()

    async def _exchange(self, body: bytes) -> Reply:
        try:
            data = body if len(body) < LARGE_BODY_BYTES else BytesIO(body)
            async with self._session.post(self._url, data=data, allow_redirects=False) as response:
                reply = await self._read(response)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            raise self._broken(error) from None
        if response.status != 200:
            wait_s = retry_after(response.headers, self._patience.clock.wall())
            raise failure_of(response.status, self._secrets.hidden_in_error(reply), self.name, retry_after_s=wait_s)
        return reply_from(self._secrets.hidden_in_reply(reply))

    def _broken(self, error: Exception) -> ModelError:
        """What went wrong below HTTP, as a kind."""
        match error:
            case aiohttp.ClientPayloadError():
                return self._failed("malformed", f"the reply broke off: {error}")
            case aiohttp.ServerTimeoutError():
                return self._failed("connect", f"no connection within {self.config.connect_s:g} s")
            case aiohttp.ClientConnectorDNSError(errno=socket.EAI_NONAME):
                return self._failed("connect", "there is no host of that name", retryable=False)
            case aiohttp.ClientConnectionError() | OSError():
                return self._failed("connect", f"{type(error).__name__}: {error}. Is the endpoint running at this address?")
            case aiohttp.ClientResponseError():
                return self._failed("malformed", f"the reply is not HTTP: {error.message}", retryable=False)
            case _:
                return self._failed("bad_request", f"{type(error).__name__}: {error}", retryable=False)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The whole body, unless it is over the cap."""
        pieces: list[bytes] = []
        size = 0
        while piece := await response.content.readany():
            size += len(piece)
            if size > self.config.reply_bytes:
                response.close()
                raise self._failed("malformed", f"the reply is over {self.config.reply_bytes} bytes", retryable=False)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _failed(self, kind: str, why: str, *, retryable: bool = True) -> ModelError:
        return ModelError(f"{self.name}: {shown(self._secrets.hidden(why))}", kind=kind, retryable=retryable)

    def _clean(self, error: ModelError) -> ModelError:
        """The error with every secret hidden, cut loose from whatever caused it."""
        text = self._secrets.hidden(str(error))
        return ModelError(text, kind=error.kind, retryable=error.retryable, retry_after_s=error.retry_after_s)
