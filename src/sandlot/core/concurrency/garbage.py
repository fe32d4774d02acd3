"""Garbage collection for a process that holds thousands of rollouts.

Python's collector stops every thread while it looks at the new objects. Python decides when by a count of objects made less
objects freed. Rollouts that wait free objects of earlier turns all the time, so this count stays low while hundreds of thousands
of new objects pile up, and then the loop stops for half a second. Almost none of them is garbage: what a rollout makes is freed
without the collector.

So the clock decides here. Twenty times a second the new objects are set aside (`gc.freeze`), which costs nothing. One time in ten
they are looked at first; where that finds garbage, as of an author's code that makes cycles, they are looked at every time.
All objects are looked at when Python's allocations, memory or the number of open files have doubled: each alone misses garbage.
Memory that was freed often stays with the process, so it shows no second pile of garbage that is as large as the first;
allocations do not show large arrays; and files weigh nothing. For files, only growth counts that is much of what the process may
open: thousands of rollouts have thousands of connections.
"""

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

EVERY_S = 0.05
"""Seconds after which new objects are set aside."""
SAMPLED = 10
"""New objects are looked at one time in so many, while there is hardly any garbage."""
FOUND = 100
"""Objects of garbage in one look, from which on new objects are looked at every time."""
THRESHOLDS = (100_000, 1_000_000, 1_000_000)
"""As of `gc.set_threshold`: new objects are collected without the clock too, if a thread makes many while the loop is blocked."""
MORE_BLOCKS = 4_000_000
"""Allocations must also have grown by this many, some 400 MB, for a collection of all objects: it may then take a second."""
MORE_BYTES = 512 * 2**20
"""The same for memory."""
MORE_FILES = 16_384
"""The same for open files, or a quarter of the files that the process may open, if that is fewer."""
_STATM = Path("/proc/self/statm")
_OPEN_FILES = Path("/proc/self/fd")

_num_open = 0
_before: tuple[int, int, int] = (0, 0, 0)
_froze = False


@contextmanager
def paced_collections() -> Generator[None]:
    """Collect garbage by the clock of the running loop until the block ends; the last of several blocks restores what was set."""
    pace = _Pace(asyncio.get_running_loop())
    with _settings():
        pace.start()
        try:
            yield
        finally:
            pace.stop()


def resident_bytes() -> int:
    """Memory of this process; 0 where the kernel does not say, so that it never grows."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def num_open_files() -> int:
    """Open files of this process; 0 where the kernel does not say."""
    try:
        return _OPEN_FILES.stat().st_size or sum(1 for _ in _OPEN_FILES.iterdir())  # before Linux 6.2 it does not say
    except OSError:
        return 0


class Held(NamedTuple):
    """What this process holds."""

    num_blocks: int
    """Allocations of Python's objects (`sys.getallocatedblocks`)."""
    num_bytes: int
    num_files: int
    max_files: int
    """Files that it may have open."""


def held_now() -> Held:
    """Allocations, memory and open files of this process."""
    return Held(sys.getallocatedblocks(), resident_bytes(), num_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def must_collect_all(now: Held, after_last: Held) -> bool:
    """Whether one has doubled since the last collection of all objects, so that its cost is small beside what made them."""
    many_files = min(MORE_FILES, now.max_files // 4) if now.max_files > 0 else MORE_FILES  # -1 for no limit
    pairs = zip(now[:3], after_last[:3], (MORE_BLOCKS, MORE_BYTES, many_files), strict=True)
    return any(held - before >= max(before, least) for held, before, least in pairs)


class _Pace:
    """A timer on the loop that sets new objects aside or collects their garbage."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._after_last = held_now()
        self._num_unseen = 0

    def start(self) -> None:
        self._timer = self._loop.call_later(EVERY_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._num_unseen += 1
        if self._num_unseen >= SAMPLED:
            self._look()
        _freeze()
        self.start()

    def _look(self) -> None:
        if must_collect_all(held_now(), self._after_last):
            _unfreeze()
            found = gc.collect()
            self._after_last = held_now()
        else:
            found = gc.collect(0)
        self._num_unseen = 0 if found < FOUND else SAMPLED


def _freeze() -> None:
    if _froze:
        gc.freeze()


def _unfreeze() -> None:
    if _froze:
        gc.unfreeze()


@contextmanager
def _settings() -> Generator[None]:
    global _num_open, _before, _froze  # noqa: PLW0603 - the collector is one for the whole process
    _num_open += 1
    if _num_open == 1:
        _before = gc.get_threshold()
        _froze = not gc.get_freeze_count()  # a program that froze objects of its own keeps them so, and only them
        _freeze()
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        _num_open -= 1
        if _num_open == 0:
            _unfreeze()
            gc.set_threshold(*_before)
