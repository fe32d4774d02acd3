"""The worlds of work: what a cold start, a reset and a golden rollout of each cost, and what many of them at once need.

One row of `WORLDS` per environment; each figure is measured in a process of its own:

- cold start: load the environment, make its tasks, open the first world, until the opening messages are there;
- reset: another world of the same process, median;
- golden: one rollout of the golden solution, graded and stored, without the start (mean over tasks);
- at once: so many worlds open at the same time; memory above the first world's, and CPU-seconds to open them all;
- first command: the same application started in a sandbox and in Docker (`worlds_docker.py`), where there is an image.

Memory is proportional (PSS) of this process and all that it started: what several share counts once. A world of `browser` has its
browser running with an empty page; `benchmarks/browsers.py` measures browsers that show one.

    python benchmarks/worlds.py                 all of them, and the table in README.md
    python benchmarks/worlds.py company         one, without writing the table
    python benchmarks/worlds.py --docker none   without Docker
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from report import Report, Row, machine, measure, publish, say

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
    what: str = ""
    """What the first command in a sandbox of its image does; empty if there is no image."""
    argv: tuple[str, ...] = ()


_CONVERT = "echo 1,2 > /tmp/a.csv && soffice --headless --convert-to xlsx --outdir /tmp /tmp/a.csv && test -s /tmp/a.xlsx"
_OPEN = """
import os, subprocess, time, Xlib.display, Xlib.error
os.environ |= {"HOME": "/tmp", "DISPLAY": ":9", "NO_AT_BRIDGE": "1"}
started = [subprocess.Popen(["Xvfb", ":9", "-screen", "0", "1024x768x24", "-nolisten", "tcp"], stderr=subprocess.DEVNULL)]
while not os.path.exists("/tmp/.X11-unix/X9"):
    time.sleep(0.01)
started += [subprocess.Popen(each, stderr=subprocess.DEVNULL) for each in (["openbox"], ["dbus-run-session", "mousepad"])]
root = Xlib.display.Display().screen().root
def is_open(window):
    try:
        return "Mousepad" in str(window.get_wm_name()) or any(map(is_open, window.query_tree().children))
    except Xlib.error.XError:  # the window is gone already
        return False
while not is_open(root):
    time.sleep(0.02)
for each in started:
    each.kill()
"""
_SHOW = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom")
WORLDS = (
    WorldsRow("company", at_once=200, target="200 at once on 2 cores and 24 GiB"),
    WorldsRow(
        "office",
        at_once=20,
        goldens=11,
        what="LibreOffice converts a file",
        argv=("env", "HOME=/tmp", "sh", "-c", _CONVERT),
    ),
    WorldsRow(
        "desktop",
        at_once=10,
        goldens=15,
        target="10 at once on 2 cores",
        what="X server and window manager, until an editor shows its window",
        argv=("timeout", "120", "python3", "-c", _OPEN),
    ),
    WorldsRow(
        "browser",
        at_once=20,
        goldens=7,
        target="20 at once on 2 cores and 24 GiB",
        what="Chromium shows a page",
        argv=(*_SHOW, "data:text/html,<p>hello</p>"),
    ),
    WorldsRow("proofs", at_once=20, goldens=5, what="`coqc --version`", argv=("coqc", "--version")),
    WorldsRow("terminal", at_once=20, what="`sh -c true`", argv=("sh", "-c", "true")),
)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(WorldsRow(**json.loads(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="*", help="only these, without writing the table")
    parser.add_argument("--docker", default="own", choices=["own", "none"], help="`own` starts an engine (installed if need be)")
    asked = parser.parse_args()
    unknown = {*asked.env} - {row.env for row in WORLDS}
    if unknown:
        parser.error(f"no such environment: {', '.join(sorted(unknown))}; there are {', '.join(row.env for row in WORLDS)}")
    chosen = [row for row in WORLDS if not asked.env or row.env in asked.env]
    where, figures = machine(), dict[str, Any]()
    for row in chosen:
        done = measure([sys.executable, __file__, "--child", json.dumps(asdict(row))], cwd=ROOT, timeout_s=1800)
        figures[row.env] = json.loads(done.stdout.splitlines()[-1])
        say(f"{row.env}: {figures[row.env]}")
    first = in_docker(chosen) if asked.docker == "own" and any(row.what for row in chosen) else {}
    rows = [line for row in chosen for line in rows_of(row, figures[row.env], first.get(row.env))]
    peers = {"docker": {env: {"first_command_s": found["docker"]} for env, found in first.items()}}
    ratios = {f"{env}, first command": round(found["docker"] / found["ours"], 2) for env, found in first.items()}
    for env, found in first.items():
        figures[env]["first_command_s"] = found["ours"]
    whole = not asked.env and bool(first)
    publish(Report(NAME, ours=figures, peers=peers, ratios=ratios, rows=rows, machine=where), write_table=whole)


def rows_of(row: WorldsRow, found: dict[str, Any], first: dict[str, float] | None) -> list[Row]:
    name = f"`{row.env}`"
    rows = [
        Row(f"{name}: tasks", found["tasks"]),
        Row(f"{name}: cold start, s (less is better)", found["cold_s"]),
        Row(f"{name}: reset, ms (less is better)", found["reset_ms"]),
        Row(f"{name}: golden rollout, CPU-s (less is better)", found["golden_cpu_s"]),
        Row(f"{name}: memory of one process with one world, MB (less is better)", found["one_mb"]),
        Row(f"{name}: {row.at_once} worlds at once, MB (less is better)", found["many_mb"], target=row.target),
        Row(f"{name}: opening {row.at_once} worlds, CPU-s (less is better)", found["many_cpu_s"]),
    ]
    if first is not None:
        what = f"{name}: {row.what}, from nothing, s (less is better)"
        rows.append(Row(what, first["ours"], {"Docker": first["docker"]}))
    return rows


def in_docker(worlds: Sequence[WorldsRow]) -> dict[str, dict[str, float]]:
    """Seconds of the first command of each that has an image, ours and Docker's."""
    from docker_peer import engine
    from worlds_docker import first_command

    found: dict[str, dict[str, float]] = {}
    with engine("own", "") as (socket, _image):
        for row in worlds:
            if row.what:
                found[row.env] = first_command(row.env, row.argv, socket)
                say(f"{row.env}: first command {found[row.env]}")
    return found


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
        golden = sandlot.run(env, "scripted:golden", tasks=chosen, runs=Path(folder), at_once=2)
        found["golden_cpu_s"] = round((_cpu_s() - used) / len(chosen), 3)
        found["golden_mean"] = statistics.mean(trace.reward or 0.0 for trace in golden)
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
        found["one_mb"] = round(_memory_mb(), 1)
        times = []
        for index in range(1, row.resets + 1):
            begin = time.monotonic()
            async with AsyncExitStack() as short:
                await opened(index, short)
                times.append(time.monotonic() - begin)
        found["reset_ms"] = round(statistics.median(times) * 1000, 2)
        before_mb, before_s = _memory_mb(), _cpu_s()
        async with AsyncExitStack() as many:
            for index in range(row.at_once):
                await opened(index, many)
            found["many_mb"] = round(_memory_mb() - before_mb, 1)
            found["many_cpu_s"] = round(_cpu_s() - before_s, 3)
        return found


def _cpu_s() -> float:
    """CPU-seconds so far of this process and all that it started, ended ones included."""
    ticks = sum(int(word) for pid in _processes() for word in _read(f"{pid}/stat").rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory_mb() -> float:
    """Proportional memory of this process and those it started."""
    found = [re.search(r"^Pss: +(\d+) kB", _read(f"{pid}/smaps_rollup"), re.MULTILINE) for pid in _processes()]
    return sum(int(each[1]) for each in found if each) * 1024 / 1e6


def _processes() -> list[int]:
    """This process and those below it."""
    found = [os.getpid()]
    for pid in found:
        for thread in _names(f"{pid}/task"):
            found += [int(word) for word in _read(f"{pid}/task/{thread}/children").split()]
    return found


def _names(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(f"/proc/{folder}").iterdir()]
    except OSError:  # the process ended meanwhile
        return []


def _read(file: str) -> str:
    try:
        return Path(f"/proc/{file}").read_text()
    except OSError:  # as above
        return ""


if __name__ == "__main__":
    main()
