"""Roman numerals."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

VALUES = {
    "M": 1000,
    "CM": 900,
    "D": 500,
    "CD": 400,
    "C": 100,
    "XC": 90,
    "L": 50,
    "XL": 40,
    "X": 10,
    "IX": 9,
    "V": 5,
    "IV": 4,
    "I": 1,
}

env = Environment("numerals", system="Reply with the number alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        value = rng.randrange(200, 3999)
        question = f"Which number is {roman(value)}?"
        yield Task(f"roman-{number}", prompt=question, key={"value": value})


def roman(value: int) -> str:
    text = ""
    for letters, worth in VALUES.items():
        text += letters * (value // worth)
        value %= worth
    return text


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def value_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["value"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["value"]))
