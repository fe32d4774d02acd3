"""Runs what somebody else wrote, for whoever holds the other end of the wire: `python sandlot_serve.py`.

The foreign code is imported once, here, and called in children forked from that moment, so that every batch begins as if nothing
had been called before. A child that hangs or dies is ended with all it started, the request it was at is told to be lost, and
the next child goes on with the rest. Nothing that foreign code prints, closes or leaves behind reaches the wire: that is a
private descriptor which children do not have. Frames are four bytes of length and JSON, both ways.
"""

from __future__ import annotations

import contextlib
import ctypes
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

HEAD = struct.Struct("<I")
MAX_FRAME = 1 << 20
"""Of an answer; what is longer is no answer."""
SWEEP_S = 5.0
BACKSTOP = 6
"""A request may take this many times its limit on the wall clock, however long it waited for a processor."""
FIRST_FD = 200
"""Private descriptors are far from those that careless code closes by counting."""


def main() -> None:
    """Load what is asked for, then answer batches until the wire closes."""
    reading, writing = _private(0), _private(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _become_reaper()
    spec = read_frame(reading)
    if spec is None:
        return
    write_frame(writing, load_spec(spec))
    while True:
        batch = read_frame(reading)
        if batch is None:
            return
        _Batch(batch, (reading, writing), confined=spec["confined"]).run()
        write_frame(writing, {"done": True})


CALLS: list[Callable[[dict[str, Any]], dict[str, Any]]] = []
"""What a child does with a request; set when the foreign code was loaded."""


def load_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Import the foreign code under the conditions asked for, and say what it is."""
    try:
        here = str(Path(__file__).resolve().parent)
        sys.path[:0] = [here]
        importlib.import_module("sandlot_surroundings").apply_conditions(spec["conditions"])
        module = importlib.import_module(spec["program"])
        sys.path[:] = [*spec["path"], *(folder for folder in sys.path if folder != here)]  # theirs first, and none of ours
        call, facts = module.load(spec)
    except Unloadable as error:
        return {"failed": str(error)[-4000:]}
    except BaseException as error:  # noqa: BLE001 - whatever it raises, exits included, is the answer
        return {"failed": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-4000:]}
    CALLS.append(call)
    return {"ready": facts}


# -- frames --------------------------------------------------------------------------------------------------------------------


def read_frame(fd: int) -> dict[str, Any] | None:
    """The next frame; None at the end."""
    head = _read(fd, HEAD.size)
    body = _read(fd, HEAD.unpack(head)[0]) if head else None
    return json.loads(body) if body is not None else None


def write_frame(fd: int, record: dict[str, Any]) -> None:
    """One frame, whole."""
    body = json.dumps(record).encode()
    data = memoryview(HEAD.pack(len(body)) + body)
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
    import fcntl  # noqa: PLC0415 - once

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)


# -- batches: in the parent ----------------------------------------------------------------------------------------------------


class _Batch:
    """Requests on their way through children."""

    def __init__(self, batch: dict[str, Any], private: tuple[int, int], *, confined: bool) -> None:
        self.batch = batch
        self.private = private
        self.writing = private[1]
        self.confined = confined
        self.pending = list(range(len(batch["requests"])))
        self.begun: list[int] = []

    def run(self) -> None:
        """Answer every request once: with what came of it, or that it was lost."""
        while self.pending:
            take = self.pending[:1] if self.batch["alone"] else list(self.pending)
            self.begun = []
            fate = self.child(take)
            sweep(confined=self.confined)
            left = [index for index in take if index in self.pending]
            if left and fate is not None:
                lost = next((index for index in self.begun if index in self.pending), left[0])
                self.answer({"index": lost, "lost": fate[0], "message": fate[1]})

    def answer(self, record: dict[str, Any]) -> None:
        """Pass one answer on, if somebody waits for it."""
        if record.get("index") in self.pending:
            self.pending.remove(record["index"])
            write_frame(self.writing, record)

    def child(self, take: list[int]) -> tuple[str, str] | None:
        """Fork, relay what the child says, and how it ended if that was not as it should."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            run_child(self.batch, take, writing, (*self.private, reading))
        os.close(writing)
        try:
            said = self.relay(reading, pid)
        finally:
            os.close(reading)
        if said == "hung":
            kill(-1 if self.confined else pid)
            os.waitpid(pid, 0)
            return "hung", f"no answer within {self.batch['trial_s']:g} s"
        kill(pid)  # it has said all it will: what is left of it only lingers
        status = os.waitpid(pid, 0)[1]
        return None if said == "ended" else ("died", fate_of(status, said))

    def relay(self, reading: int, pid: int) -> str:
        """`ended` when the child said its last frame; `hung`, `gone` or `garbled` if it did not.

        A child hangs when it says nothing for `trial_s`. Time in which it waited for a busy processor does not count.
        """
        data = bytearray()
        trial_s = self.batch["trial_s"]
        silent_since, waited_before = time.monotonic(), seconds_waited(pid)
        while True:
            grace_s = min(seconds_waited(pid) - waited_before, trial_s * (BACKSTOP - 1))
            left = silent_since + trial_s + grace_s - time.monotonic()
            if left <= 0:
                return "hung"
            if not select.select([reading], [], [], left)[0]:
                continue
            piece = os.read(reading, 1 << 16)
            if not piece:
                return "gone"
            data += piece
            while len(data) >= HEAD.size and len(data) >= HEAD.size + HEAD.unpack_from(data)[0]:
                size = HEAD.unpack_from(data)[0]
                try:
                    record = json.loads(bytes(data[HEAD.size : HEAD.size + size]))
                    over = self.take_frame(record)
                except (ValueError, TypeError, KeyError):
                    return "garbled"
                del data[: HEAD.size + size]
                silent_since, waited_before = time.monotonic(), seconds_waited(pid)
                if over:
                    return "ended"
            if len(data) >= HEAD.size and HEAD.unpack_from(data)[0] > MAX_FRAME:
                return "garbled"

    def take_frame(self, record: dict[str, Any]) -> bool:
        """One frame of a child; True for its last."""
        if "begun" in record:
            self.begun.append(record["begun"])
        elif "index" in record:
            self.answer(record)
        return bool(record.get("ended"))


def fate_of(status: int, said: str) -> str:
    """How a child ended, in words."""
    if said == "garbled":
        return "its process wrote garbage over the answer"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"it left its process with exit code {os.WEXITSTATUS(status)}"


def kill(pid: int) -> None:
    """End a process; one that is gone already is no news."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def sweep(*, confined: bool) -> None:
    """End whatever children left behind: it has become ours. If it is too many for us we end: whoever holds us starts anew."""
    limit = time.monotonic() + SWEEP_S
    while True:
        if confined:  # in a sandbox everybody but process 1 and us: the kernel does it in one go, which no fork escapes
            kill(-1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = leftovers(confined=confined)
        if not left:
            return
        for pid in left:
            kill(pid)
        if time.monotonic() > limit:
            os._exit(70)


def leftovers(*, confined: bool) -> list[int]:
    """Processes whose parent we are; in a sandbox all there are, since some may be dying before they become ours."""
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are numbers
        if not name.isdigit() or int(name) in {1, os.getpid()}:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - no pathlib for a process that may be gone
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if confined or parent == os.getpid():
            found.append(int(name))
    return found


def _become_reaper() -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us, where they are found
    prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


# -- batches: in a child -------------------------------------------------------------------------------------------------------


THREAD_BYTES = 160 << 20
"""Addresses a thread reserves without using them: a stack, and an arena of the C library."""


def run_child(batch: dict[str, Any], take: list[int], writing: int, closed: tuple[int, ...]) -> None:
    """Take the requests one after another, or some beside each other; never returns."""
    try:
        for fd in closed:
            os.close(fd)
        os.setsid()
        os.nice(5)  # the parent must get its turn, however many there are of us
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        sys.stdin, sys.stdout, sys.stderr = (open(null, mode, closefd=False) for mode in ("r", "w", "w"))  # noqa: SIM115
        limit_memory(batch["memory_bytes"] + (batch["at_once"] - 1) * THREAD_BYTES)
        lock = threading.Lock()

        def say(record: dict[str, Any]) -> None:
            with lock:
                write_frame(writing, record)

        def one(index: int) -> None:
            say({"begun": index})
            say(take_one(batch, index))

        if batch["at_once"] > 1:
            with ThreadPoolExecutor(batch["at_once"]) as pool:
                list(pool.map(one, take))
        else:
            for index in take:
                one(index)
        say({"ended": True})
    except BaseException:  # noqa: BLE001 - nobody is left to tell; the parent sees that the last word is missing
        os._exit(71)
    os._exit(0)


def take_one(batch: dict[str, Any], index: int) -> dict[str, Any]:
    """One request, and what came of it."""
    if batch["random_seed"] is not None:
        sys.modules["sandlot_surroundings"].seed_generators(batch["random_seed"] + index)
    start = time.perf_counter()
    results = CALLS[0](batch["requests"][index])
    seconds = time.perf_counter() - start
    return {
        "index": index,
        "results": results,
        "seconds": seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


def seconds_waited(pid: int) -> float:
    """Seconds that the busiest thread of a process has waited for a processor; 0 where the kernel does not tell."""
    found = [0.0]
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            found.append(int(file.read_text().split()[1]) / 1e9)
    return max(found)


def limit_memory(memory_bytes: int) -> None:
    """So much more than it has now: asking for more is refused."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - one line of the kernel's
        size = int(statm.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = size + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
