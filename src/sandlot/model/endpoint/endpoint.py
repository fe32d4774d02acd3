"""An HTTP endpoint of a model: one request, tried again, every failure a `ModelError` with a kind.

One connection pool for each endpoint, kept alive; a request costs well under a millisecond of our CPU, so one process can hold
thousands open. Waiting for a free slot and out a rate limit is excused from agent time. No error, name or reply shows a key.
Import this module only when a model is opened: aiohttp is slow to import.
"""

import logging
import os
import resource
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import aiohttp
import anyio
import msgspec

from sandlot.core.concurrency.clock import delay_limits, extend_limits, pause_limits
from sandlot.core.errors import ModelError, boundary
from sandlot.core.redaction import Secrets
from sandlot.model.endpoint.retry import Patience, retry_after, retrying
from sandlot.model.endpoint.secret import basic_auth, called_url, key_from, secrets_of
from sandlot.model.wire.failure import failure_of, shown

_log = logging.getLogger(__name__)

_LARGE_BODY_BYTES = 2**20
"""From here on the library wants a stream, and sends it in pieces."""
_SPARE_FILES = 256
"""Open files left to everything else in the process."""

Got = TypeVar("Got")


class EndpointConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where, and how patiently. `name` is shown, so it has no secrets; `unix` is a socket the URL's host is reached by."""

    name: str
    url: str
    key_env: str | None = None
    at_once: int = 1024
    request_s: float = 300.0
    connect_s: float = 30.0
    patience_s: float = 300.0
    reply_bytes: int = 64 * 2**20
    unix: Path | None = None


def _connections_allowed(at_once: int) -> int:
    """As many as asked for, if the system lets this process open that many files; the soft limit is raised where it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = at_once + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            allowed = max(1, soft - _SPARE_FILES)
            _log.warning("fewer connections than asked for: open files are limited", extra={"asked": at_once, "allowed": allowed})
            return allowed
    return at_once


@asynccontextmanager
async def open_endpoint(
    config: EndpointConfig, *, environ: Mapping[str, str] = os.environ, patience: Patience | None = None
) -> AsyncGenerator["Endpoint"]:
    """The endpoint for as long as the context lives; its connections are closed at the end."""
    key = key_from(environ, config.key_env)
    header = basic_auth(config.url) or (f"Bearer {key}" if key else None)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "sandlot",
    }
    if config.unix is not None:
        connector = aiohttp.UnixConnector(str(config.unix), limit=0, keepalive_timeout=30)
    else:
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30)  # our own slots do the limiting
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=config.connect_s),
        headers=headers | ({"Authorization": header} if header else {}),
        trust_env=False,  # neither proxies nor ~/.netrc passwords come in by themselves
    )
    try:
        yield Endpoint(config, session, secrets_of(config.url, key), patience or Patience(config.patience_s))
    finally:
        with anyio.move_on_after(10, shield=True):
            await session.close()


class Endpoint:
    """Requests to one base URL. Open it with `open_endpoint`."""

    def __init__(self, config: EndpointConfig, session: aiohttp.ClientSession, secrets: Secrets, patience: Patience) -> None:
        self.config = config
        self.name = secrets.redact(config.name)
        self._session = session
        self._secrets = secrets
        self._patience = patience
        self._slots = anyio.Semaphore(_connections_allowed(config.at_once), fast_acquire=True)

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    async def post(self, path: str, body: bytes, read: Callable[[bytes], Got]) -> Got:
        """What `read` makes of the reply. Transient failures are tried again; each retry is told to `retries_told`."""
        return await self._asked("POST", path, body, read)

    async def get(self, path: str, read: Callable[[bytes], Got]) -> Got:
        """The same for what is only looked at."""
        return await self._asked("GET", path, None, read)

    async def once(self, path: str, body: bytes, read: Callable[[bytes], Got]) -> Got | ModelError:
        """What `read` makes of the reply, or why there is none: for what is not worth asking for again as it is."""
        return await self._attempt("POST", path, body, read)

    async def delete(self, path: str) -> None:
        """Tell it that something is not needed any more; tried once, and whatever it answers is fine."""
        error = await self._attempt("DELETE", path, None, lambda _reply: None)
        if error is not None:
            _log.debug("not released", extra={"error": str(error)})

    async def _asked(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got:
        return await retrying(self._patience, lambda: self._attempt(method, path, body, read))

    async def _attempt(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got | ModelError:
        """One request. Errors come back as values: a raised one would drag the library's own, with its headers, along.

        The agent's time does not cut a request off: one that is answered late ends the agent's time when the answer is there, and
        one that is not answered within `request_s` is the model's failure, in whichever turn.
        """
        await self._slot()
        begun = anyio.current_time()
        with delay_limits():
            try:
                with anyio.move_on_after(self.config.request_s), boundary(ModelError, self.name):
                    return await self._exchange(method, path, body, read)
                error = self._failed("timeout", f"no whole reply within {self.config.request_s:g} s")
            except ModelError as raised:
                error = self._clean(raised)
            finally:
                self._slots.release()
            extend_limits(anyio.current_time() - begun)  # only now is it known that this was not the agent's time
        return error

    async def _slot(self) -> None:
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            with pause_limits():
                await self._slots.acquire()

    async def _exchange(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], Got]) -> Got:
        try:
            data = body if body is None or len(body) < _LARGE_BODY_BYTES else BytesIO(body)
            url = called_url(self.config.url, path)
            async with self._session.request(method, url, data=data, allow_redirects=False) as response:
                reply = await self._read(response)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            raise self._broken(error) from None
        if not 200 <= response.status < 300:
            wait_s = retry_after(response.headers, self._patience.clock.wall())
            raise failure_of(response.status, self._secrets.redact_error(reply), self.name, retry_after_s=wait_s)
        return read(self._secrets.redact_reply(reply))

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
        return ModelError(f"{self.name}: {shown(self._secrets.redact(why))}", kind=kind, retryable=retryable)

    def _clean(self, error: ModelError) -> ModelError:
        """The error with every secret hidden, cut loose from whatever caused it."""
        text = self._secrets.redact(str(error))
        return ModelError(text, kind=error.kind, retryable=error.retryable, retry_after_s=error.retry_after_s)
