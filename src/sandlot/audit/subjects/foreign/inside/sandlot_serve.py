"""Runs foreign code on request: `python sandlot_serve.py`, with frames on standard input and output.

The foreign code is imported once, here, and called in forked children, so every batch starts from the same state. A child that
hangs or dies is killed with everything it started, the current request is reported as lost, and a new child continues with the
rest. Foreign code cannot reach the frames: they use a private descriptor that children do not have. A frame is four bytes of
length and JSON, in both directions.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import resource
import select
import signal
import struct
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandlot_naming import Unloadable

_HEAD = struct.Struct("<I")
_MAX_FRAME = 1 << 20
"""Maximum length of an answer."""
_SWEEP_S = 5.0
_BACKSTOP = 6
"""Maximum wall-clock time of a request, as a multiple of its limit, however long it waited for a processor."""
_FIRST_FD = 200
"""Private descriptors have high numbers, which careless code does not close."""


def main() -> None:
    """Load the foreign code, then answer batches until the input closes."""
    reading, writing = _private(0), _private(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _become_reaper()
    spec = _read_frame(reading)
    if spec is None:
        return
    _write_frame(writing, _load_spec(spec))
    while True:
        batch = _read_frame(reading)
        if batch is None:
            return
        _Batch(batch, (reading, writing), confined=spec["confined"]).run()
        _write_frame(writing, {"done": True})


_CALLS: list[Callable[[dict[str, Any]], dict[str, Any]]] = []
"""The function that handles a request; set when the foreign code is loaded."""


def _load_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Apply the conditions, import the foreign code, and return its facts."""
    try:
        here = str(Path(__file__).resolve().parent)
        sys.path[:0] = [here]
        importlib.import_module("sandlot_surroundings").apply_conditions(spec["conditions"])
        module = importlib.import_module(spec["program"])
        importlib.import_module("sandlot_naming").stand_in(spec.get("stand_ins", ()))
        sys.path[:] = [*spec["path"], *(folder for folder in sys.path if folder != here)]  # foreign folders first, and not ours
        call, facts = module.load(spec)
    except Unloadable as error:
        return {"failed": str(error)[-4000:]}
    except BaseException as error:  # noqa: BLE001 - any error, `SystemExit` included, is the answer
        return {"failed": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-4000:]}
    _CALLS.append(call)
    return {"ready": facts}


# -- frames --------------------------------------------------------------------------------------------------------------------


def _read_frame(fd: int) -> dict[str, Any] | None:
    """The next frame; None at the end."""
    head = _read(fd, _HEAD.size)
    body = _read(fd, _HEAD.unpack(head)[0]) if head else None
    return json.loads(body) if body is not None else None


def _write_frame(fd: int, record: dict[str, Any]) -> None:
    """Write one frame."""
    body = json.dumps(record).encode()
    data = memoryview(_HEAD.pack(len(body)) + body)
    while data:
        data = data[os.write(fd, data) :]


def _read(fd: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = os.read(fd, min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _private(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD)


# -- batches: in the parent ----------------------------------------------------------------------------------------------------


class _Batch:
    """One batch of requests, handled by children."""

    def __init__(self, batch: dict[str, Any], private: tuple[int, int], *, confined: bool) -> None:
        self.batch = batch
        self.private = private
        self.writing = private[1]
        self.confined = confined
        self.pending = list(range(len(batch["requests"])))
        self.begun: list[int] = []

    def run(self) -> None:
        """Answer every request once: with its result, or that it was lost."""
        while self.pending:
            take = self.pending[:1] if self.batch["alone"] else list(self.pending)
            self.begun = []
            fate = self.child(take)
            _sweep(confined=self.confined)
            left = [index for index in take if index in self.pending]
            if left and fate is not None:
                lost = next((index for index in self.begun if index in self.pending), left[0])
                self.answer({"index": lost, "lost": fate[0], "message": fate[1]})

    def answer(self, record: dict[str, Any]) -> None:
        """Pass on an answer, unless the request is answered already."""
        if record.get("index") in self.pending:
            self.pending.remove(record["index"])
            _write_frame(self.writing, record)

    def child(self, take: list[int]) -> tuple[str, str] | None:
        """Fork a child, pass on its answers, and return how it ended if it did not end normally."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _run_child(self.batch, take, writing, (*self.private, reading))
        os.close(writing)
        try:
            said = self.relay(reading, pid)
        finally:
            os.close(reading)
        if said == "hung":
            _kill(-1 if self.confined else pid)
            os.waitpid(pid, 0)
            return "hung", f"no answer within {self.batch['trial_s']:g} s"
        _kill(pid)  # it sent its last frame: nothing more is needed from it
        status = os.waitpid(pid, 0)[1]
        return None if said == "ended" else ("died", _fate_of(status, said))

    def relay(self, reading: int, pid: int) -> str:
        """Pass on answers. `ended` after the child's last frame; else `hung`, `gone` or `garbled`.

        A child hangs if it writes nothing for `trial_s`. Time that it waited for a busy processor does not count.
        """
        data = bytearray()
        trial_s = self.batch["trial_s"]
        silent_since, waited_before = time.monotonic(), _seconds_waited(pid)
        while True:
            grace_s = min(_seconds_waited(pid) - waited_before, trial_s * (_BACKSTOP - 1))
            left = silent_since + trial_s + grace_s - time.monotonic()
            if left <= 0:
                return "hung"
            if not select.select([reading], [], [], left)[0]:
                continue
            piece = os.read(reading, 1 << 16)
            if not piece:
                return "gone"
            data += piece
            while len(data) >= _HEAD.size and len(data) >= _HEAD.size + _HEAD.unpack_from(data)[0]:
                size = _HEAD.unpack_from(data)[0]
                try:
                    record = json.loads(bytes(data[_HEAD.size : _HEAD.size + size]))
                    over = self.take_frame(record)
                except (ValueError, TypeError, KeyError):
                    return "garbled"
                del data[: _HEAD.size + size]
                silent_since, waited_before = time.monotonic(), _seconds_waited(pid)
                if over:
                    return "ended"
            if len(data) >= _HEAD.size and _HEAD.unpack_from(data)[0] > _MAX_FRAME:
                return "garbled"

    def take_frame(self, record: dict[str, Any]) -> bool:
        """Handle one frame of a child; True if it is the last."""
        if "begun" in record:
            self.begun.append(record["begun"])
        elif "index" in record:
            self.answer(record)
        return bool(record.get("ended"))


def _fate_of(status: int, said: str) -> str:
    """How a child ended, as text."""
    if said == "garbled":
        return "its process wrote garbage over the answer"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"it left its process with exit code {os.WEXITSTATUS(status)}"


def _kill(pid: int) -> None:
    """Kill a process, if it still exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _sweep(*, confined: bool) -> None:
    """Kill the processes that children left behind. If that takes too long, exit: the auditor starts a new program."""
    limit = time.monotonic() + _SWEEP_S
    while True:
        if confined:  # in a sandbox: all processes but process 1 and this one, at once, so no fork escapes
            _kill(-1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = _leftovers(confined=confined)
        if not left:
            return
        for pid in left:
            _kill(pid)
        if time.monotonic() > limit:
            os._exit(70)


def _leftovers(*, confined: bool) -> list[int]:
    """Children of this process; in a sandbox all processes, since orphans may not be our children yet."""
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are numbers
        if not name.isdigit() or int(name) in {1, os.getpid()}:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - the process may have ended
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if confined or parent == os.getpid():
            found.append(int(name))
    return found


def _become_reaper() -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become our children
    prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


# -- batches: in a child -------------------------------------------------------------------------------------------------------


_THREAD_BYTES = 160 << 20
"""Address space that a thread reserves: a stack, and an arena of the C library."""


def _run_child(batch: dict[str, Any], take: list[int], writing: int, closed: tuple[int, ...]) -> None:
    """Handle requests one after another, or some in parallel; never returns."""
    try:
        for fd in closed:
            os.close(fd)
        os.setsid()
        os.nice(5)  # the parent must get processor time too
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        sys.stdin, sys.stdout, sys.stderr = (open(null, mode, closefd=False) for mode in ("r", "w", "w"))  # noqa: SIM115
        _limit_memory(batch["memory_bytes"] + (batch["at_once"] - 1) * _THREAD_BYTES)
        if batch.get("watched"):
            sys.modules["sandlot_surroundings"].watch_for(batch["watched"])
        lock = threading.Lock()

        def say(record: dict[str, Any]) -> None:
            with lock:
                _write_frame(writing, record)

        def one(index: int) -> None:
            say({"begun": index})
            say(_take_one(batch, index))

        if batch["at_once"] > 1:
            with ThreadPoolExecutor(batch["at_once"]) as pool:
                list(pool.map(one, take))
        else:
            for index in take:
                one(index)
        say({"ended": True})
    except BaseException:  # noqa: BLE001 - the parent sees that the last frame is missing
        os._exit(71)
    os._exit(0)


def _take_one(batch: dict[str, Any], index: int) -> dict[str, Any]:
    """Handle one request, and measure it."""
    if batch["random_seed"] is not None:
        sys.modules["sandlot_surroundings"].seed_generators(batch["random_seed"] + index)
    start = time.perf_counter()
    results = _CALLS[0](batch["requests"][index])
    seconds = time.perf_counter() - start
    word = batch.get("watched")
    did: list[str] = sys.modules["sandlot_surroundings"].take_noted(word) if word else []
    return {"index": index, "results": results, "seconds": seconds, "did": did}


def _seconds_waited(pid: int) -> float:
    """The longest wait of any thread of a process for a processor, in seconds; 0 if the kernel does not count it."""
    found = [0.0]
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            found.append(int(file.read_text().split()[1]) / 1e9)
    return max(found)


def _limit_memory(memory_bytes: int) -> None:
    """Limit the address space to the current size plus `memory_bytes`."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - one line from the kernel
        size = int(statm.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = size + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
