"""Docker for the sandbox benchmark: an engine of our own to measure, and what the same engine does under our docker backend.

`--docker own`, the default, starts a `dockerd` in a temporary folder as the system tests do, with their image; it is gone
afterwards. A machine without one gets Debian's `docker.io` first.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes.docker_engine import IMAGE, running_engine
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.docker.backend import open_docker

TRUE = Command(argv=("true",))


@contextmanager
def engine(path: str, image: str) -> Generator[tuple[str, str]]:
    """The socket and image to measure: those given, or for `own` an engine made for the time of the measurement."""
    if path != "own":
        yield path, image
        return
    subprocess.run(["sh", str(Path(__file__).parents[1] / "tests" / "install" / "docker.sh")], check=True)
    with running_engine() as socket:
        yield socket, IMAGE


async def over_docker(path: str, image: str, rounds: int) -> dict[str, Any]:
    """p50 and p99 in milliseconds of Sandlot's docker backend: the engine starts, our agent does the rest."""
    times: dict[str, list[float]] = {name: [] for name in ("start", "exec", "reset", "fork", "close", "pooled")}

    async def timed(name: str, work: Any) -> Any:
        started = time.perf_counter()
        done = await work
        times[name].append(time.perf_counter() - started)
        return done

    async with open_docker(path) as backend:
        for _ in range(rounds):
            stack = AsyncExitStack()
            sandbox = await timed("start", stack.enter_async_context(backend.open(image)))
            for _ in range(10):
                await timed("exec", run_command(sandbox, TRUE))
            await sandbox.write("/dirty", bytes(1 << 20))
            await timed("reset", sandbox.reset())
            await sandbox.write("/dirty", bytes(1 << 20))
            snapshot = await sandbox.freeze()
            async with AsyncExitStack() as forks:
                await timed("fork", forks.enter_async_context(snapshot.fork()))
            await timed("close", stack.aclose())
    async with open_docker(path, pool=rounds) as backend:
        await backend.warm(image)
        async with AsyncExitStack() as stack:
            for _ in range(rounds):
                await timed("pooled", stack.enter_async_context(backend.open(image)))
    return {f"{name}_ms": _spread(values) for name, values in times.items()}


def _spread(times_s: list[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    return {"p50": round(statistics.median(ordered) * 1e3, 3), "p99": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3)}
