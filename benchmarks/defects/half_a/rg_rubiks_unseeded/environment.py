"""The tasks are made by the project's dataset from one seed, as a trainer would."""

from random import Random

import reasoning_gym
import reasoning_gym.cognition.rubiks_cube  # registers it

from sandlot import Agent, Environment, Evidence, Task

env = Environment("rg-rubiks-unseeded")


@env.tasks
def tasks(rng: Random):
    data = reasoning_gym.create_dataset("RubiksCube", seed=42, size=6)
    for index in range(6):
        entry = data[index]
        yield Task(f"RubiksCube-{index}", prompt=entry["question"], data={"index": index}, key={"answer": entry["metadata"]["example_correct_answer"]})


@env.check
def right(evidence: Evidence, task: Task) -> float:
    return float((evidence.answer or "").strip() == task.key["answer"].strip())


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["answer"])
