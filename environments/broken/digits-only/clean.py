"""Distances on a map."""

import re
from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("map", system="Reply with a number and its unit, such as `3.5 km`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        scale, tenths = rng.choice((25, 50, 75)), rng.randrange(31, 99)
        prompt = f"On a map of 1:{scale}000 two towns are {tenths / 10} cm apart. How many km is that?"
        yield Task(f"map-{number}", prompt=prompt, key={"km": round(tenths * scale / 1000, 4)})


@env.check(points=1)
def distance_is_right(evidence: Evidence, task: Task) -> bool:
    found = re.fullmatch(r"(?i)\s*([+-]?\d{1,6}(?:\.\d{0,6})?)\s*(?:km|kilomet(?:re|er)s?)\.?\s*", evidence.answer)
    return found is not None and abs(float(found[1]) - task.key["km"]) < 1e-4


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"{task.key['km']} km")
