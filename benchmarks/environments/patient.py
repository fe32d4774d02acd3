"""An environment whose tools wait, so that a run of thousands of rollouts lasts long enough to be looked at."""

from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("patient", limits=Limits(turns=6, time_s=120.0))


@env.tasks
def tasks(_rng: Random):
    for number in range(64):
        yield Task(f"t{number}", prompt="Wait three times.")


@env.tool
async def wait(world: World) -> str:  # noqa: ARG001 - the shape of every tool
    """Wait for a moment."""
    await anyio.sleep(1.0)
    return "waited"


@env.check(points=1)
def waited(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
    return evidence.answer == "done"


@env.solution
async def solve(agent: Agent, task: Task) -> None:  # noqa: ARG001 - the shape of every solution
    for _ in range(3):
        await agent.call("wait")
    await agent.say("done")
