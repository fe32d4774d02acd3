"""Calling code that may have to be killed: in a child process, one for each call.

A thread cannot be stopped, a process can. The child is forked here, so any function will do (closures, functions of modules
loaded by path) and its arguments need not travel; only what it returns or raises is pickled back. When the caller's deadline
passes, the child and what it started is killed. Nothing it does to its memory, its exit or its signals reaches this
process. `docs/decisions/isolated-calls.md` says why forking, and what it costs.
"""

import contextvars
import functools
import gc
import io
import logging
import os
import pickle
import resource
import signal
import stat
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
from anyio.lowlevel import RunVar

from sandlot.core.concurrency.author import frames_of, is_async, name_of
from sandlot.core.concurrency.clock import pause_limits

_MEMORY_BYTES = 2 * 2**30
"""Address space a child may take on top of what it inherits."""
MAX_RESULT_BYTES = 64 * 2**20
"""What one call may send back."""
_MAX_CHILDREN = 32
"""Isolated calls at once in one process; the others wait their turn."""
_REAP_S = 10.0
"""How long a killed child may take to be gone."""

_HEADER = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1
_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("isolated_children")

_log = logging.getLogger(__name__)


class ChildDied(RuntimeError):  # noqa: N818 - reads as what happened
    """The function's process ended before it could answer; the message says by which signal or exit code."""


class Untransferable(TypeError):  # noqa: N818 - reads as what happened
    """Something cannot be copied between processes; the message says what and why."""


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    pidfd: int
    pipe: int


async def call(function: Callable[..., Any], /, *args: Any, memory_bytes: int | None = _MEMORY_BYTES, **kwargs: Any) -> Any:
    """What the function returns, or raise what it raises; `ChildDied` if it killed its process. Cancelling kills it.

    The function works on a copy of this process: what it changes in its arguments or in globals is seen by nobody.
    """
    if is_async(function):
        raise TypeError(f"`{name_of(function)}` is async; an isolated function is a plain `def`")
    limiter = _limiter()
    with pause_limits():  # waiting for a place among the children is nobody's fault
        await limiter.acquire()
    try:
        child = _fork(functools.partial(function, *args, **kwargs), memory_bytes)
        status: int | None = None
        try:
            answer = await _receive(child.pipe)
            if answer is None:
                await anyio.wait_readable(child.pidfd)  # it ended, or will: the pipe closes first
        finally:
            status = await _end(child)
    finally:
        limiter.release()
    if answer is None:
        raise ChildDied(f"`{name_of(function)}` {_fate(status)} before it returned")
    returned, value = pickle.loads(answer)  # noqa: S301 - written by the author's own code, which is trusted here
    if returned:
        return value
    raise value


def pickle_value(value: Any) -> bytes:
    """The value as it would travel; `Untransferable` if it cannot."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise Untransferable(
            f"a `{type(value).__name__}` cannot be copied between processes ({error}); use plain data and classes at module level"
        ) from error


# -- the parent's side -------------------------------------------------------------------------------------------------


def _fork(work: Callable[[], Any], memory_bytes: int | None) -> _Child:
    parent, prctl = os.getpid(), _prctl()
    reading, writing = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # no handler of ours may run in the child
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: weighed in the decision page
            pid = os.fork()
        if pid == 0:
            _live(work, writing, memory_bytes, _Origin(parent, prctl, mask))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)
    with suppress(OSError):
        os.setpgid(pid, pid)  # both sides do it, so that it holds whoever comes first
    os.set_blocking(reading, False)
    try:
        return _Child(pid, os.pidfd_open(pid), reading)
    except OSError:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


async def _receive(pipe: int) -> bytes | None:
    """One framed answer; None if the pipe closed before a whole one came."""
    data = bytearray()
    size: int | None = None
    while size is None or len(data) < size:
        await anyio.wait_readable(pipe)
        piece = os.read(pipe, 2**20)
        if not piece:
            return None
        data += piece
        if size is None and len(data) >= _HEADER.size:
            size = int(_HEADER.unpack_from(data)[0]) + _HEADER.size
            if size > MAX_RESULT_BYTES:
                raise Untransferable(f"an isolated function sent back {size} bytes; {MAX_RESULT_BYTES} is the most it may")
    return bytes(data[_HEADER.size :])


async def _end(child: _Child) -> int | None:
    """Kill what is left of the child and its group, and its exit status; None if it would not go."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGKILL)
    try:
        with anyio.move_on_after(_REAP_S, shield=True):
            await anyio.wait_readable(child.pidfd)
        pid, status = os.waitpid(child.pid, os.WNOHANG)  # noqa: ASYNC222 - does not block
    finally:
        os.close(child.pidfd)
        os.close(child.pipe)
    if not pid:
        _log.warning("isolated child would not die", extra={"pid": child.pid})
        return None
    return status


def _fate(status: int | None) -> str:
    if status is None:
        return "would not die"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"left its process with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def _limiter() -> anyio.CapacityLimiter:
    """One limiter per event loop: a limiter belongs to the loop it was made in."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_MAX_CHILDREN)
        _LIMITER.set(limiter)
        return limiter


@functools.cache
def _prctl() -> Callable[..., int]:
    import ctypes  # noqa: PLC0415 - only those who isolate pay for it

    return ctypes.CDLL(None).prctl


# -- the child's side: single-threaded, never returns ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a child must know about where it came from."""

    parent: int
    prctl: Callable[..., int]
    mask: Collection[int]


def _live(work: Callable[[], Any], writing: int, memory_bytes: int | None, origin: _Origin) -> NoReturn:
    try:
        origin.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != origin.parent:
            os._exit(1)  # the parent died before it could be watched
        kept = _detach(writing, origin.mask)
        if memory_bytes is not None:
            _limit_memory(memory_bytes)
        answer = contextvars.Context().run(_answer, work)
        sys.stderr.flush()
        with open(writing, "wb", closefd=False) as pipe:
            pipe.write(_HEADER.pack(len(answer)) + answer)
        del kept
    finally:
        os._exit(0)  # whatever happened: no frame of the parent may go on in here


def _detach(writing: int, mask: Collection[int]) -> list[Any]:
    """Let go of what belongs to the parent: its group, signals, sockets, pipes and unwritten output.

    Gives back the parent's streams: dropping them would write their buffers a second time.
    """
    gc.freeze()
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _close_wires(writing)
    streams = [sys.stdout, sys.stderr]
    raw = io.FileIO(2, "w", closefd=False)
    sys.stdout = sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), errors="backslashreplace", line_buffering=True)
    return streams


def _close_wires(kept: int) -> None:
    """Close sockets, pipes and the like; files stay, since an author's module may have opened some."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # stdout may be a protocol's wire
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names are numbers
        with suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if descriptor not in {0, 1, 2, kept} and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode)):
                os.close(descriptor)


def _limit_memory(memory_bytes: int) -> None:
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - one line of the kernel's
        inherited = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = inherited + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(work: Callable[[], Any]) -> bytes:
    try:
        return pickle_value((True, work()))
    except Exception as error:  # noqa: BLE001 - it is raised again on the other side
        return _packed_error(error)
    except BaseException as error:  # noqa: BLE001 - an exit is not for the parent to follow
        return pickle_value((False, ChildDied(f"raised {type(error).__name__}({error})")))


def _packed_error(error: Exception) -> bytes:
    error.add_note("In the isolated process:\n" + "".join(traceback.format_exception(error)))
    frames = frames_of(error)  # a traceback does not travel
    with suppress(Exception):
        setattr(error, "author_frames", frames)  # noqa: B010 - any error, whatever its class
        data = pickle_value((False, error))
        if type(pickle.loads(data)[1]) is type(error):  # noqa: S301 - our own bytes: some errors only break when rebuilt
            return data
    instead = RuntimeError(f"{type(error).__name__}: {error}")
    setattr(instead, "author_frames", frames)  # noqa: B010 - as above
    return pickle_value((False, instead))
