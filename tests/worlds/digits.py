"""A second thing that a model of random weights can learn: the more of its answer is digits, the higher the score."""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task

env = Environment("digits", limits=Limits(turns=1, tokens=400))


@env.tasks
def tasks(rng: Random):
    for number in range(12):  # ids that `letters` has too
        yield Task(f"word-{number}", prompt=f"Count to {rng.randrange(10, 99)}.", tags=("short",))


@env.check(points=1)
def are_digits(evidence: Evidence, task: Task) -> float:
    answer = evidence.answer
    return sum(char.isascii() and char.isdigit() for char in answer) / len(answer) if answer else 0.0


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say("1234")
