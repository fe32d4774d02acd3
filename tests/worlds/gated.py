"""An environment whose rollouts wait for a file: a test decides how far a live run gets. Task `fails` cannot be set up."""

import os
from pathlib import Path
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("gated", limits=Limits(turns=4, time_s=120.0))


@env.tasks
def tasks(rng: Random):
    for name in ("early", "late", "fails"):
        yield Task(name, prompt="Wait.", data={"name": name})


@env.setup
def prepare(world: World, task: Task) -> None:
    if task.id == "fails":
        raise RuntimeError("this task is broken")


@env.tool
async def wait(world: World, gate: str) -> str:
    """Wait until a file of this name is there."""
    while not (Path(os.environ["GATES"]) / gate).exists():  # noqa: ASYNC110 - another process makes it
        await anyio.sleep(0.02)
    return "open"


@env.check(points=1)
def waited(evidence: Evidence, task: Task) -> bool:
    return True


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("wait", gate=task.data["name"])
    await agent.say("done")
