"""A client of an OpenEnv server: one WebSocket is one session, with `reset` and `step`.

The server is not trusted: its messages are bounded and checked, and redirects are refused. What goes wrong there is an
`AuthorError`. An action that the server refuses is a `ToolError`. One server has the sessions of many rollouts: if it is gone and
another session may have caused that, it is a `SandboxError`, and the rollout is tried again.
"""

import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import AuthorError, ConfigError, SandboxError, ToolError
from sandlot.core.text import one_line
from sandlot.core.types import Json

MAX_MESSAGE_BYTES = 16 * 2**20
ANSWER_S = 60.0
"""How long an answer may take. A rollout's limit for a tool must be longer: it would go on without the answer."""
_CONNECT_S = 10.0
FULL_S = 120.0
"""How long a session waits for a server whose sessions are all taken. Servers of OpenEnv have one unless they say otherwise."""
_RETRY_S = 0.5
_ENDING_S = 0.5
"""A process that ends closes its connections first: how long it may then still listen."""
_SHOWN_CHARS = 500
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvAddress:
    """Where a server listens."""

    url: str
    token_variable: str = ""
    """The environment variable with the server's token."""
    socket: str = ""
    """The Unix socket of a server that we have started; empty for one at a port."""
    last_words: Callable[[], str] = str
    """What a server that we have started wrote last, as a part of a message."""
    end: Callable[[], None] | None = None
    """Ends a server that we have started."""
    listens: Callable[[], bool] | None = None
    """Whether a server that we have started listens."""

    def http(self, *tracing: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        """A client for this address."""
        connector = aiohttp.UnixConnector(self.socket) if self.socket else None
        return aiohttp.ClientSession(headers=headers_of(self.token_variable), trace_configs=list(tracing), connector=connector)


class OpenEnvStep(msgspec.Struct, frozen=True):
    """What a server answers to `reset` and `step`."""

    observation: Json
    reward: float | None = None
    done: bool = False


class _Problem(msgspec.Struct, frozen=True):
    message: str = ""
    code: str = ""
    errors: Any = None


class _Reply(msgspec.Struct, frozen=True):
    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class NoServerError(AuthorError):
    """Nothing listens at the address."""


class _FullError(Exception):
    """All sessions of the server are taken."""


def headers_of(token_variable: str) -> dict[str, str]:
    """The header that proves who asks; none without a variable. `ConfigError` if the variable is not set."""
    if not token_variable:
        return {}
    if not token_variable.endswith("_TOKEN"):  # a source from someone else could name any secret, such as a key for a model
        raise ConfigError(f"`token_variable={one_line(token_variable, 100)}`: the name of the variable must end in `_TOKEN`")
    token = os.environ.get(token_variable, "").strip()
    if not token:
        raise ConfigError(f"the environment variable `{token_variable}`, which holds the token of the server, is not set")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(f"the token in the environment variable `{token_variable}` may only have printable ASCII characters")
    return {"Authorization": f"Bearer {token}"}


_ASKING: set["OpenEnvClient"] = set()
"""The sessions that wait for an answer."""


class OpenEnvClient:
    """One session of a server."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, address: OpenEnvAddress) -> None:
        self._socket = socket
        self._address = address
        self.server = address.socket or address.url
        self._waiting = False
        """An answer is missing: the next one to come would be taken for that of another action."""

    async def reset(self, seed: int | None = None) -> OpenEnvStep:
        """Begin an episode."""
        return await self._ask("reset", {} if seed is None else {"seed": seed})

    async def step(self, action: Json) -> OpenEnvStep:
        """Act. `ToolError` if the server does not take such an action."""
        return await self._ask("step", action)

    async def _ask(self, kind: str, data: Json) -> OpenEnvStep:
        if self._waiting:
            raise AuthorError("the OpenEnv server has not answered what it was asked before", kind="timeout")
        if self._address.listens is not None and not self._address.listens():
            raise SandboxError(f"the OpenEnv server has ended{self._address.last_words()}", kind="gone")
        self._waiting = True
        _ASKING.add(self)
        alone, broken, text = True, "", ""
        try:
            with anyio.fail_after(ANSWER_S):
                await self._socket.send_str(msgspec.json.encode({"type": kind, "data": data}).decode())
                message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                text = message.data
            else:
                broken = (
                    f"the OpenEnv server closed the connection during `{kind}`, or sent more than {MAX_MESSAGE_BYTES:,} bytes"
                )
        except TimeoutError:
            if self._address.end is not None:  # it may compute without end, and have no session for others
                await anyio.to_thread.run_sync(self._address.end)
            raise AuthorError(f"the OpenEnv server did not answer `{kind}` within {ANSWER_S:g} s", kind="timeout") from None
        except (aiohttp.ClientError, OSError) as error:
            broken = f"the connection to the OpenEnv server broke: {error}"
        finally:
            _ASKING.discard(self)
            alone = all(other.server != self.server for other in _ASKING)
        if broken:
            mine = await self._is_there() or (alone and self._address.listens is not None)
            said = f"{broken}{self._address.last_words()}"
            raise AuthorError(said) if mine else SandboxError(said, kind="gone")
        self._waiting = False
        reply = _decoded(text, _Reply)
        if reply.type == "error":
            raise _problem(_decoded(bytes(reply.data), _Problem), kind)
        if reply.type != "observation":
            raise AuthorError(f"the OpenEnv server answered `{kind}` with `{one_line(reply.type, 40)}`")
        step = _decoded(bytes(reply.data), OpenEnvStep)
        if step.reward is not None and not math.isfinite(step.reward):
            raise AuthorError(f"the OpenEnv server gave the reward {step.reward}, which is no number")
        return step

    async def _is_there(self) -> bool:
        """Whether the server goes on: then it was this session that it ended."""
        await anyio.sleep(_ENDING_S)
        if self._address.listens is not None:
            return self._address.listens()
        try:
            with anyio.fail_after(_CONNECT_S):
                async with self._address.http() as http, http.get(f"{self._address.url}/schema", allow_redirects=False):
                    return True
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


def _decoded(data: str | bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AuthorError(f"the OpenEnv server sent what is no answer: {error}") from error


def _problem(problem: _Problem, kind: str) -> Exception:
    errors = f": {one_line(str(problem.errors), _SHOWN_CHARS)}" if problem.errors else ""
    said = f"{one_line(problem.message, _SHOWN_CHARS)}{errors}"
    if problem.code == "CAPACITY_REACHED" and kind == "reset":
        return _FullError(said)
    if problem.code == "VALIDATION_ERROR" and kind == "step":
        return ToolError(f"the environment does not take this action: {said}")
    return AuthorError(f"the OpenEnv server failed at `{kind}`: {said} ({one_line(problem.code, 40)})")


@asynccontextmanager
async def open_session(address: OpenEnvAddress, seed: int | None) -> AsyncGenerator[tuple[OpenEnvClient, OpenEnvStep]]:
    """A session with an episode that has begun. It waits while all sessions of the server are taken."""
    async with address.http(_without_redirects()) as http:
        socket, client, begun = await _begun(http, address, seed)
        try:
            yield client, begun
        finally:
            with anyio.move_on_after(2, shield=True):
                await socket.close()


def _without_redirects() -> aiohttp.TraceConfig:
    """`ws_connect` follows redirects and has no option against it: a server could make this machine ask any address."""

    async def refuse(_session: object, _context: object, told: aiohttp.TraceRequestRedirectParams) -> None:
        raise AuthorError(f"the OpenEnv server at `{told.url}` sends elsewhere, which is not followed")

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(refuse)
    return tracing


async def _begun(
    http: aiohttp.ClientSession, address: OpenEnvAddress, seed: int | None
) -> tuple[aiohttp.ClientWebSocketResponse, OpenEnvClient, OpenEnvStep]:
    deadline = anyio.current_time() + FULL_S
    while True:
        try:
            with anyio.fail_after(_CONNECT_S):
                socket = await http.ws_connect(f"{address.url}/ws", max_msg_size=MAX_MESSAGE_BYTES)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoServerError(
                f"no OpenEnv server answers at `{address.url}`: {error or 'no answer'}{address.last_words()}"
            ) from error
        client = OpenEnvClient(socket, address)
        try:
            return socket, client, await client.reset(seed)
        except _FullError as error:
            await socket.close()
            if anyio.current_time() > deadline:
                raise AuthorError(
                    f"all sessions of `{address.url}` were taken for {FULL_S:g} s: {error}", kind="timeout"
                ) from None
            await anyio.sleep(_RETRY_S)
        except BaseException:
            with anyio.move_on_after(2, shield=True):
                await socket.close()
            raise


async def read_page(address: OpenEnvAddress, page: str, *, absent: Json | None = None) -> Json:
    """A JSON object of the server, such as its `/schema`. `ConfigError` if there is none, unless `absent` is given for that."""
    url = address.url + page
    try:
        with anyio.fail_after(_CONNECT_S):
            async with address.http() as http, http.get(url, allow_redirects=False) as response:
                if response.status == 404 and absent is not None:
                    return absent
                if response.status != 200:
                    raise ConfigError(f"`{url}` answers with the status {response.status}; is it an OpenEnv server?")
                data = bytearray()
                async for piece in response.content.iter_any():
                    data += piece
                    if len(data) > MAX_MESSAGE_BYTES:
                        raise ConfigError(f"`{url}` has more than {MAX_MESSAGE_BYTES:,} bytes")
        return msgspec.json.decode(data, type=dict[str, Any])
    except (aiohttp.ClientError, OSError, TimeoutError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"`{url}` cannot be read: {error or 'no answer'}; is it an OpenEnv server, and does it run?") from error
