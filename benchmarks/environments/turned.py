"""A tool call and an answer, ten thousand tasks: the smallest rollout of two turns that can be solved."""

from collections.abc import Iterator
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task

env = Environment("turned", description="Double a number with a tool.", limits=Limits(turns=4))


@env.tasks
def tasks(_rng: Random) -> Iterator[Task]:
    for number in range(10_000):
        yield Task(id=f"turned-{number}", prompt=f"Double {number} with the tool.", key={"number": number, "doubled": 2 * number})


@env.tool
async def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


@env.check(points=1)
def is_doubled(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip() == str(task.key["doubled"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(await agent.call("double", number=task.key["number"]))
