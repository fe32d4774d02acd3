"""A cash book: enter today's takings after counting the drawer."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

COINS = (1, 2, 5, 10, 20, 50, 100, 200)

env = Environment("cash-book", system="Count the drawer, enter the sum in cents, and say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        drawer = {str(coin): rng.randrange(3, 60) for coin in COINS}
        prompt = "In the drawer: " + ", ".join(f"{count} coins of {coin} cents" for coin, count in drawer.items()) + "."
        yield Task(f"drawer-{number}", prompt=prompt, key={"cents": sum(int(coin) * count for coin, count in drawer.items())})


@env.setup
def open_book(world: World, task: Task) -> None:
    world.state = {"entries": []}


@env.tool
async def enter(world: World, cents: int) -> str:
    """Enter an amount into the cash book; the last entry counts."""
    if not 0 < cents < 10**9:
        raise ToolError("an amount is between 1 and 999999999 cents")
    world.state["entries"].append(cents)
    return f"Entered {cents}."


@env.check(points=1)
def takings_are_right(evidence: Evidence, task: Task) -> bool:
    return evidence.state["entries"][-1] == task.key["cents"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("enter", cents=task.key["cents"])
    await agent.say("done")
