"""Rope arithmetic: one length is the answer."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("ropes", system="Reply with a number of metres alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        whole, pieces, piece = rng.randrange(200, 900), rng.randrange(3, 9), rng.randrange(5, 21)
        prompt = f"From a rope of {whole} m, {pieces} pieces of {piece}.5 m are cut. How much is left?"
        yield Task(f"rope-{number}", prompt=prompt, key={"left": whole - pieces * (piece + 0.5)})


@env.check(points=1)
def length_is_right(evidence: Evidence, task: Task) -> bool:
    return abs(float(evidence.answer.strip().rstrip("m").replace(",", "")) - task.key["left"]) < 1e-6


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["left"]))
