"""Word problems about crates: one number is the answer."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

THINGS = ("bottles", "lamps", "melons", "tiles")

env = Environment("crates", system="Solve the problem. Reply with the number alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        crates, each, broken = rng.randrange(11, 40), rng.randrange(12, 48), rng.randrange(3, 60)
        thing = rng.choice(THINGS)
        prompt = f"A lorry brings {crates} crates of {each} {thing}; {broken} {thing} are broken. How many are whole?"
        yield Task(f"crates-{number}", prompt=prompt, key={"whole": crates * each - broken})


@env.check(points=1)
def count_is_right(evidence: Evidence, task: Task) -> bool:
    try:
        value = float(evidence.answer.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return False
    return value == task.key["whole"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["whole"]))
