"""Rollouts in workers that join over the network: `sandlot run ENV --on workers:HOST:PORT`, `sandlot worker --join HOST:PORT`.

The run listens; workers come and go while it goes on. `pool.py` gives each what it has room for. A worker must prove that it has
the token (`token.py`) before anything that it says is looked at, and that it has the same environment before it gets a rollout.
Both sides send beats: a worker that is silent for too long has lost its rollouts, which are taken again, and its connection, so
that nothing it says later counts.
"""

import logging
import secrets
import socket
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version

import anyio
import anyio.abc
import msgspec
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from sandlot.core.access import require_token
from sandlot.core.address import Address, read_address
from sandlot.core.errors import ConfigError, HarnessError, unwrapped
from sandlot.core.text import one_line
from sandlot.run.executors.connection import MOST_BYTES, WorkerConnection, open_connection
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import (
    DismissWorker,
    JoinAdmitted,
    JoinChallenge,
    JoinRefused,
    JoinRequest,
    SetUp,
    WorkerGone,
)
from sandlot.run.executors.pool import END_S, WorkerPool
from sandlot.run.executors.receiving import ReceiveBudget
from sandlot.run.executors.setup import MOST_WORKERS, divided_setup, setup_of, tasks_digest
from sandlot.run.executors.stream_link import StreamLink, set_up_worker
from sandlot.run.executors.token import (
    CERTIFICATE_VARIABLE,
    NONCE_BYTES,
    TOKEN_VARIABLE,
    given_token,
    is_proof,
    own_token,
    prove,
    run_context,
)

SILENCE_S = 60.0
"""A side that sends nothing for longer is gone."""
_START_S = 900.0
"""Time for a worker to load the environment and open what it needs: nobody waits for it, and it may load a model."""
JOIN_S = 10.0
"""Time to prove that one may join, from the first byte on."""
MOST_JOIN_BYTES = 4096
"""Of a message before that."""
_MOST_STRANGERS = 64
"""Connections that have not proved it yet; for a further one the oldest is closed, so that the silent keep nobody out."""
_RETRY_S = 1.0
"""Wait after a connection could not be accepted, such as for want of file descriptors."""
_REQUESTS = msgspec.msgpack.Decoder(JoinRequest)
_log = logging.getLogger(__name__)


class _Entrance:
    """Lets workers into a pool."""

    def __init__(self, pool: WorkerPool, setup: SetUp, token: str, context: ssl.SSLContext | None) -> None:
        self._pool, self._setup, self._token, self._context = pool, setup, token, context
        self._budget = ReceiveBudget(MOST_BYTES)
        self._strangers: dict[anyio.CancelScope, None] = {}
        """The oldest first."""
        self._open: set[anyio.CancelScope] = set()
        """What ends when the run does."""
        self._is_closing = False
        self._ended = anyio.Event()

    async def serve(self, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        """Let workers in until `close`. Cancelling does not end it: workers are dismissed in order."""
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as connections:
                    with self._until_closing():
                        await self._accept(listener, connections)
        finally:
            self._ended.set()

    async def close(self) -> None:
        """Let no more workers in, and dismiss those that are; all have closed their worlds when this returns, or had time to."""
        self._is_closing = True
        for scope in list(self._open):
            scope.cancel()
        await self._ended.wait()

    @contextmanager
    def _until_closing(self) -> Generator[None]:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            if self._is_closing:
                scope.cancel()
            try:
                yield
            finally:
                self._open.discard(scope)

    async def _accept(self, listener: anyio.abc.Listener[anyio.abc.SocketStream], connections: anyio.abc.TaskGroup) -> None:
        while True:
            try:
                await listener.serve(self._receive, connections)
            except OSError as error:
                _log.warning("a worker's connection was not accepted", extra={"error": str(error)})
                await anyio.sleep(_RETRY_S)

    async def _receive(self, stream: anyio.abc.SocketStream) -> None:
        """One connection, to its end. Whatever comes over it costs only itself."""
        request: JoinRequest | None = None
        try:
            async with open_connection(await self._secure(stream), beats=True, budget=self._budget) as connection:
                request = await self._admit(connection)
                if request is not None:
                    await self._serve(connection, request)
        except (ConfigError, HarnessError) as error:
            _log.warning("a worker was refused", extra={"reason": one_line(str(error), 500)})
        except Exception as error:  # noqa: BLE001 - otherwise one connection would end those of all workers
            if request is not None:  # ours: a connection that breaks raises nothing
                _log.exception("a worker's connection failed; the others go on")
            else:
                _log.debug("a stranger's connection broke", extra={"error": f"{type(error).__name__}: {error}"})
        finally:
            await stream.aclose()

    @contextmanager
    def _stranger(self) -> Generator[None]:
        """What a connection does before it is known whose it is; it is cut off after a while."""
        with self._until_closing(), anyio.move_on_after(JOIN_S) as scope:
            while len(self._strangers) >= _MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                oldest.cancel()
                del self._strangers[oldest]
            self._strangers[scope] = None
            try:
                yield
            finally:
                self._strangers.pop(scope, None)

    async def _secure(self, stream: anyio.abc.SocketStream) -> anyio.abc.ByteStream:
        if self._context is None:
            return stream
        with self._stranger():
            return await TLSStream.wrap(stream, server_side=True, ssl_context=self._context, standard_compatible=False)
        raise anyio.BrokenResourceError

    async def _admit(self, connection: WorkerConnection) -> JoinRequest | None:
        """What the worker says about itself, if it may join; None if it may not."""
        challenge = secrets.token_bytes(NONCE_BYTES)
        connection.say(JoinChallenge(nonce=challenge))
        with self._stranger():
            request = await anext(connection.messages(_REQUESTS, most_bytes=MOST_JOIN_BYTES), None)
            if request is None:
                return None
            problem = self._problem_of(request, challenge)
            if problem is None:
                connection.say(JoinAdmitted(proof=prove(self._token, "run", challenge, request)))
                return request
            _log.warning("a worker was refused", extra={"worker": one_line(request.host, 100), "reason": problem})
            connection.say(JoinRefused(reason=problem))
            await connection.wait_closed()
        return None

    def _problem_of(self, request: JoinRequest, challenge: bytes) -> str | None:
        """Why a worker may not join."""
        if not is_proof(request.proof, self._token, "worker", challenge, request):
            return f"its token is not that of the run; set `{TOKEN_VARIABLE}` to the same value on both sides"
        if request.sandlot != version("sandlot"):
            return f"it has Sandlot {one_line(request.sandlot, 50)}, the run has {version('sandlot')}; use one version"
        if self._pool.load.num_workers >= MOST_WORKERS:
            return f"the run has {MOST_WORKERS} workers, the maximum"
        return None

    async def _serve(self, connection: WorkerConnection, request: JoinRequest) -> None:
        """A worker that was admitted, until it is gone or the run ends."""
        named = f"worker {request.pid} on {one_line(request.host, 100)}"

        async def how_ended() -> str:
            return f"{named} {connection.ended}"

        link = StreamLink(connection, request.pid, how_ended, request.at_once)
        share = max(1.0, self._setup.config.at_once / request.at_once)
        is_gone, reason = False, None
        try:
            with self._until_closing():
                await set_up_worker(link, divided_setup(self._setup, share), _START_S)
                connection.silence_s = SILENCE_S
                _log.info("a worker joined", extra={"worker": named, "at_once": request.at_once})
                how = await self._pool.adopt(link)
                is_gone = True
                _log.warning("a worker is gone", extra={"how": how, "others": self._pool.load.num_workers})
        except Exception as error:
            reason = one_line(str(error) or type(error).__name__, 500)
            raise
        finally:
            if not is_gone:
                await _dismiss(link, reason)


async def _dismiss(link: StreamLink, reason: str | None) -> None:
    """Return when the worker has closed its worlds, or had time to."""
    link.connection.say(DismissWorker(reason=reason))
    with anyio.move_on_after(END_S):
        async for message in link.messages():
            if isinstance(message, WorkerGone):
                return


async def _listen(address: Address) -> anyio.abc.Listener[anyio.abc.SocketStream]:
    try:
        return await anyio.create_tcp_listener(local_host=address.host, local_port=address.port)
    except OSError as error:
        raise ConfigError(
            f"workers cannot join at {address}: {error.strerror or error}; name an address of this machine and a free port, "
            "another one for each environment"
        ) from error


@asynccontextmanager
async def open_workers(given: str, plan: ExecutorPlan) -> AsyncGenerator[WorkerPool]:
    """Listen for workers until the block ends; then all of them have closed their worlds. It begins without any."""
    address = read_address("workers at", given or "0")
    token, context = require_token(address, given_token(), f"set `{TOKEN_VARIABLE}` here and for every worker"), run_context()
    setup = msgspec.structs.replace(setup_of(plan), tasks=tasks_digest(plan.env))
    pool = WorkerPool(plan.stop)
    pool.begin()
    with ExitStack() as stack:
        async with await _listen(address) as listener:
            address = Address(address.host, listener.extra(SocketAttribute.local_port))  # noqa: S610 - no database
            entrance = _Entrance(pool, setup, token or stack.enter_context(own_token(address)), context)
            if context is None and not address.is_loopback:
                fix = f"set {CERTIFICATE_VARIABLE}, or use a closed network"
                _log.warning("what goes to workers and comes from them is not encrypted", extra={"fix": fix})
            there = Address(socket.gethostname(), address.port) if address.is_wildcard else address
            _log.warning("rollouts wait for workers", extra={"start": f"sandlot worker --join {there}"})
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(entrance.serve, listener)
                    try:
                        yield pool
                    finally:
                        with anyio.CancelScope(shield=True):
                            await entrance.close()
            except BaseExceptionGroup as errors:
                raise unwrapped(errors) from errors
