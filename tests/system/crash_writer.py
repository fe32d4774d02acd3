"""A run that keeps traces and blobs as fast as it can, until it is killed. What it acknowledges it writes to a file."""

import os
import sys
import traceback
from pathlib import Path

import anyio

from builders.traces import make_row, make_trace
from sandlot.core.types import digest
from sandlot.store.directory import open_run
from sandlot.store.traces import Sealing

AT_ONCE = 8
SEALING = Sealing(traces=25)


def blob_for(rollout: int) -> bytes:
    """Every third blob has been kept before, some are large enough for a file of their own."""
    size = 1_100_000 if rollout % 40 == 0 else 20 + rollout % 3000
    return (b"%d " % (rollout - rollout % 3)) * (size // 4)


def trace_for(rollout: int):
    return make_trace(f"t{rollout % 5}", rollout, text=f"answer {rollout}", blob=digest(blob_for(rollout)))


def key_for(rollout: int) -> tuple[str, int]:
    return f"t{rollout % 5}", rollout


def write_until_killed(path: str, acknowledgements: str) -> None:
    anyio.run(_write, Path(path), acknowledgements)


async def _write(path: Path, acknowledgements: str) -> None:
    told = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with open_run(path, manifest=b'{"format": 1}', sealing=SEALING) as run:
        done = run.done_keys()
        numbers = iter(number for number in range(10**9) if key_for(number) not in done)

        async def keep() -> None:
            for rollout in numbers:
                trace = trace_for(rollout)
                await run.blobs.put(blob_for(rollout))
                await run.add(trace, make_row(trace))
                os.write(told, b"%d\n" % rollout)

        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(keep)


def nursery() -> None:
    """Fork a writer for each line `PATH ACKNOWLEDGEMENTS`, say its pid, and how it ended. Forking saves each its imports."""
    __import__("pyarrow.parquet")
    for line in sys.stdin:
        path, acknowledgements = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                write_until_killed(path, acknowledgements)
            finally:
                traceback.print_exc()
                os._exit(3)
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    nursery()
