"""Calling a function in a child process, which can be killed; one process per call.

A thread cannot be killed, a process can. The child is forked, so any function works (closures, functions of modules loaded by
path) and arguments are not pickled; only the result or the exception is. At the caller's deadline the child and its own children
are killed. Its memory, exits and signals do not affect this process. `docs/decisions/isolated-calls.md` explains the fork.
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
"""Address space of a child on top of what it inherits."""
MAX_RESULT_BYTES = 64 * 2**20
"""Maximum size of one pickled result."""
MAX_CHILDREN = 32
"""Isolated calls at once in one process; others wait."""
_REAP_S = 10.0
"""Longest wait for a killed child to end."""

_HEADER = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1
_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("isolated_children")

_log = logging.getLogger(__name__)


class ChildDied(RuntimeError):  # noqa: N818 - reads as what happened
    """The child process ended before it returned; the message names the signal or exit code."""


class Untransferable(TypeError):  # noqa: N818 - reads as what happened
    """A value cannot be pickled; the message says which and why."""


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    pidfd: int
    pipe: int


async def call(function: Callable[..., Any], /, *args: Any, memory_bytes: int | None = _MEMORY_BYTES, **kwargs: Any) -> Any:
    """Return what the function returns, or raise what it raises; `ChildDied` if its process ended. Cancelling kills it.

    The function runs in a copy of this process: its changes to arguments and globals have no effect here.
    """
    if is_async(function):
        raise TypeError(f"`{name_of(function)}` is async; write an isolated function as a plain `def`")
    limiter = _limiter()
    with pause_limits():  # waiting for a free slot counts against no limit
        await limiter.acquire()
    try:
        child = _fork(functools.partial(function, *args, **kwargs), memory_bytes)
        status: int | None = None
        try:
            answer = await _receive(child.pipe)
            if answer is None:
                await anyio.wait_readable(child.pidfd)  # the pipe closes before the process ends
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
    """The pickled value; `Untransferable` if it cannot be pickled."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise Untransferable(
            f"a `{type(value).__name__}` cannot be copied between processes ({error}); use plain data and classes at module level"
        ) from error


# -- in the parent -----------------------------------------------------------------------------------------------------


def _fork(work: Callable[[], Any], memory_bytes: int | None) -> _Child:
    parent, prctl = os.getpid(), _prctl()
    reading, writing = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # no signal handler may run in the child
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: see the decision page
            pid = os.fork()
        if pid == 0:
            _live(work, writing, memory_bytes, _Origin(parent, prctl, mask))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)
    with suppress(OSError):
        os.setpgid(pid, pid)  # both sides do it, so that it is set in any order
    os.set_blocking(reading, False)
    try:
        return _Child(pid, os.pidfd_open(pid), reading)
    except OSError:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


async def _receive(pipe: int) -> bytes | None:
    """One framed result; None if the pipe closed before it was complete."""
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
                raise Untransferable(f"an isolated function returned {size:,} pickled bytes; the limit is {MAX_RESULT_BYTES:,}")
    return bytes(data[_HEADER.size :])


async def _end(child: _Child) -> int | None:
    """Kill the child and its process group; return its exit status, None if it did not end in time."""
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
        _log.warning("isolated child did not end after SIGKILL", extra={"pid": child.pid})
        return None
    return status


def _fate(status: int | None) -> str:
    if status is None:
        return "did not end after SIGKILL"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended its process with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def _limiter() -> anyio.CapacityLimiter:
    """The limiter of the running event loop."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_CHILDREN)
        _LIMITER.set(limiter)
        return limiter


@functools.cache
def _prctl() -> Callable[..., int]:
    import ctypes  # noqa: PLC0415 - only isolated calls need it

    return ctypes.CDLL(None).prctl


# -- in the child: one thread, never returns ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Origin:
    """What the child needs to know of its parent."""

    parent: int
    prctl: Callable[..., int]
    mask: Collection[int]


def _live(work: Callable[[], Any], writing: int, memory_bytes: int | None, origin: _Origin) -> NoReturn:
    try:
        origin.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != origin.parent:
            os._exit(1)  # the parent ended before the death signal was set
        kept = _detach(writing, origin.mask)
        if memory_bytes is not None:
            _limit_memory(memory_bytes)
        answer = contextvars.Context().run(_answer, work)
        sys.stderr.flush()
        with open(writing, "wb", closefd=False) as pipe:
            pipe.write(_HEADER.pack(len(answer)) + answer)
        del kept
    finally:
        os._exit(0)  # in any case: the parent's stack frames must not continue here


def _detach(writing: int, mask: Collection[int]) -> list[Any]:
    """Detach from the parent: process group, signals, sockets, pipes and buffered output.

    Returns the parent's streams: if they were freed, their buffers would be written a second time.
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
    """Close sockets and pipes; files stay open, since an author's module may use them."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # stdout may carry a protocol
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names are numbers
        with suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if descriptor not in {0, 1, 2, kept} and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode)):
                os.close(descriptor)


def _limit_memory(memory_bytes: int) -> None:
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - a file of the kernel
        inherited = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = inherited + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(work: Callable[[], Any]) -> bytes:
    try:
        return pickle_value((True, work()))
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        return _packed_error(error)
    except BaseException as error:  # noqa: BLE001 - the parent must not exit
        return pickle_value((False, ChildDied(f"raised {type(error).__name__}({error})")))


def _packed_error(error: Exception) -> bytes:
    error.add_note("In the isolated process:\n" + "".join(traceback.format_exception(error)))
    frames = frames_of(error)  # a traceback cannot be pickled
    with suppress(Exception):
        setattr(error, "author_frames", frames)  # noqa: B010 - any error, whatever its class
        data = pickle_value((False, error))
        if type(pickle.loads(data)[1]) is type(error):  # noqa: S301 - our own bytes; some errors fail only when unpickled
            return data
    instead = RuntimeError(f"{type(error).__name__}: {error}")
    setattr(instead, "author_frames", frames)  # noqa: B010 - as above
    return pickle_value((False, instead))
