"""Browsers open at once, each with a page of the environment `browser`: seconds until all show it, memory, what is left behind.
Other browsers that start on the machine meanwhile are counted too.

`python benchmarks/browsers.py 20` prints one JSON object.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio

import sandlot
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native

_PROGRAM = b"chromium-headless-shell"


def browsers() -> set[int]:
    """The processes of all browsers on this machine."""
    found: set[int] = set()
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and _PROGRAM in (place / "cmdline").read_bytes():
                found.add(int(place.name))
        except OSError:
            continue
    return found


def memory_kb(process: int) -> int:
    """Proportional memory of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{process}/smaps_rollup").read_text().split("Pss:")[1].split()[0])
    except OSError:
        return 0


async def measure(count: int) -> dict[str, Any]:
    env = sandlot.load("browser")
    tasks = sandlot.tasks_of(env)
    before, opened, shown = browsers(), list[float](), list[float]()
    mine, used_mb = set[int](), 0.0
    all_shown, leave = anyio.Event(), anyio.Event()
    call = ToolCall(id="1", name="browser_navigate", arguments={"url": "http://shop.example/search"})

    async with open_native() as backend, anyio.create_task_group() as group:

        async def one(task: sandlot.Task) -> None:
            started = time.monotonic()
            async with open_session(env, task, backend=backend, keep_time=False) as session:
                await session.reset()
                opened.append(time.monotonic() - started)
                await session.step(Message(role=Role.ASSISTANT, parts=(call,)))
                shown.append(time.monotonic() - started)
                if len(shown) == count:
                    all_shown.set()
                await leave.wait()

        for task in tasks[:count]:
            group.start_soon(one, task)
        await all_shown.wait()
        mine = browsers() - before
        used_mb = sum(map(memory_kb, mine)) / 1024
        leave.set()
    return {
        "browsers": count,
        "open_s_p50": round(sorted(opened)[count // 2], 2),
        "all_show_a_page_s": round(max(shown), 2),
        "processes": len(mine),
        "pss_mb": round(used_mb),
        "pss_mb_each": round(used_mb / count),
        "left_behind": len((browsers() - before) & mine),
    }


print(json.dumps(anyio.run(measure, int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
