"""A front office: open a case for a visitor and hand out its number."""

import itertools
from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

MATTERS = {"parking permit": "P", "dog licence": "D", "street fair": "F", "tree felling": "T"}
NAMES = ("Abel", "Bruun", "Castro", "Dorn", "Ekman", "Fiala", "Grieg", "Horn")
NUMBERS = itertools.count(4100)

env = Environment("front-office", system="Open a case with the right letter. Reply with the case number alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        matter = rng.choice(sorted(MATTERS))
        data = {"first": rng.randrange(1000, 9000)}
        letters = ", ".join(f"{letter} for {name}" for name, letter in MATTERS.items())
        prompt = f"{NAMES[number]} comes about a {matter}. Open a case. Letters: {letters}."
        yield Task(f"visitor-{number}", prompt=prompt, data=data, key={"name": NAMES[number], "letter": MATTERS[matter]})


@env.setup
def open_office(world: World, task: Task) -> None:
    world.state = {"next": next(NUMBERS), "cases": {}}


@env.tool
async def open_case(world: World, name: str, letter: str) -> str:
    """Open a case for a person under a letter; says its number."""
    number = f"{letter}-{world.state['next']}"
    world.state["cases"][number] = name
    world.state["next"] += 1
    return number


@env.check(points=1)
def case_is_open(evidence: Evidence, task: Task) -> bool:
    given = evidence.answer.strip().rstrip(".").upper()
    return given.startswith(task.key["letter"]) and evidence.state["cases"].get(given) == task.key["name"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(await agent.call("open_case", name=task.key["name"], letter=task.key["letter"]))
