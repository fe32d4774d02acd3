"""Pack parcels to a list: the right weight class for each."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

CLASSES = {"S": 500, "M": 2000, "L": 10000, "X": 31500}

env = Environment("parcels", system=f"Give every parcel the smallest class that carries it (grams): {CLASSES}. Then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        parcels = {f"P{rng.randrange(100, 1000)}": rng.randrange(100, 30000) for _ in range(6)}
        wanted = {name: min(CLASSES, key=lambda size: (CLASSES[size] < grams, CLASSES[size])) for name, grams in parcels.items()}
        prompt = "Parcels: " + ", ".join(f"{name} {grams} g" for name, grams in parcels.items())
        yield Task(f"parcels-{number}", prompt=prompt, key={"classes": wanted})


@env.setup
def clear(world: World, task: Task) -> None:
    world.state = {"classes": {}}


@env.tool
async def put(world: World, parcel: str, size: str) -> str:
    """Put a parcel into a class."""
    world.state["classes"][parcel] = size
    return f"{parcel} is {size}."


@env.check(points=6)
def classes_are_right(evidence: Evidence, task: Task) -> float:
    wanted, given = task.key["classes"], evidence.state["classes"]
    return sum(given.get(name) == size for name, size in wanted.items()) / len(wanted)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for name, size in task.key["classes"].items():
        await agent.call("put", parcel=name, size=size)
    await agent.say("done")
