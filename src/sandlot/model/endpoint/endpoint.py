"""HTTP requests to a model endpoint, with retries; every failure is a `ModelError` with a kind.

`connections.py` sends them. Waiting for a free slot or for a rate limit does not count as agent time. No error, name or reply
shows a key.
"""

import logging
import os
import resource
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, delay_limits, extend_limits, pause_limits
from sandlot.core.errors import ModelError, boundary
from sandlot.core.redaction import Secrets
from sandlot.model.endpoint.connections import Connections, ReplyTimeoutError, open_connections
from sandlot.model.endpoint.retry import Patience, call_with_retries, retry_after
from sandlot.model.endpoint.secret import KEY_VARIABLES, basic_auth, key_from, secrets_of
from sandlot.model.wire.failure import failure_of, short_line
from sandlot.model.wire.http_reply import HttpReplyError

_log = logging.getLogger(__name__)

_LATE_S = 30.0
"""How late a busy loop may end a request that is out of time."""
_SPARE_FILES = 256
"""Open files reserved for the rest of the process."""

Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class PostRequest(Generic[Got]):
    """A POST that is ready to be sent, to any server of the same model."""

    path: str
    body: bytes
    read: Callable[[bytes], Got]


class EndpointConfig(msgspec.Struct, frozen=True, kw_only=True):
    """URL, timeouts and limits. `name` appears in errors, so it holds no secrets; `unix` is a socket to connect to instead."""

    name: str
    url: str
    key_env: str | None = None
    at_once: int = 1024
    request_s: float = 300.0
    connect_s: float = 30.0
    patience_s: float = 300.0
    reply_bytes: int = 64 * 2**20
    unix: Path | None = None
    key_names: tuple[str, ...] = KEY_VARIABLES
    """Environment variables searched for a key, unless `key_env` names one."""
    key_header: str = "Authorization"
    """The header of the key; `Authorization` has it after `Bearer`."""
    headers: dict[str, str] = {}
    """Further headers of every request."""


def _connections_allowed(at_once: int) -> int:
    """Connections that the limit of open files allows, at most `at_once`; raises the soft limit if it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = at_once + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            allowed = max(1, soft - _SPARE_FILES)
            _log.warning("fewer connections than requested: open files are limited", extra={"asked": at_once, "allowed": allowed})
            return allowed
    return at_once


@asynccontextmanager
async def open_endpoint(
    config: EndpointConfig, *, environ: Mapping[str, str] = os.environ, patience: Patience | None = None
) -> AsyncGenerator["Endpoint"]:
    """Open the endpoint; its connections are closed when the context ends."""
    key = key_from(environ, config.key_env, config.key_names)
    bearer = config.key_header == "Authorization"
    header = basic_auth(config.url) or (f"Bearer {key}" if key and bearer else None)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "sandlot",
    }
    headers |= config.headers
    if header:
        headers["Authorization"] = header
    if key and not bearer:
        headers[config.key_header] = key
    async with open_connections(
        config.url,
        headers,
        unix=config.unix,
        connect_s=config.connect_s,
        reply_s=config.request_s,
        reply_bytes=config.reply_bytes,
    ) as connections:
        yield Endpoint(config, connections, secrets_of(config.url, key), patience or Patience(config.patience_s))


class Endpoint:
    """Requests to one base URL. Open it with `open_endpoint`."""

    def __init__(self, config: EndpointConfig, connections: Connections, secrets: Secrets, patience: Patience) -> None:
        self.config = config
        self.name = secrets.redact(config.name)
        self._connections = connections
        self._secrets = secrets
        self._patience = patience
        self._slots = anyio.Semaphore(_connections_allowed(config.at_once), fast_acquire=True)

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def for_probes(self) -> "Endpoint":
        """The same server with a slot of its own: what is asked there does not wait for the requests under way."""
        return Endpoint(msgspec.structs.replace(self.config, at_once=1), self._connections, self._secrets, self._patience)

    async def post(self, path: str, body: bytes, read: Callable[[bytes], Got]) -> Got:
        """POST, and parse the reply with `read`. Transient failures are retried; `listen_for_retries` reports each retry."""
        return await self._request("POST", path, body, read)

    async def get(self, path: str, read: Callable[[bytes], Got]) -> Got:
        """GET, otherwise as `post`."""
        return await self._request("GET", path, None, read)

    async def post_once(self, path: str, body: bytes, read: Callable[[bytes], Got]) -> Got | ModelError:
        """POST without retries; an error is returned instead of raised."""
        return await self._attempt("POST", path, body, read)

    async def get_once(self, path: str, read: Callable[[bytes], Got]) -> Got | ModelError:
        """GET without retries; an error is returned instead of raised."""
        return await self._attempt("GET", path, None, read)

    async def delete(self, path: str) -> None:
        """DELETE without retries; a failure is only logged."""
        error = await self._attempt("DELETE", path, None, lambda _reply: None)
        if error is not None:
            _log.debug("delete failed", extra={"error": str(error)})

    async def _request(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got:
        return await call_with_retries(self._patience, lambda: self._attempt(method, path, body, read))

    async def _attempt(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got | ModelError:
        """One request. Errors are returned: a raised one would carry frames that hold the request's headers.

        The agent's time limit does not interrupt a request. A late reply ends the agent's time when it arrives; no reply within
        `request_s` is the model's failure.
        """
        await self._acquire_slot()
        begun = SYSTEM_CLOCK.monotonic()
        with delay_limits(self.config.connect_s + self.config.request_s + _LATE_S):
            try:
                with boundary(ModelError, self.name):
                    return await self._exchange(method, path, body, read)
            except ModelError as raised:
                error = raised.with_message(self._secrets.redact(str(raised)))
            finally:
                self._slots.release()
            extend_limits(SYSTEM_CLOCK.monotonic() - begun)  # a failed request does not count as agent time
        return error

    async def _acquire_slot(self) -> None:
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            with pause_limits():
                await self._slots.acquire()

    async def _exchange(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got:
        try:
            reply = await self._connections.request(method, path, body)
        except (HttpReplyError, ReplyTimeoutError, OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            raise self._connection_error(error) from None
        if not 200 <= reply.status < 300:
            wait_s = retry_after(reply.headers, self._patience.clock.wall())
            raise failure_of(reply.status, self._secrets.redact_error(reply.body), self.name, retry_after_s=wait_s)
        return read(self._secrets.redact_reply(reply.body))

    def _connection_error(self, error: Exception) -> ModelError:
        """A failure below HTTP as a `ModelError`."""
        match error:
            case HttpReplyError():
                return self._error("malformed", str(error), retryable=error.retryable)
            case ReplyTimeoutError():
                return self._error("timeout", f"no complete reply within {self.config.request_s:g} s")
            case TimeoutError():
                return self._error("connect", f"no connection within {min(self.config.connect_s, self.config.request_s):g} s")
            case socket.gaierror(errno=socket.EAI_NONAME) | ssl.SSLCertVerificationError():
                certificate = isinstance(error, ssl.SSLCertVerificationError)
                why = f"the server's certificate is not accepted: {error}" if certificate else "unknown host"
                return self._error("connect", why, retryable=False)
            case OSError():
                return self._error("connect", f"{type(error).__name__}: {error}. Is the endpoint running at this address?")
            case _:
                return self._error("bad_request", f"{type(error).__name__}: {error}", retryable=False)

    def _error(self, kind: str, why: str, *, retryable: bool = True) -> ModelError:
        return ModelError(f"{self.name}: {short_line(self._secrets.redact(why))}", kind=kind, retryable=retryable)
