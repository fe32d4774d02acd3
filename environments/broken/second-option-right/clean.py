"""A quiz about train connections."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

LETTERS = "ABCDEFGHIJ"

env = Environment("connections", system="Reply with the letter of the connection that arrives first.")


@env.tasks
def tasks(rng: Random):
    places = rng.sample(range(len(LETTERS)), len(LETTERS))
    for number, place in enumerate(places):
        leaves = [rng.randrange(300, 600) for _ in LETTERS]
        takes = [rng.randrange(700, 800) - leave for leave in leaves]
        takes[place] = rng.randrange(620, 690) - leaves[place]
        rows = [
            f"{letter}: leaves at minute {leave}, takes {take} minutes"
            for letter, leave, take in zip(LETTERS, leaves, takes, strict=True)
        ]
        yield Task(f"train-{number}", prompt="\n".join(rows), key={"letter": LETTERS[place]})


@env.check(points=1)
def letter_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").upper() == task.key["letter"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["letter"])
