"""The worlds of work: what a cold start, a reset and a golden rollout of each cost, and what many of them at once need.

One row of `WORLDS` per environment; each figure is measured in a process of its own:

- cold start: load the environment, make its tasks, open the first world, until the opening messages are there;
- reset: another world of the same process, median;
- golden: one rollout of the golden solution, graded and stored, without the start (median over tasks);
- at once: so many worlds open at the same time; resident memory above the first world's, and CPU-seconds to open them all.

    python benchmarks/worlds.py                 all of them, and the table in README.md
    python benchmarks/worlds.py company         one, without writing the table
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from report import Report, Row, measure, publish, say

NAME = "worlds"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class WorldsRow:
    """One environment, and how many of its worlds are opened at once."""

    env: str
    at_once: int
    resets: int = 10
    goldens: int = 10
    target: str = ""


WORLDS = (
    WorldsRow("company", at_once=200, target="200 at once on 2 cores and 24 GiB"),
    WorldsRow("office", at_once=20, goldens=22),
    WorldsRow("desktop", at_once=10, goldens=15, target="10 at once on 2 cores"),
)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(WorldsRow(**json.loads(sys.argv[2])))
        return
    chosen = [row for row in WORLDS if row.env in sys.argv[1:]] or list(WORLDS)
    figures: dict[str, Any] = {}
    rows: list[Row] = []
    for row in chosen:
        done = measure([sys.executable, __file__, "--child", json.dumps(asdict(row))], cwd=ROOT, timeout_s=1800)
        found = figures[row.env] = json.loads(done.stdout.splitlines()[-1])
        say(f"{row.env}: {found}")
        rows += [
            Row(f"`{row.env}`: cold start, s (less is better)", found["cold_s"]),
            Row(f"`{row.env}`: reset, ms (less is better)", found["reset_ms"]),
            Row(f"`{row.env}`: golden rollout, CPU-s (less is better)", found["golden_cpu_s"]),
            Row(f"`{row.env}`: peak memory of one process with one world, MB (less is better)", found["one_mb"]),
            Row(f"`{row.env}`: {row.at_once} worlds at once, MB (less is better)", found["many_mb"], target=row.target),
            Row(f"`{row.env}`: opening {row.at_once} worlds, CPU-s (less is better)", found["many_cpu_s"]),
        ]
    publish(Report(NAME, ours=figures, peers={}, ratios={}, rows=rows), write_table=len(chosen) == len(WORLDS))


def child(row: WorldsRow) -> None:
    """Measure one environment in this process; print one JSON object."""
    started = time.monotonic()
    import anyio

    import sandlot

    env = sandlot.load(ROOT / "environments" / row.env)
    tasks = sandlot.tasks_of(env)
    found = anyio.run(_opened, env, tasks, row, started)
    with tempfile.TemporaryDirectory() as folder:
        chosen = tuple(task.id for task in tasks[:: max(1, len(tasks) // row.goldens)])
        used = _cpu_s()
        golden = sandlot.run(env, "scripted:golden", tasks=chosen, runs=Path(folder))
        found["golden_cpu_s"] = round((_cpu_s() - used) / len(chosen), 3)
        found["golden_mean"] = statistics.mean(trace.reward for trace in golden)
    print(json.dumps(found))


async def _opened(env: Any, tasks: list[Any], row: WorldsRow, started: float) -> dict[str, Any]:
    from sandlot.env.session import open_session
    from sandlot.wiring.parts import open_backend

    async with AsyncExitStack() as kept:
        backend = await kept.enter_async_context(open_backend()) if env.image else None

        async def opened(index: int, stack: AsyncExitStack) -> None:
            session = await stack.enter_async_context(open_session(env, tasks[index % len(tasks)], backend=backend))
            await session.reset()

        await opened(0, kept)
        found: dict[str, Any] = {"tasks": len(tasks), "cold_s": round(time.monotonic() - started, 3)}
        found["one_mb"] = round(_resident_mb(), 1)
        times = []
        for index in range(1, row.resets + 1):
            begin = time.monotonic()
            async with AsyncExitStack() as short:
                await opened(index, short)
                times.append(time.monotonic() - begin)
        found["reset_ms"] = round(statistics.median(times) * 1000, 2)
        before_mb, before_s = _resident_mb(), _cpu_s()
        async with AsyncExitStack() as many:
            for index in range(row.at_once):
                await opened(index, many)
            found["many_mb"] = round(_resident_mb() - before_mb, 1)
            found["many_cpu_s"] = round(_cpu_s() - before_s, 3)
        return found


def _cpu_s() -> float:
    """Processor time of this process, of those it started, and of those that have ended."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    for pid in _started():
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:  # it ended meanwhile
            continue
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def _resident_mb() -> float:
    """Resident memory of this process and those it started."""
    pages = 0
    for pid in [os.getpid(), *_started()]:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:  # it ended meanwhile
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _started() -> list[int]:
    """The processes below this one that are alive."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            children = [
                int(word) for thread in Path(f"/proc/{pid}/task").iterdir() for word in (thread / "children").read_text().split()
            ]
        except OSError:  # it ended meanwhile
            continue
        found += children
        waiting += children
    return found


if __name__ == "__main__":
    main()
