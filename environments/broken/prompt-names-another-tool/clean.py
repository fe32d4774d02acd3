"""A lost-property office: find the owner and hand the thing back."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

THINGS = ("umbrella", "violin", "scarf", "camera", "kite", "helmet")

SYSTEM = "Look things up with `find_item` and hand them back with `hand_over`. Say `done` when finished."
env = Environment("lost-property", system=SYSTEM)


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        shelf = {thing: {"tag": f"LP{rng.randrange(1000, 9999)}", "owner": ""} for thing in THINGS}
        owner = f"{rng.choice(('Berg', 'Costa', 'Dahl', 'Ito'))} {rng.randrange(10, 99)}"
        prompt = f"{owner} has come for a {THINGS[number]}. Hand it over, by its tag."
        key = {"thing": THINGS[number], "tag": shelf[THINGS[number]]["tag"], "owner": owner}
        yield Task(f"visit-{number}", prompt=prompt, data={"shelf": shelf}, key=key)


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"shelf": copy.deepcopy(task.data["shelf"])}


@env.tool
async def find_item(world: World, thing: str) -> str:
    """The tag of a thing on the shelf."""
    if thing not in world.state["shelf"]:
        raise ToolError(f"there is no {thing!r} on the shelf")
    return world.state["shelf"][thing]["tag"]


@env.tool
async def hand_over(world: World, tag: str, owner: str) -> str:
    """Give the thing with this tag to its owner."""
    for thing, row in world.state["shelf"].items():
        if row["tag"] == tag:
            row["owner"] = owner
            return f"{thing} went to {owner}."
    raise ToolError(f"no tag {tag!r}")


@env.check(points=1)
def owner_has_it(evidence: Evidence, task: Task) -> bool:
    return evidence.state["shelf"][task.key["thing"]]["owner"].strip() == task.key["owner"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("hand_over", tag=task.key["tag"], owner=task.key["owner"])
    await agent.say("done")
