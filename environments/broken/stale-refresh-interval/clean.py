"""A warehouse with two places: see what is where, move units between them."""

import copy
from random import Random
from typing import Literal

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

ITEMS = ("anvil", "bellows", "chisel", "drill")
EVERY = 5

env = Environment("warehouse", system="You move stock between `store` and `shop`. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        levels = {item: {"store": rng.randrange(60, 99), "shop": rng.randrange(5, 20)} for item in ITEMS}
        item, wanted = rng.choice(ITEMS), rng.randrange(30, 50)
        key = {"item": item, "move": wanted - levels[item]["shop"], "wanted": wanted}
        yield Task(f"refill-{number}", prompt=f"Bring the shop's {item} up to {wanted} units.", data={"levels": levels}, key=key)


@env.setup
def stock_up(world: World, task: Task) -> None:
    world.state = {"levels": copy.deepcopy(task.data["levels"]), "reads": 0, "shown": {}}


@env.tool
async def levels(world: World, item: str) -> dict[str, int]:
    """How many units of an item are in each place."""
    require(world, item)
    world.state["reads"] += 1
    return world.state["levels"][item]


@env.tool
async def transfer(world: World, item: str, units: int, to: Literal["store", "shop"]) -> str:
    """Move units of an item to a place from the other one."""
    require(world, item)
    places = world.state["levels"][item]
    source = "shop" if to == "store" else "store"
    if not 0 < units <= places[source]:
        raise ToolError(f"{source} has {places[source]} of {item}; {units} cannot be moved")
    places[source] -= units
    places[to] += units
    return f"Moved {units}."


def require(world: World, item: str) -> None:
    if item not in world.state["levels"]:
        raise ToolError(f"no item {item!r}; there are {', '.join(ITEMS)}")


@env.check(points=1)
def shop_is_filled(evidence: Evidence, task: Task) -> bool:
    return evidence.state["levels"][task.key["item"]]["shop"] == task.key["wanted"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("transfer", item=task.key["item"], units=task.key["move"], to="shop")
    await agent.say("done")
