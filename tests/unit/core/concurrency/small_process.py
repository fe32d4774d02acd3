"""What is measured in a process that holds next to nothing: the tests' own takes half a second to collect and tens of
milliseconds to fork. `python small_process.py NAME` runs one function and prints what it found as JSON.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sandlot.core.concurrency import garbage


def found_by(name: str) -> Any:
    """What that function returns in a process of its own."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


class Kept:
    """Only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


class KeptFile(Kept):
    """So is its file closed."""

    def __init__(self) -> None:
        super().__init__()
        self.file = os.open("/dev/null", os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.file)


class HandLoop:
    """The timers of a loop, called by hand."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "HandLoop":
        del delay_s
        self.tick = callback
        return self

    def cancel(self) -> None:
        """The block ends here anyway."""


@contextmanager
def collected_by_hand() -> Iterator[Callable[[], None]]:
    """Paced collections, and a function that lets enough time pass for one look at the garbage."""
    loop = HandLoop()
    asyncio.get_running_loop = lambda: loop
    with garbage.paced_collections():
        yield lambda: [loop.tick() for _ in range(garbage.SAMPLED)]


def doubled() -> list[bool]:
    """Whether set-aside garbage is collected: where allocations, memory, open files have grown enough; and where by one less."""
    enough = [(garbage.MORE_BLOCKS, 0, 0), (0, garbage.MORE_BYTES, 0), (0, 0, 256)]
    collected = list[bool]()
    for held in (*enough, *([max(each - 1, 0) for each in held] for held in enough)):
        sizes = iter([garbage.Held(0, 0, 0, 1024)])
        garbage.held_now = lambda sizes=sizes, held=held: next(sizes, garbage.Held(*held, 1024))
        with collected_by_hand() as look:
            kept = weakref.ref(Kept())
            gc.freeze()  # as if it had lived for longer than a tick
            look()
            collected.append(kept() is None)
    return collected


def piles() -> list[int]:
    """Objects on the heap after each of twelve piles of 5,000 that were garbage as soon as they were whole."""
    start, held = sys.getallocatedblocks(), list[int]()
    garbage.MORE_BLOCKS = 5000
    garbage.held_now = lambda: garbage.Held(max(0, sys.getallocatedblocks() - start), 0, 0, 1024)
    with collected_by_hand() as look:
        for _ in range(12):
            piled = [Kept() for _ in range(5000)]
            gc.freeze()  # as if they had lived for longer than a tick
            held.append(sys.getallocatedblocks() - start)
            del piled
            look()
    return held


def files() -> list[int]:
    """Open files while 1,536 are opened that only garbage holds, where 256 are many."""
    garbage.MORE_FILES = 256
    before, held = garbage.held_now().num_files, list[int]()
    with collected_by_hand() as look:
        for _ in range(96):
            for _ in range(16):
                KeptFile()
            gc.freeze()
            held.append(garbage.held_now().num_files - before)
            look()
    return held


def calls_beside_busy_threads() -> list[int]:
    """The answers of more isolated calls than may run at once, beside threads that never rest."""
    import anyio

    from sandlot.core.concurrency import isolate

    stop, answers = threading.Event(), list[int]()

    def be_busy() -> None:
        while not stop.is_set():
            str(os.getpid())

    async def one(number: int) -> None:
        answers.append(await isolate.call(lambda: number * 2))

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(one, number)

    threads = [threading.Thread(target=be_busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        anyio.run(many)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]]()))
