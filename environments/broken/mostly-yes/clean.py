"""Check the sum of an invoice."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

ASK = "By how many cents is the total too high? Reply with the number alone."
env = Environment("invoice-check", system=ASK)


@env.tasks
def tasks(rng: Random):
    for number in range(10):
        rows = [rng.randrange(100, 9000) for _ in range(6)]
        off = rng.randrange(11, 999)
        prompt = "\n".join([*(f"position {place}: {cents}" for place, cents in enumerate(rows, 1)), f"total: {sum(rows) + off}"])
        yield Task(f"invoice-{number}", prompt=prompt, key={"reply": str(off)})


@env.check(points=1)
def reply_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold().removesuffix(".0") == task.key["reply"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["reply"])
