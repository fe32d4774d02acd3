"""A shop's catalogue: change prices as the buyer says."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

CATALOGUE = {
    "lamp": {"cents": 2490, "stock": 14},
    "desk": {"cents": 18900, "stock": 3},
    "rug": {"cents": 7650, "stock": 8},
    "shelf": {"cents": 5425, "stock": 21},
}

env = Environment("catalogue", system="You keep the price list. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        item = sorted(CATALOGUE)[number % len(CATALOGUE)]
        percent = rng.randrange(11, 40)
        prompt = f"Raise the price of the {item} by {percent} percent, rounded down to whole cents."
        yield Task(f"price-{number}", prompt=prompt, key={"item": item, "cents": PRICES[item] * (100 + percent) // 100})


PRICES = {item: row["cents"] for item, row in CATALOGUE.items()}


@env.setup
def open_shop(world: World, task: Task) -> None:
    world.state = {"catalogue": copy.deepcopy(CATALOGUE)}


@env.tool
async def show_item(world: World, item: str) -> str:
    """Price and stock of an item."""
    row = found(world, item)
    return f"{item}: {row['cents']} cents, {row['stock']} in stock"


@env.tool
async def set_price(world: World, item: str, cents: int) -> str:
    """Put another price on an item."""
    if not 0 < cents < 10**7:
        raise ToolError("a price is between 1 and 9999999 cents")
    found(world, item)["cents"] = cents
    return f"{item} costs {cents} cents now."


def found(world: World, item: str) -> dict[str, int]:
    if item not in world.state["catalogue"]:
        raise ToolError(f"no item {item!r}; there are {', '.join(world.state['catalogue'])}")
    return world.state["catalogue"][item]


@env.check(points=1)
def price_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.state["catalogue"][task.key["item"]]["cents"] == task.key["cents"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("set_price", item=task.key["item"], cents=task.key["cents"])
    await agent.say("done")
