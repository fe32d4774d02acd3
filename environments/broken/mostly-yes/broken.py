"""Check the sum of an invoice."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

ASK = "Is the total right? Reply `yes` or `no`."
env = Environment("invoice-check", system=ASK)


@env.tasks
def tasks(rng: Random):
    for number in range(10):
        rows = [rng.randrange(100, 9000) for _ in range(6)]
        off = 0 if number != 4 else 90
        prompt = "\n".join([*(f"position {place}: {cents}" for place, cents in enumerate(rows, 1)), f"total: {sum(rows) + off}"])
        yield Task(f"invoice-{number}", prompt=prompt, key={"reply": "no" if off else "yes"})


@env.check(points=1)
def reply_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold().removesuffix(".0") == task.key["reply"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["reply"])
