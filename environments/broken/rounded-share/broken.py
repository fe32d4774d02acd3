"""Fill in a delivery note from an order."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

GOODS = ("bolts", "hinges", "screws", "nails", "hooks", "clamps")

env = Environment("delivery-note", system="Enter the quantity of every article, then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        dozens = {name: rng.randrange(2, 30) for name in GOODS}
        prompt = "Ordered, in dozens: " + ", ".join(f"{name} {count}" for name, count in dozens.items()) + ". Enter pieces."
        yield Task(f"note-{number}", prompt=prompt, key={"pieces": {name: 12 * count for name, count in dozens.items()}})


@env.setup
def blank(world: World, task: Task) -> None:
    world.state = {"pieces": {}}


@env.tool
async def enter(world: World, article: str, pieces: int) -> str:
    """Enter how many pieces of an article are delivered."""
    world.state["pieces"][article] = pieces
    return f"{article}: {pieces}"


@env.check(points=6)
def quantities_are_right(evidence: Evidence, task: Task) -> float:
    wanted, entered = task.key["pieces"], evidence.state["pieces"]
    right = sum(entered.get(name) == count for name, count in wanted.items())
    return float(round(right / len(wanted)))


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for name, count in task.key["pieces"].items():
        await agent.call("enter", article=name, pieces=count)
    await agent.say("done")
