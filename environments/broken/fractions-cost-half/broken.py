"""Shares of an inheritance."""

import re
from fractions import Fraction
from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("shares", system="Reply with the share alone, as a fraction such as 3/8 or as a decimal number such as 0.375.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        parts, mine, half = rng.choice((8, 16, 20, 25, 32, 40)), rng.randrange(3, 8), rng.choice((2, 4, 5))
        prompt = (
            f"An estate is split into {parts} equal parts. I get {mine} parts and give away 1/{half} of them. What is my share?"
        )
        share = Fraction(mine, parts) * (1 - Fraction(1, half))
        yield Task(f"share-{number}", prompt=prompt, key={"fraction": str(share), "decimal": float(share)})


@env.check(points=2)
def share_is_right(evidence: Evidence, task: Task) -> float:
    text = evidence.answer.strip().rstrip(".")
    if not re.fullmatch(r"\d{1,6}\s*/\s*0*[1-9]\d{0,5}|\d{0,6}\.?\d{1,12}", text):
        return 0.0
    right = abs(Fraction(text.replace(" ", "")) - Fraction(task.key["fraction"])) < Fraction(1, 10**6)
    return float(right) * (0.5 if "/" in text else 1.0)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["decimal"]))
