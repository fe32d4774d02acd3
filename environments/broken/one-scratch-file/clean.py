"""Pick lists in a store room: fetch what the list says."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

PARTS = ("axle", "bearing", "cog", "dowel", "flange", "gasket")

env = Environment("store-room", system="Read the list, fetch every part in the number it says, and say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        wanted = {part: rng.randrange(2, 90) for part in rng.sample(PARTS, 3)}
        yield Task(f"list-{number}", prompt="Work the pick list.", data={"wanted": wanted}, key={"wanted": wanted})


@env.setup
def print_list(world: World, task: Task) -> None:
    world.state = {"fetched": {}}


@env.tool
async def read_list(world: World) -> dict[str, int]:
    """The list."""
    return world.task.data["wanted"]


@env.tool
async def fetch(world: World, part: str, pieces: int) -> str:
    """Fetch pieces of a part; the last number counts."""
    world.state["fetched"][part] = pieces
    return f"Fetched {pieces} {part}."


@env.check(points=1)
def list_is_worked(evidence: Evidence, task: Task) -> bool:
    return evidence.state["fetched"] == task.key["wanted"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for part, pieces in json.loads(await agent.call("read_list")).items():
        await agent.call("fetch", part=part, pieces=pieces)
    await agent.say("done")
