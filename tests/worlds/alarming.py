"""An environment in which rollouts of three tasks fail, and one rollout blocks the event loop: alert rules fire on it."""

import os
import time
from pathlib import Path
from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("alarming", limits=Limits(turns=4, time_s=120.0))
_BLOCKED: list[str] = []


@env.tasks
def tasks(rng: Random):
    for number in range(10):
        yield Task(f"t{number}", prompt="Work.", data={"name": f"t{number}"})


@env.setup
async def prepare(world: World, task: Task) -> None:
    if task.id in {"t0", "t1", "t2"}:
        await _gate()
        raise RuntimeError("this task is broken")


async def _gate() -> None:
    """Wait until the test has opened the gate: what happens before the first scrape is not seen."""
    while not (Path(os.environ["GATES"]) / "scraped").exists():  # noqa: ASYNC110 - another process opens the gate
        await anyio.sleep(0.05)


@env.tool
async def work(world: World, name: str) -> str:
    """Work for a moment."""
    await _gate()
    if name == "t7" and not _BLOCKED:
        _BLOCKED.append(name)
        time.sleep(2)  # noqa: ASYNC251 - what the rule is about
    await anyio.sleep(0.1)  # some 40 rollouts a second are enough, and more would keep a processor busy
    return "done"


@env.check(points=1)
def worked(evidence: Evidence, task: Task) -> bool:
    return True


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("work", name=task.data["name"])
    await agent.say("done")
