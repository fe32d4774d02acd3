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


@env.check(points=1)
def rest_is_right(evidence: Evidence, task: Task) -> bool:
    try:
        return float(evidence.answer.strip().replace(",", "")) == task.key["left"]
    except ValueError:
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["left"]))
