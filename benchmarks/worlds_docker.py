"""The same application in Docker, for the benchmark of worlds: the same files, the same first command, from nothing to its end.

The root of the environment's Debian image is imported into an engine of our own (see `docker_peer.py`). Then, in turns, a sandbox
is opened, runs the command and is closed, and `docker run --rm` does the same. Seconds are of the clock, medians: the engine's
processes do the work, and their CPU time cannot be told from outside.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sandlot
from fakes.docker_engine import IMAGE, docker
from sandlot.core.ports.sandbox import Command
from sandlot.env.image import image_of
from sandlot.sandbox.command import run_command
from sandlot.sandbox.images.spec import find_image
from sandlot.wiring.parts import open_backend

ROOT = Path(__file__).parents[1]
ROUNDS = 3


def first_command(env: str, argv: tuple[str, ...], socket: str) -> dict[str, float]:
    """Seconds from nothing to the end of the command in the environment's image: `ours` and `docker`."""
    spec = image_of(sandlot.load(ROOT / "environments" / env))
    return anyio.run(_in_turns, spec, argv, socket, _imported(spec, env, socket))


def _imported(spec: str, env: str, socket: str) -> str:
    """The name of a Docker image with the same files; `host` has the engine's own, of the same machine's packages."""
    if spec == "host":
        return IMAGE
    ((mountpoint, folders),) = find_image(spec).trees
    assert mountpoint == "/", mountpoint
    name = f"sandlot-{env}"
    packed = subprocess.Popen(["tar", "-C", str(folders[0]), "-c", "."], stdout=subprocess.PIPE)
    done = subprocess.run(["docker", "-H", f"unix://{socket}", "import", "-", name], stdin=packed.stdout, check=False)
    assert (packed.wait(), done.returncode) == (0, 0), f"the files of `{env}` cannot be imported into Docker"
    return name


async def _in_turns(spec: str, argv: tuple[str, ...], socket: str, image: str) -> dict[str, float]:
    times: dict[str, list[float]] = {"ours": [], "docker": []}
    async with open_backend() as backend:
        for _ in range(ROUNDS + 1):  # the first of each warms the caches
            started = time.perf_counter()
            async with backend.open(spec) as sandbox:
                done: Any = await run_command(sandbox, Command(argv=argv))
                assert done.code == 0, done
            times["ours"].append(time.perf_counter() - started)
            started = time.perf_counter()
            await anyio.to_thread.run_sync(lambda: docker(socket, "run", "--rm", "--network", "none", image, *argv))
            times["docker"].append(time.perf_counter() - started)
    return {name: round(statistics.median(values[1:]), 3) for name, values in times.items()}
