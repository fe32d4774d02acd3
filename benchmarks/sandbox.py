"""Sandboxes: start, pooled start, exec, reset, fork, many held at once; next to Docker in the same run.

    python benchmarks/sandbox.py [--small] [--image FOLDER] [--docker own | none | SOCKET --docker-image IMAGE]

All limits are on (memory, processor, processes, disk, open files, system calls). Every figure is of one sandbox after another
unless it says otherwise. `mib_each` is the fall of MemAvailable with all of them held, so other work on the machine shows in it.
Docker is driven over its Engine API, without its command line; `over_docker` is our docker backend on the same engine. Human
lines go to stderr; the last line of stdout is JSON.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parent))

from report import Report, Row, publish, say

from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.backend import MachineBackend
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.quota import Quota

NAME = "sandbox"
TRUE = Command(argv=("true",))


def spread(times_s: list[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(times_s)
    return {"p50": round(statistics.median(ordered) * 1e3, 3), "p99": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3)}


async def timed(work: Callable[[], Any], into: list[float]) -> Any:
    started = time.perf_counter()
    done = await work()
    into.append(time.perf_counter() - started)
    return done


def cpu_s(backend: MachineBackend) -> float:
    """Ours and the zygote's, with every sandbox it has reaped."""
    fields = Path(f"/proc/{backend.machines.zygote.pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + sum(int(fields[at]) for at in range(11, 15)) / os.sysconf("SC_CLK_TCK")


def available_bytes() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


async def one_by_one(backend: MachineBackend, image: str, rounds: int) -> dict[str, Any]:
    start, run, reset, fork = [], [], [], []
    before, count = cpu_s(backend), 0
    for _ in range(rounds):
        async with AsyncExitStack() as stack:
            sandbox = await timed(lambda: stack.enter_async_context(backend.open(image)), start)
            count += 1
    await backend.settle(0)
    cpu_ms = (cpu_s(backend) - before) / count * 1e3
    for _ in range(rounds):
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(backend.open(image))
            for _ in range(5):
                await timed(partial(run_command, sandbox, TRUE), run)
        await backend.settle(0)  # Docker's remove waits too: what goes away must not be measured with what comes next
    for _ in range(rounds):
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(backend.open(image))
            await sandbox.write("/dirty", bytes(10 << 20))
            await timed(sandbox.reset, reset)
            await sandbox.write("/dirty", bytes(1 << 20))
            snapshot = await sandbox.freeze()
            await timed(partial(stack.enter_async_context, snapshot.fork()), fork)
            await timed(partial(stack.enter_async_context, snapshot.fork()), fork)
    times = {"start_ms": start, "exec_ms": run, "reset_ms": reset, "fork_ms": fork}
    return {name: spread(values) for name, values in times.items()} | {"cpu_ms_per_start": round(cpu_ms, 2)}


async def from_the_pool(image: str, rounds: int) -> dict[str, float]:
    pooled: list[float] = []
    async with open_native(pool=8) as backend:
        await backend.warm(image)
        for _ in range(rounds):
            async with AsyncExitStack() as stack:
                await timed(lambda: stack.enter_async_context(backend.open(image)), pooled)
                await backend.warm(image)
    return spread(pooled)


async def starts_per_s(backend: MachineBackend, image: str, count: int) -> float:
    async def one() -> None:
        async with slots, backend.open(image) as sandbox:
            await run_command(sandbox, TRUE)

    slots = anyio.CapacityLimiter(8)
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return count / (time.perf_counter() - started)


async def held(image: str, count: int) -> dict[str, Any]:
    times: list[float] = []
    async with open_native(quota=Quota()) as backend, AsyncExitStack() as stack:
        await stack.enter_async_context(backend.open(image))
        before, started = available_bytes(), time.perf_counter()
        sandboxes = [await stack.enter_async_context(backend.open(image)) for _ in range(count)]
        say(f"{count} held after {time.perf_counter() - started:.1f} s")
        each = (before - available_bytes()) / count / 2**20
        for sandbox in sandboxes:
            assert (await timed(partial(run_command, sandbox, TRUE), times)).code == 0
        closing = time.perf_counter()
        await stack.aclose()
        await backend.settle(0)
        say(f"{count} gone after {time.perf_counter() - closing:.1f} s")
    return {"held": count, "mib_each": round(each, 2), "held_exec_ms": spread(times)}


async def ours(image: str, *, small: bool) -> dict[str, Any]:
    rounds, count = (20, 100) if small else (200, 2000)
    async with open_native() as backend:
        async with backend.open(image) as sandbox:
            await run_command(sandbox, TRUE)
        result = await one_by_one(backend, image, rounds)
        result["starts_per_s"] = round(await starts_per_s(backend, image, rounds * 5), 1)
    result["pooled_ms"] = await from_the_pool(image, rounds)
    return result | await held(image, count)


class Engine:
    """A Docker engine by its socket."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("docker", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self._path)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"docker {method} {path}: {answer.status} {data[:300]!r}")
        return json.loads(data) if data[:1] in {b"{", b"["} else None


def docker(path: str, image: str, rounds: int) -> dict[str, Any]:
    """Create and start, exec, remove and start again: the same limits, the same `true`."""
    engine = Engine(path)
    limits = {"NetworkMode": "none", "Memory": Quota().memory_bytes, "PidsLimit": Quota().pids, "NanoCpus": 10**9}
    body = {"Image": image, "Cmd": ["sleep", "1000"], "HostConfig": limits}
    start, run, reset = [], [], []
    for _ in range(rounds):
        at = time.perf_counter()
        name = engine.ask("POST", "/containers/create", body)["Id"]
        engine.ask("POST", f"/containers/{name}/start")
        start.append(time.perf_counter() - at)
        for _ in range(3):
            at = time.perf_counter()
            command = engine.ask("POST", f"/containers/{name}/exec", {"Cmd": ["true"], "AttachStdout": True})["Id"]
            engine.ask("POST", f"/exec/{command}/start", {"Detach": False})
            run.append(time.perf_counter() - at)
        at = time.perf_counter()
        engine.ask("DELETE", f"/containers/{name}?force=true")
        reset.append(time.perf_counter() - at + start[-1])
    return {"start_ms": spread(start), "exec_ms": spread(run), "reset_ms": spread(reset)}


def ratios(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    pairs = {"start": ("start_ms", "start_ms"), "pooled": ("start_ms", "pooled_ms"), "exec": ("exec_ms", "exec_ms")}
    pairs["reset"] = ("reset_ms", "reset_ms")
    return {name: round(theirs[left]["p50"] / mine[right]["p50"], 1) for name, (left, right) in pairs.items()}


def rows(mine: dict[str, Any], peers: dict[str, dict[str, Any]]) -> list[Row]:
    targets = {"start_ms": "<= 6", "pooled_ms": "<= 1", "exec_ms": "<= 1", "reset_ms": "<= 8", "fork_ms": ""}
    lines = [
        Row(
            f"{name} p50, less is better",
            mine[name]["p50"],
            {peer: of[name]["p50"] for peer, of in peers.items() if name in of},
            target,
        )
        for name, target in targets.items()
    ]
    lines.append(Row("starts per second with one exec each, more is better", mine["starts_per_s"]))
    lines.append(Row("CPU ms per start and close, less is better", mine["cpu_ms_per_start"]))
    lines.append(Row("held at once", mine["held"], target=">= 2000"))
    lines.append(Row("MiB for each of them, less is better", mine["mib_each"], target="<= 2.5"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of everything; the table is left alone")
    parser.add_argument(
        "--image", default="host", help="what our sandboxes start from; for a fair exec, the files of Docker's image"
    )
    parser.add_argument(
        "--docker", default="own", help="`own` starts an engine (installed if there is none), `none` leaves it out; or a socket"
    )
    parser.add_argument("--docker-image", default="busybox", help="an image it has, with `sleep` and `true`")
    options = parser.parse_args()
    mine = anyio.run(lambda: ours(options.image, small=options.small))
    peers = {}
    if options.docker != "none":
        from docker_peer import engine, over_docker

        rounds = 5 if options.small else 20
        with engine(options.docker, options.docker_image) as (path, image):
            peers["docker"] = docker(path, image, rounds)
            mine["over_docker"] = anyio.run(over_docker, path, image, rounds)
    compared = ratios(mine, peers["docker"]) if peers else {}
    report = Report(NAME, ours=mine, peers=peers, ratios=compared, rows=rows(mine, peers))
    publish(report, write_table=not options.small)


if __name__ == "__main__":
    main()
