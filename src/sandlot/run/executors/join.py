"""A worker that joins a run over the network and takes its rollouts: `sandlot worker --join HOST:PORT`.

It loads the environment from its own files and refuses if they are not those of the run. It ends when the run does, when it is
asked to (`Departure`), or when the run is silent for too long. In each case every world is closed.
"""

import os
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import anyio
import anyio.abc
import msgspec

from sandlot.core.address import Address, read_address
from sandlot.core.errors import ConfigError, unwrapped
from sandlot.core.text import one_line
from sandlot.run.executors.connection import WorkerConnection, open_connection
from sandlot.run.executors.messages import (
    DismissWorker,
    FromWorker,
    JoinAdmitted,
    JoinChallenge,
    JoinRefused,
    JoinReply,
    JoinRequest,
    RolloutDone,
    SetUp,
    ToWorker,
    WorkerGone,
    WorkerReady,
    WorkerRefused,
)
from sandlot.run.executors.token import NONCE_BYTES, TOKEN_VARIABLE, found_token, given_token, is_proof, prove, worker_context
from sandlot.run.executors.worker import Departure, serve_run
from sandlot.run.executors.workers import JOIN_S, MOST_JOIN_BYTES, SILENCE_S

_RETRY_S = 1.0
"""Between two tries to connect."""


class _NotAnsweredError(ConfigError):
    """Whoever listens there did not begin as a run does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """How to join a run."""

    at: str
    """`HOST:PORT` of the run."""
    env: str | None = None
    """The environment on this machine; None if it has the same path or name as on the run's."""
    at_once: int = 64
    """Rollouts to take at a time."""
    token_file: Path | None = None
    """File with the token; None for the variable, or on the loopback address the run's own file."""
    authority: Path | None = None
    """PEM file with the certificate that the run's must be signed by; None to connect without TLS."""
    grace_s: float = 30.0
    """Time to finish rollouts when asked to leave; the others are returned."""
    wait_s: float = 0.0
    """How long to try again while no run listens there."""


class JoinEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker ended."""

    how: Literal["run ended", "left", "lost"]
    """`lost`: the connection to the run broke, and what the worker had is taken again elsewhere."""
    reason: str
    """A sentence."""
    rollouts: int
    """Rollouts that it finished."""


class _JoinedWorker:
    """What a worker hears and says over one connection."""

    def __init__(self, connection: WorkerConnection, address: Address, departure: Departure, tell: Callable[[str], None]) -> None:
        self._connection, self._address, self._departure, self._tell = connection, address, departure, tell
        self._num_done = 0
        self._refusal: str | None = None
        self._dismissal: DismissWorker | None = None

    async def work(self, options: JoinOptions, token: str) -> JoinEnd:
        """Join, take rollouts until it is over, and say how it ended."""
        orders, setup = self._orders(), None
        with anyio.move_on_after(JOIN_S) as scope:
            await self._join(options, token)
            setup = await anext(orders, None)
        if not isinstance(setup, SetUp):
            hint = "" if options.authority else "; if the run uses TLS, name its certificate with `--ca`"
            how = f"did not answer in {JOIN_S:g} s" if scope.cancelled_caught else self._connection.ended
            raise ConfigError(f"this worker could not join at {self._address}: whoever listens there {how}{hint}")
        async with AsyncExitStack() as stack:
            await serve_run(_for_here(setup, options, stack), orders, self._say, self._departure)
        self._connection.say(WorkerGone())
        await self._connection.wait_closed(SILENCE_S)  # as long as something moves: results may be on a slow way
        if self._refusal is not None:
            raise ConfigError(self._refusal)
        if self._dismissal is not None and self._dismissal.reason is not None:
            raise ConfigError(f"the run at {self._address} goes on without this worker: {one_line(self._dismissal.reason, 500)}")
        return self._end()

    async def _join(self, options: JoinOptions, token: str) -> None:
        replies = self._connection.messages(msgspec.msgpack.Decoder(JoinReply), most_bytes=MOST_JOIN_BYTES)
        challenge = await anext(replies, None)
        if not isinstance(challenge, JoinChallenge):
            raise _NotAnsweredError(f"no run listens at {self._address}: whoever does {self._connection.ended}")
        claim = JoinRequest(
            nonce=secrets.token_bytes(NONCE_BYTES),
            proof=b"",
            host=socket.gethostname()[:253],
            pid=os.getpid(),
            sandlot=version("sandlot"),
            at_once=options.at_once,
        )
        self._connection.say(msgspec.structs.replace(claim, proof=prove(token, "worker", challenge.nonce, claim)))
        match await anext(replies, None):
            case JoinAdmitted(proof=proof) if is_proof(proof, token, "run", challenge.nonce, claim):
                return
            case JoinAdmitted():
                raise ConfigError(f"whoever listens at {self._address} does not have the token; it is not the run that was meant")
            case JoinRefused(reason=reason):
                raise ConfigError(f"the run at {self._address} refuses this worker: {one_line(reason, 500)}")
            case _:
                raise ConfigError(
                    f"the run at {self._address} {self._connection.ended} and did not say whether this worker may join"
                )

    async def _orders(self) -> AsyncGenerator[ToWorker]:
        async for order in self._connection.messages(msgspec.msgpack.Decoder(ToWorker)):
            if isinstance(order, DismissWorker):
                self._dismissal = order
                return
            yield order

    def _say(self, message: FromWorker) -> None:
        match message:
            case WorkerReady():
                self._connection.silence_s = SILENCE_S
                self._tell(f"joined the run at {self._address}")
            case WorkerRefused(reason=reason):
                self._refusal = reason
            case RolloutDone():
                self._connection.say(message, written=self._count)
                return
            case _:
                pass
        self._connection.say(message)

    def _count(self) -> None:
        self._num_done += 1

    def _end(self) -> JoinEnd:
        if self._dismissal is not None:
            return JoinEnd(how="run ended", reason="the run has ended", rollouts=self._num_done)
        if self._departure.asked.is_set():
            return JoinEnd(how="left", reason="left the run, as asked", rollouts=self._num_done)
        reason = f"the run at {self._address} {self._connection.ended}; what was not finished is taken again elsewhere"
        return JoinEnd(how="lost", reason=reason, rollouts=self._num_done)


def _for_here(setup: SetUp, options: JoinOptions, stack: AsyncExitStack) -> SetUp:
    """The same with the paths of this machine; `ConfigError` if the run sends code, which only workers that it starts take."""
    if setup.sent is not None:
        raise ConfigError(
            "the run sends the files of an environment, which a worker that joins does not run; put them on this machine, and "
            "name them: `sandlot worker ENV --join HOST:PORT`"
        )
    config = msgspec.structs.replace(setup.config, env=options.env or setup.config.env)
    if Path(setup.cache).parent.is_dir():
        return msgspec.structs.replace(setup, config=config)
    cache = stack.enter_context(TemporaryDirectory(prefix="sandlot-judge-", ignore_cleanup_errors=True))
    return msgspec.structs.replace(setup, config=config, cache=cache)


async def _connect(address: Address, context: ssl.SSLContext | None) -> anyio.abc.ByteStream:
    try:
        with anyio.fail_after(JOIN_S):
            if context is None:
                return await anyio.connect_tcp(address.host, address.port)
            return await anyio.connect_tcp(
                address.host, address.port, ssl_context=context, tls_hostname=address.host, tls_standard_compatible=False
            )
    except ssl.SSLError as error:
        raise ConfigError(f"the certificate of the run at {address} is not accepted: {error}") from error
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        why = str(error) or "whoever does closed its connection"
        raise _NotAnsweredError(f"no run listens at {address}: {why}; start one with `--on workers:HOST:PORT`") from error


def _token_for(options: JoinOptions, address: Address) -> str:
    token = given_token(options.token_file) or found_token(address)
    if token is None:
        raise ConfigError(
            f"this worker has no token for the run at {address}; set `{TOKEN_VARIABLE}` to the same value as for the run, "
            "or name a file with `--token-file`"
        )
    return token


async def join_run(options: JoinOptions, *, tell: Callable[[str], None] = lambda _said: None) -> JoinEnd:
    """Take rollouts of a run elsewhere until it has ended, this worker is asked to leave, or the connection breaks.

    SIGTERM and Ctrl-C ask it to leave; a second one lets it return its rollouts at once. `ConfigError` if the run refuses the
    worker, or the worker the run.
    """
    address = read_address("--join", options.at)
    context = worker_context(options.authority) if options.authority is not None else None
    departure = Departure(options.grace_s)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_listen_for_signals, departure, group.cancel_scope)
            until = anyio.current_time() + options.wait_s
            while True:
                try:
                    end = await _work_once(options, address, context, departure, tell)
                    break
                except _NotAnsweredError:
                    if anyio.current_time() + _RETRY_S > until:
                        raise
                await anyio.sleep(_RETRY_S)
            group.cancel_scope.cancel()
            return end
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from None
    return JoinEnd(how="left", reason="was asked to leave before it had joined", rollouts=0)


async def _work_once(
    options: JoinOptions, address: Address, context: ssl.SSLContext | None, departure: Departure, tell: Callable[[str], None]
) -> JoinEnd:
    stream = await _connect(address, context)
    token = _token_for(options, address)  # a run on this machine leaves it when it listens
    async with open_connection(stream, beats=True) as connection:
        return await _JoinedWorker(connection, address, departure, tell).work(options, token)
    raise AssertionError  # the type checker cannot see that an error passes through the block


async def _listen_for_signals(departure: Departure, everything: anyio.CancelScope) -> None:
    """The first signal asks the worker to leave, the second to hurry."""
    if threading.current_thread() is not threading.main_thread():
        return
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            (departure.hurried if departure.asked.is_set() else departure.asked).set()
            if not departure.is_serving:
                everything.cancel()
