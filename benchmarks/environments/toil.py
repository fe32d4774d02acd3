"""Rollouts of one tool call that do nothing, compute for a while, or wait for a while: what an executor adds to each."""

from collections.abc import Iterator
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("toil", description="Do one thing, then say so.", limits=Limits(turns=4))
WAIT_S = 0.2
STEPS = 400_000


@env.tasks
def tasks(_rng: Random) -> Iterator[Task]:
    for kind in ("nothing", "compute", "wait"):
        yield Task(id=kind, prompt=f"Call the tool `toil` with {kind}, then say done.", data={"kind": kind})


@env.tool
async def toil(world: World, kind: str) -> str:  # noqa: ARG001 - the shape of every tool
    """Do nothing, compute or wait."""
    if kind == "wait":
        await anyio.sleep(WAIT_S)
    elif kind == "compute":  # tens of milliseconds that hold the interpreter, as an author's own Python does
        value = 1
        for _ in range(STEPS):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF
    return "done"


@env.check(points=1)
def says_done(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
    return evidence.answer == "done"


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("toil", kind=task.data["kind"])
    await agent.say("done")
