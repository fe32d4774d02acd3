"""Steering a run from outside: a unix socket in its directory, which only the user who runs it can open.

A request is one line of JSON, a `RunOrder`; the answer is one line, the `RunStatus` afterwards or a refusal. The running process
waits for connections and does nothing else for it. `tell_run` is the other end. The socket is removed when the run ends; one that
a killed process left refuses connections, and the next sitting replaces it. A file system without sockets costs a warning only.
"""

import logging
import os
import socket
import stat
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
import msgspec

from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.limits import PlannedCall
from sandlot.core.text import one_line
from sandlot.harness.approval import HeldTurn
from sandlot.run.results import Run
from sandlot.store.aside import set_aside
from sandlot.store.lock import write_lock

FILE = "control.sock"
MOST_AT_ONCE = 100_000
_LONGEST_ORDER = 64 * 1024
_LONGEST_ANSWER = 16 * 2**20
"""Bytes of one line."""
_PATIENCE_S = 5.0
_RETRY_S = 1.0
"""Wait after a connection could not be accepted, such as for want of file descriptors."""
_MODE = 0o600
_log = logging.getLogger(__name__)

Deed = Literal["status", "pause", "resume", "set", "stop", "requeue", "approve", "change", "refuse"]
_ABOUT_TURNS = frozenset({"approve", "change", "refuse"})


class RunOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a running process should do."""

    do: Deed
    at_once: int | None = None
    """For `set`: how many rollouts may be in flight."""
    held: str | None = None
    """For `approve`, `change` and `refuse`: the id of the turn that waits."""
    calls: tuple[PlannedCall, ...] | None = None
    """For `change`: the calls to make instead."""

    def __post_init__(self) -> None:
        if (self.do in _ABOUT_TURNS) != (self.held is not None) or (self.do == "change") != (self.calls is not None):
            raise ConfigError("`approve`, `change` and `refuse` need `held`, `change` needs `calls`; nothing else takes them")
        if (self.do == "set") != (self.at_once is not None):
            raise ConfigError("`set` needs `at_once`, and nothing else takes it")
        if self.at_once is not None and not 1 <= self.at_once <= MOST_AT_ONCE:
            raise ConfigError(f"at_once is {self.at_once}; give a number from 1 to {MOST_AT_ONCE:,}")


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a running process stands."""

    run: str
    """Name of the run directory."""
    pid: int
    state: Literal["running", "paused", "stopping"]
    at_once: int
    """Rollouts that may be in flight, at most."""
    limit: int | None = None
    """Rollouts that may be in flight now; fewer if the run adapts (`--adapt`) and something is short."""
    waits: str | None = None
    """Why the next rollout has not started, such as `limit`, `model` or `memory`; None if none waits."""
    in_flight: int
    """Rollouts whose agent acts: those that take one of these places."""
    grading: int = 0
    """Rollouts whose agent has ended and that are graded."""
    done: int
    """Rollouts stored."""
    planned: int | None
    """Rollouts of the plan; None in a training, which takes as many as its steps need."""
    workers: int | None = None
    """Workers that are ready; None if rollouts are taken in the run's own process."""
    waiting: int = 0
    """Rollouts that wait for a worker with room: more workers would help."""
    requeued: bool = False
    """True if failed rollouts will be taken again when the others are done."""
    held: tuple[HeldTurn, ...] = ()
    """Turns that wait for a person."""
    since: float
    """When this sitting began, in seconds since the epoch."""


class _Answer(msgspec.Struct):
    status: RunStatus | None = None
    problem: str = ""
    """Why it was refused."""


_Obey = Callable[[RunOrder], RunStatus]


@asynccontextmanager
async def serve_control(run: Path, obey: _Obey) -> AsyncGenerator[None]:
    """Obey requests until the block ends. The caller holds the run's lock; `obey` refuses with a `SandlotError`."""
    with _short(run) as place:
        listener = await _listen(place)
        if listener is None:
            yield
            return
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_serve, listener, obey)
                yield
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the block's own: what serves raises nothing
        finally:
            with suppress(OSError):
                os.unlink(place)  # noqa: PTH108 - `place` goes through an open directory


async def _listen(place: str) -> anyio.abc.SocketListener | None:
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(place).st_mode):
                os.unlink(place)  # noqa: PTH108 - as above; a killed process left it
        listener = await anyio.create_unix_listener(place, mode=_MODE)
    except (OSError, ValueError) as error:
        _log.warning("the run cannot be steered from outside", extra={"error": str(error)})
        return None
    return listener


async def _serve(listener: anyio.abc.SocketListener, obey: _Obey) -> None:
    async def answer(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            async with stream:
                with anyio.move_on_after(_PATIENCE_S):
                    await stream.send(_reply(await _read_line(stream), obey))

    async with listener:
        while True:
            try:
                await listener.serve(answer)
            except OSError as error:
                _log.warning("control connection not accepted", extra={"error": str(error)})
                await anyio.sleep(_RETRY_S)


async def _read_line(stream: anyio.abc.SocketStream) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) <= _LONGEST_ORDER:
        line += await stream.receive(_LONGEST_ORDER)
    return line


def _reply(line: bytes, obey: _Obey) -> bytes:
    try:
        if len(line) > _LONGEST_ORDER:
            raise ConfigError(f"the request is longer than {_LONGEST_ORDER:,} bytes")
        answer = _Answer(status=obey(msgspec.json.decode(line, type=RunOrder)))
        return msgspec.json.encode(answer) + b"\n"
    except (SandlotError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return msgspec.json.encode(_Answer(problem=one_line(str(error), 1000))) + b"\n"


def tell_run(run: Path, order: RunOrder) -> RunStatus:
    """Tell the process that writes a run what to do, and return how it stands then. Blocking.

    `ConfigError` if it refuses, or if no process is there to be told (kind `not running`).
    """
    try:
        with _short(run) as place, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(place)
            connection.sendall(msgspec.json.encode(order) + b"\n")
            line = _receive_line(connection)
    except TimeoutError:
        raise ConfigError(
            f"run `{run}` did not answer in {_PATIENCE_S:.0f} s: something blocks its event loop; try again"
        ) from None
    except OSError:
        raise ConfigError(
            f"run `{run}` is not running here, or not as this user; `sandlot ps` lists those that are", kind="not running"
        ) from None
    try:
        answer = msgspec.json.decode(line, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ConfigError(f"`{run / FILE}` gave an answer that is none; is it a run of another version?") from None
    if answer.status is None:
        raise ConfigError(one_line(answer.problem, 1000))
    return answer.status


def _receive_line(connection: socket.socket) -> bytes:
    line, end = b"", time.monotonic() + _PATIENCE_S  # for the whole answer, however it drips
    while not line.endswith(b"\n") and len(line) <= _LONGEST_ANSWER:
        connection.settimeout(max(1e-3, end - time.monotonic()))
        more = connection.recv(_LONGEST_ORDER)
        if not more:
            break
        line += more
    return line


def parse_calls(text: str) -> tuple[PlannedCall, ...]:
    """Calls as a person writes them: a JSON list."""
    try:
        return msgspec.json.decode(text, type=tuple[PlannedCall, ...])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ConfigError(f'the calls are not a JSON list such as `[{{"name": "pay", "arguments": {{}}}}]`: {error}') from error


def running_runs(folder: Path) -> list[RunStatus]:
    """Every run directly below a folder that a process of this user is writing now, by name."""
    found: list[RunStatus] = []
    for place in sorted(folder.glob(f"*/{FILE}")):
        with suppress(ConfigError):
            found.append(tell_run(place.parent, RunOrder(do="status")))
    return found


def requeue_ended(run: Path) -> int:
    """Set aside the failed rollouts of a run that has ended, and return their number: repeating its command takes them again."""
    if Run(run).training is not None:
        raise ConfigError(f"`{run}` is a training, which has learned from its rollouts: none is taken again")
    with write_lock(run):
        return set_aside(run, lambda row: row.outcome == "failed")


@contextmanager
def _short(run: Path) -> Generator[str]:
    """A path of the socket that is short enough, however long that of the run is: unix sockets allow 107 bytes."""
    directory = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{FILE}"
    finally:
        os.close(directory)
