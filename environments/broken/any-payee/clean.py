"""A cash desk: pay what is asked, to whom it is owed."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

NAMES = ("Ayo", "Berit", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hiro")

env = Environment("cash-desk", system="Carry out the payment with `pay`, in cents, and say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        who, cents = NAMES[number], rng.randrange(1000, 90000)
        yield Task(f"pay-{number}", prompt=f"Pay {cents} cents to {who}.", key={"who": who, "cents": cents})


@env.setup
def open_book(world: World, task: Task) -> None:
    world.state = {"paid": []}


@env.tool
async def pay(world: World, who: str, cents: int) -> str:
    """Pay somebody."""
    if who not in NAMES or not 0 < cents < 10**6:
        raise ToolError(f"payments are between 1 cent and 9,999.99 to one of {', '.join(NAMES)}")
    world.state["paid"].append([who, cents])
    return f"Paid {cents} to {who}."


@env.check(points=1)
def paid_as_asked(evidence: Evidence, task: Task) -> bool:
    return evidence.state["paid"] == [[task.key["who"], task.key["cents"]]]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("pay", who=task.key["who"], cents=task.key["cents"])
    await agent.say("done")
