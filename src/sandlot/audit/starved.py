"""Time that code spent waiting for a busy processor. It does not count against a limit.

The kernel counts it per thread: the second number of `/proc/PID/task/TID/schedstat`. On kernels that do not, limits are
wall-clock times.
"""

import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import anyio
import msgspec
from anyio.abc import ByteReceiveStream

from sandlot.audit.subject import Lost, Trial
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.trace import Failed
from sandlot.core.types import End

_NANOSECONDS = 1e-9
_SLICES = 4
"""How often the waiting time is read before the patience is over."""
_STARVED = 0.2
"""A trial that waited this share of its time for a processor may have run out of time because of that."""
_LEAST_S = 0.1
"""Shorter waits are normal on any machine."""
ATTEMPTS = 3
BACKSTOP = 6.0
"""Maximum wall-clock time, as a multiple of the patience, however long a process waited for a processor."""

Waits = dict[tuple[int, int], float]
"""Seconds that each thread has waited for a processor, by process id and thread id."""


def waits_of(pids: Iterable[int]) -> Waits:
    """The waits of all threads of these processes; ended processes are left out."""
    found: Waits = {}
    for pid in pids:
        try:
            for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                found[pid, int(file.parent.name)] = int(file.read_text().split()[1]) * _NANOSECONDS
        except (OSError, ValueError, IndexError):
            continue
    return found


def longest_wait(before: Waits, after: Waits, most_s: float) -> float:
    """The longest wait of any thread between two readings, at most `most_s`."""
    longest = max((wait - before.get(thread, 0.0) for thread, wait in after.items()), default=0.0)
    return min(max(longest, 0.0), most_s)


def process_tree(pid: int) -> set[int]:
    """The ids of a process, its descendants, and all processes of the session it leads."""
    children: defaultdict[int, set[int]] = defaultdict(set)
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parent, session = int(fields[1]), int(fields[3])
        children[parent].add(int(folder.name))
        if session == pid:
            found.add(int(folder.name))
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting += children.pop(one, ())
    return found


async def take_measured(take: Callable[[], Awaitable[Trial]], *, may_run_out: bool = False) -> Trial:
    """Take a trial and measure how long this process waited for a processor. Repeat it if it ran out of time because of that.

    `may_run_out`: a fault was injected, and running out of time may be what a probe looks for.
    """
    starved_s = 0.0
    for _ in range(ATTEMPTS):
        before, begun = waits_of([os.getpid()]), SYSTEM_CLOCK.monotonic()
        trial = await take()
        wall_s = SYSTEM_CLOCK.monotonic() - begun
        starved_s = longest_wait(before, waits_of([os.getpid()]), wall_s)
        if may_run_out or not was_starved(trial, wall_s, starved_s):
            return msgspec.structs.replace(trial, seconds=wall_s - starved_s, starved_s=starved_s)
    why = f"it ran out of time {ATTEMPTS} times, and waited {starved_s:.0f} s of the last one for a processor"
    return Trial(lost=Lost(kind="skipped", message=f"{why}; audit again when the machine is less busy", busy=True))


def was_starved(trial: Trial, wall_s: float, starved_s: float) -> bool:
    """True if a trial ran out of time after waiting long for a processor: that says nothing about its code."""
    ended = trial.trace is not None and trial.trace.end is End.TIME_LIMIT
    ran_out = ended or any(isinstance(score, Failed) and score.kind == "timeout" for score in trial.scores)
    return ran_out and starved_s >= max(_STARVED * wall_s, _LEAST_S)


class SilenceTimer:
    """Times how long a worker is silent, without the time it waited for a processor."""

    def __init__(self, pid: int, patience_s: float) -> None:
        self._pid = pid
        self._patience_s = patience_s
        self._own_s = 0.0
        self._wall_s = 0.0
        self._waits: Waits = {}

    def reset(self, patience_s: float) -> None:
        """Start again after output, with this patience."""
        self._patience_s, self._own_s, self._wall_s = patience_s, 0.0, 0.0

    async def receive(self, stream: ByteReceiveStream, max_bytes: int) -> bytes:
        """The next output; `TimeoutError` when the patience is over."""
        while self._own_s < self._patience_s and self._wall_s < self._patience_s * BACKSTOP:
            begun = SYSTEM_CLOCK.monotonic()
            with anyio.move_on_after(self._patience_s / _SLICES):
                return await stream.receive(max_bytes)
            slice_s = SYSTEM_CLOCK.monotonic() - begun
            waits = waits_of(process_tree(self._pid))
            self._own_s += slice_s - longest_wait(self._waits, waits, slice_s)
            self._wall_s += slice_s
            self._waits = waits
        raise TimeoutError
