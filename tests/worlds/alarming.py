"""An environment in which rollouts of three tasks fail, and one rollout blocks the event loop: alert rules fire on it."""

import os
import time
from pathlib import Path
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("alarming", on_crash="fail", limits=Limits(turns=4, time_s=120.0))
_BLOCKED: list[str] = []


@env.tasks
def tasks(rng: Random):
    for number in range(10):
        yield Task(f"t{number}", prompt="Work.", data={"name": f"t{number}"})


@env.tool
async def work(world: World, name: str) -> str:
    """Work for a moment, once the test has opened the gate: what happens before the first scrape is not seen."""
    while not (Path(os.environ["GATES"]) / "scraped").exists():  # noqa: ASYNC110 - another process opens the gate
        await anyio.sleep(0.05)
    if name == "t7" and not _BLOCKED:
        _BLOCKED.append(name)
        time.sleep(2)  # noqa: ASYNC251 - what the rule is about
    await anyio.sleep(0.02)
    if name in {"t0", "t1", "t2"}:
        raise RuntimeError("this tool is broken")
    return "done"


@env.check(points=1)
def worked(evidence: Evidence, task: Task) -> bool:
    return True


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("work", name=task.data["name"])
    await agent.say("done")
