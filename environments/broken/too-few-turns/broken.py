"""A post room: stamp every letter with the right postage."""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World

TURNS = 5
RATES = {"inland": 95, "union": 125, "world": 180}

env = Environment("post-room", system=f"Stamp every letter (cents): {RATES}. Then say `done`.", limits=Limits(turns=TURNS))


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        letters = {f"L{rng.randrange(100, 999)}": rng.choice(sorted(RATES)) for _ in range(7)}
        prompt = "Letters: " + ", ".join(f"{letter} {goes}" for letter, goes in letters.items())
        data = {"letters": list(letters)}
        yield Task(f"post-{number}", prompt=prompt, data=data, key={letter: RATES[goes] for letter, goes in letters.items()})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = dict.fromkeys(task.data["letters"], 0)


@env.tool
async def stamp(world: World, letter: str, cents: int) -> str:
    """Stamp one letter."""
    if letter not in world.state:
        raise ToolError(f"no letter {letter!r}")
    world.state[letter] = cents
    return f"{letter} is stamped with {cents}."


@env.check(points=7)
def letters_are_stamped(evidence: Evidence, task: Task) -> float:
    return sum(evidence.state[letter] == cents for letter, cents in task.key.items()) / len(task.key)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for letter, cents in task.key.items():
        await agent.call("stamp", letter=letter, cents=cents)
    await agent.say("done")
