"""Take an order at a counter, line by line."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

MENU = ("espresso", "mocha", "latte", "chai", "matcha")

env = Environment("counter", system=f"Take the whole order. The menu: {', '.join(MENU)}. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        order = {drink: rng.randrange(1, 20) for drink in rng.sample(MENU, 3)}
        prompt = "The guest wants " + ", ".join(f"{count} {drink}" for drink, count in order.items()) + "."
        yield Task(f"guest-{number}", prompt=prompt, key={"order": order})


@env.setup
def take_pad(world: World, task: Task) -> None:
    world.state = {}


@env.tool
async def add(world: World, drink: str, cups: int) -> str:
    """Put a drink on the order."""
    if drink not in MENU or not 0 < cups < 1000:
        raise ToolError("give a drink from the menu and 1 to 999 cups")
    world.state[drink] = cups
    return f"The order: {world.state}"


@env.check(points=1)
def order_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.state == task.key["order"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for drink, cups in task.key["order"].items():
        await agent.call("add", drink=drink, cups=cups)
    await agent.say("done")
