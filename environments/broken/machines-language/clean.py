"""A price board: read one price."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

GOODS = ("brush", "easel", "canvas", "palette", "primer", "varnish", "frame", "chalk")

env = Environment("price-board", system="Reply with the price in euros alone, as it stands on the board.")


@env.tasks
def tasks(rng: Random):
    for number, good in enumerate(GOODS):
        cents = {each: rng.randrange(101, 9999) for each in GOODS}
        yield Task(f"price-{number}", prompt=f"What does a {good} cost?", data={"cents": cents}, key={"cents": cents[good]})


def written(cents: int) -> str:
    return f"{cents / 100:.2f}"


@env.tool
async def board(world: World, good: str) -> str:
    """The price of one thing."""
    if good not in world.task.data["cents"]:
        raise ToolError(f"{good!r} is not on the board")
    return f"{good}: {written(world.task.data['cents'][good])}"


@env.check(points=1)
def price_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").removesuffix("€").strip() == written(task.key["cents"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(written(task.key["cents"]))
