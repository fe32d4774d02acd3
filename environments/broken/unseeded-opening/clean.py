"""A market stall: sell down to the reserve."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

FRUIT = ("apples", "figs", "plums", "pears")

env = Environment("stall", system="Look at the stock, then sell so that exactly the reserve is left. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        fruit, reserve = FRUIT[number % len(FRUIT)], rng.randrange(5, 30)
        yield Task(f"stall-{number}", prompt=f"Keep a reserve of {reserve} {fruit}.", key={"fruit": fruit, "reserve": reserve})


@env.setup
def lay_out(world: World, task: Task) -> None:
    world.state = {"stock": {fruit: world.rng.randrange(60, 200) for fruit in FRUIT}}


@env.tool
async def stock(world: World) -> dict[str, int]:
    """What is left of each fruit."""
    return world.state["stock"]


@env.tool
async def sell(world: World, fruit: str, pieces: int) -> str:
    """Sell pieces of a fruit."""
    if not 0 < pieces <= world.state["stock"].get(fruit, 0):
        raise ToolError(f"there are {world.state['stock'].get(fruit, 0)} {fruit}")
    world.state["stock"][fruit] -= pieces
    return f"Sold {pieces}."


@env.check(points=1)
def reserve_is_left(evidence: Evidence, task: Task) -> bool:
    return evidence.state["stock"][task.key["fruit"]] == task.key["reserve"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    left = (await agent.call("stock")).split(f'"{task.key["fruit"]}":')[1].split(",")[0].rstrip("}")
    await agent.call("sell", fruit=task.key["fruit"], pieces=int(left) - task.key["reserve"])
    await agent.say("done")
