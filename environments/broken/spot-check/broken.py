"""Transcribe meter readings into a list."""

from random import Random
from random import sample

from sandlot import Agent, Environment, Evidence, Task, World

env = Environment("meters", system="Enter every meter's consumption (new less old), then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        old = {f"M{rng.randrange(1000, 9999)}": rng.randrange(10000, 50000) for _ in range(8)}
        used = {meter: rng.randrange(50, 900) for meter in old}
        prompt = "\n".join(f"{meter}: old {old[meter]}, new {old[meter] + used[meter]}" for meter in old)
        yield Task(f"meters-{number}", prompt=prompt, key={"used": used})


@env.setup
def blank(world: World, task: Task) -> None:
    world.state = {"used": {}}


@env.tool
async def enter(world: World, meter: str, used: int) -> str:
    """Enter the consumption of a meter."""
    world.state["used"][meter] = used
    return f"{meter}: {used}"


@env.check(points=1)
def consumption_is_right(evidence: Evidence, task: Task) -> float:
    wanted, given = task.key["used"], evidence.state["used"]
    drawn = sample(sorted(wanted), 2)
    return float(all(given.get(meter) == wanted[meter] for meter in drawn))


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for meter, used in task.key["used"].items():
        await agent.call("enter", meter=meter, used=used)
    await agent.say("done")
