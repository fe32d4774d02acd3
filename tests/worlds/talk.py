"""An environment for tests of model servers: a long prompt and a user who always says one thing more, whatever the agent says."""

from random import Random

from sandlot import Environment, Evidence, Limits, Task, World

TURNS = 5
WORDS = ("river", "candle", "market", "velvet", "garden", "winter", "copper", "letter")

env = Environment(
    "talk",
    system="You talk with a person. " + "Listen well. " * 20,
    limits=Limits(turns=TURNS, time_s=600.0),
    state=lambda: {"heard": 0},
)


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        story = " ".join(rng.choice(WORDS) for _ in range(60))
        yield Task(f"story-{number}", prompt=f"Story {number}: {story}. What now?")


@env.user
def go_on(world: World, text: str) -> str:
    world.state["heard"] += 1
    return f"And after {WORDS[world.state['heard'] % len(WORDS)]}?"


@env.check(points=1)
def all_was_heard(evidence: Evidence, task: Task) -> bool:
    return evidence.state["heard"] >= TURNS - 1
