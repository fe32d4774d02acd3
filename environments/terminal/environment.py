"""Terminal: work an operator does at a shell, over real files, repositories, archives and processes.

The agent has `bash` and nothing else. What counts is what lies in the sandbox when it is done: results are compared with what the
generator knows, byte by byte or hash by hash. What the agent prints or claims is worth nothing, and spoiling inputs costs.
"""

from hashlib import sha256
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

from . import archives, history, logs, processes, tables, trees
from .history import SITE
from .repository import ref_hash
from .wanted import is_there, name_of

SYSTEM = """You are at the shell of a small Linux machine as root, without a network. Use `bash`; each call starts in `/` with a
fresh shell. Do exactly what is asked, put results where the task says, and change nothing else. Text results end in a newline;
`sorted` means in byte order (`LC_ALL=C`). When you are finished, say so in a sentence."""

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
}
EACH = 5

env = Environment(
    "terminal",
    description="Shell work over real files: logs, tables, git, archives, permissions, processes.",
    system=SYSTEM,
    image="host",
    seed=11,
    limits=Limits(turns=30, tool_s=30),
)


@env.tasks
def tasks(rng: Random):
    for kind, make in KINDS.items():
        for number in range(1, EACH + 1):
            yield make(Random(rng.getrandbits(64))).task(f"{kind}-{number}")


@env.setup
async def put_in_place(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(path, text)
    for path, archive in task.data["archives"].items():
        await world.write(path, archive)
    if task.data["script"]:
        await world.exec(task.data["script"], stdin=task.data["stdin"])


@env.check(points=6)
async def results_are_right(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of what was wanted that is there."""
    there = [await is_there(evidence, want) for want in task.key["wants"]]
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
    return files + [ref for ref, hashed in task.key["refs"].items() if ref_hash(evidence, SITE, ref) != hashed]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for command in task.key["solution"]:
        await agent.call("bash", command=command)
    await agent.say("Everything is in place.")
