"""Terminal: work an operator does at a shell, over real files, repositories, archives and processes.

The agent has `bash` and `terminal`. What counts is what lies in the sandbox when it is done: results are compared with what the
generator knows, byte by byte or hash by hash. What the agent prints or claims is worth nothing, and spoiling inputs costs.
"""

import re
from contextlib import suppress
from functools import cache
from hashlib import sha256
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

from . import (
    archives,
    branches,
    consoles,
    databases,
    history,
    incidents,
    logs,
    networks,
    processes,
    records,
    scripting,
    services,
    tables,
    trees,
)
from .history import SITE
from .repository import ref_hash
from .wanted import is_there, name_of, settled

SYSTEM = """You are at the shell of a small Linux machine as root, without a network. `bash` runs one command; each call starts
in `/` with a fresh shell. `terminal` is a terminal that stays open, for programs that need one. Do exactly what is asked, put
results where the task says, and change nothing else. Text results end in a newline; `sorted` means in byte order (`LC_ALL=C`).
When you are finished, say so in a sentence."""

KINDS = {
    "logs": logs.busiest_clients,
    "tables": tables.paid_by_country,
    "recover": history.lost_branch,
    "culprit": history.first_bad_commit,
    "merge": history.conflicting_settings,
    "backups": archives.newest_intact,
    "release": archives.safe_release,
    "processes": processes.running_workers,
    "duplicates": trees.same_content,
    "break-in": incidents.break_in,
    "disk": incidents.deleted_files,
    "runaway": incidents.runaway_worker,
    "slow": incidents.slow_requests,
    "settings": services.broken_settings,
    "service": services.supervised_service,
    "crontab": services.written_crontab,
    "schedule": services.read_crontabs,
    "database": databases.hire_report,
    "migrate": databases.split_phones,
    "rotate": scripting.rotating_script,
    "quoting": scripting.careless_script,
    "package": scripting.zip_application,
    "tidy": branches.tidied_branch,
    "backport": branches.backported_fixes,
    "leak": branches.leaked_key,
    "encodings": records.mixed_encodings,
    "nested": records.nested_archives,
    "accounts": records.merged_accounts,
    "routes": networks.routed_packets,
    "zones": networks.disagreeing_zones,
    "switch": consoles.switch_change,
    "installer": consoles.guided_install,
    "viewer": consoles.hidden_log,
    "desk": consoles.account_desk,
    "peer": consoles.second_machine,
}
EACH = 5

env = Environment(
    "terminal",
    description="Shell work over real files: logs, git, archives, services, databases, incidents, consoles of other machines.",
    system=SYSTEM,
    image="host",
    tools=["bash", "terminal"],
    seed=11,
    limits=Limits(turns=60, tool_s=60),
)


@env.tasks
def tasks(rng: Random):
    for kind in KINDS:
        for number in range(1, EACH + 1):
            yield make_task(rng.getrandbits(64), kind, number)


@cache
def make_task(seed: int, kind: str, number: int) -> Task:
    return KINDS[kind](Random(seed)).task(f"{kind}-{number}")


@env.setup
async def put_in_place(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(path, text)
    for path, archive in task.data["archives"].items():
        await world.write(path, archive)
    if task.data["script"]:
        await world.exec(task.data["script"], stdin=task.data["stdin"])
    while "port" in task.data:
        try:
            await (await world.connect(task.data["port"])).aclose()
            break
        except OSError:
            await anyio.sleep(0.02)


ANSWERING_S, LONGEST_ANSWER = 20, 10_000


@env.finish
async def look_around(world: World, task: Task) -> None:
    """What only a running machine shows: what the watcher saw, and whether a port is open."""
    if "word" in task.data:
        world.state["watched"] = await watcher_answer(world, task)
    if "closed" in task.data:
        with suppress(OSError):
            await (await world.connect(task.data["closed"])).aclose()
            world.state["open"] = f"port {task.data['closed']}"


async def watcher_answer(world: World, task: Task) -> str:
    """What the watcher says; empty if the agent ended it."""
    answer = b""
    with anyio.move_on_after(ANSWERING_S), suppress(OSError):
        stream = await world.connect(task.data["port"])
        await stream.send(task.data["word"].encode())
        while len(answer) < LONGEST_ANSWER and (more := await stream.receive()):
            answer += more
    return answer.decode(errors="replace")


@env.check(points=6)
async def results_are_right(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of what was wanted that is there."""
    ran: dict[str, list[str]] = {}
    there = [await is_there(evidence, want, ran) for want in task.key["wants"]]
    if "executable" in task.key and not settled(evidence.state.get("watched", ""), task.key["executable"]):
        return 0.0, "the file is not executable, or the watcher cannot tell"
    words = [f"{name_of(want)}: {'right' if met else 'not right'}" for want, met in zip(task.key["wants"], there, strict=True)]
    return sum(there) / len(there), ", ".join(words)


@env.check(points=4, requires=("results_are_right",))
def the_job_is_done(evidence: Evidence, task: Task) -> bool:
    """Everything wanted is there, and nothing was spoiled on the way."""
    return not spoiled(evidence, task)


@env.check(points=-4)
def inputs_were_spoiled(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """Something nobody asked to touch is changed or gone."""
    return bool(spoiled(evidence, task)), ", ".join(spoiled(evidence, task)) or "none"


def spoiled(evidence: Evidence, task: Task) -> list[str]:
    files = [
        path
        for path, digest in task.key["kept"].items()
        if not evidence.exists(path) or sha256(evidence.read(path)).hexdigest() != digest
    ]
    changed = evidence.diff() if task.key.get("same") else {}
    files += [path for path in task.key.get("same", ()) if path in changed]
    if "lasting" in task.key and not settled(evidence.state.get("watched", ""), task.key["lasting"]):
        files.append("a program that had to go on, or the watcher")
    files += [evidence.state["open"]] if "open" in evidence.state else []  # asked to leave nothing running there
    return files + [ref for ref, hashed in task.key["refs"].items() if ref_hash(evidence, SITE, ref) != hashed]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    screens: list[str] = []
    for step in task.key["solution"]:
        if isinstance(step, str):
            await agent.call("bash", command=step)
        elif "write_from_screens" in step:
            for path, patterns in step["write_from_screens"].items():
                text = "\n".join(read_off(screens, pattern) for pattern in patterns)
                await agent.call("bash", command=f"mkdir -p /out; cat > {path} <<'END'\n{text}\nEND")
        else:
            screens.append(await agent.call("terminal", **step))
    await agent.say("Everything is in place.")


def read_off(screens: list[str], pattern: str) -> str:
    """What stands in the newest screen that has it."""
    return next((found[1] for screen in reversed(screens) if (found := re.search(pattern, screen, re.MULTILINE))), "")
