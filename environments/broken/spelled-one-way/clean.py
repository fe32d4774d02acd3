"""Convert a sum at a given rate."""

import re
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
    text = re.sub(r"(?i)\s*(€|eur|euros?)\s*", "", evidence.answer.strip()).rstrip(".").replace(",", "")
    try:
        return abs(float(text) - task.key["euros"]) < 0.005
    except ValueError:
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["euros"]))
