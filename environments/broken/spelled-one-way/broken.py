"""Convert a sum at a given rate."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("converter", system="Reply with the amount in euros.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        crowns, rate = rng.randrange(11, 99) * 1000 + 500, rng.choice((4, 8, 10, 20))
        prompt = f"{crowns} crowns, at {rate} crowns for one euro."
        yield Task(f"sum-{number}", prompt=prompt, key={"euros": crowns / rate})


@env.check(points=1)
def amount_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip() == str(task.key["euros"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["euros"]))
