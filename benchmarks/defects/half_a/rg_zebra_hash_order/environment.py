"""The tasks are made by the project's dataset from one seed, as a trainer would."""

from random import Random

import reasoning_gym

from sandlot import Agent, Environment, Evidence, Task

env = Environment("rg-zebra-hash-order")


@env.tasks
def tasks(rng: Random):
    data = reasoning_gym.create_dataset("zebra_puzzles", seed=42, size=6)
    for index in range(6):
        entry = data[index]
        yield Task(f"zebra_puzzles-{index}", prompt=entry["question"], data={"index": index}, key={"answer": entry["answer"]})


@env.check(points=1)
def right(evidence: Evidence, task: Task) -> float:
    return float((evidence.answer or "").strip() == task.key["answer"].strip())


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["answer"])
