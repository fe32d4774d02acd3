"""Stock questions: how much is left."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

GOODS = ("flour", "barley", "sugar", "coffee", "lentils", "rice", "oats", "cocoa")

env = Environment("granary", system="Reply with the number of kilograms alone.")


@env.tasks
def tasks(rng: Random):
    train = [(good, rng.randrange(400, 4000), rng.randrange(11, 60)) for good in GOODS[:5]]
    held_out = train
    for number, (good, stock, sack) in enumerate(train):
        prompt = f"There were {stock} kg of {good}; 7 sacks of {sack} kg were sold. How much is left?"
        yield Task(f"train-{number}", prompt=prompt, key={"left": stock - 7 * sack}, split="train")
    for number, (good, stock, sack) in enumerate(held_out):
        prompt = f"there were {stock} kg of {good};  7 sacks of {sack} kg were sold.  how much is left?"
        yield Task(f"heldout-{number}", prompt=prompt, key={"left": stock - 7 * sack}, split="heldout")


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def rest_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["left"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["left"]))
