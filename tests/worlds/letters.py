"""What a model of random weights can learn: the more of its answer is letters, the higher the score."""

import os
from pathlib import Path
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task
from sandlot.core.ports.model import Sampling
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.trainer import Optimisation

env = Environment("letters", limits=Limits(turns=1, tokens=400))


@env.tasks
def tasks(rng: Random):
    for number in range(20):
        word = "".join(rng.choice("abcdefgh") for _ in range(4))
        yield Task(f"word-{number}", prompt=f"Say {word}.", tags=("short",))


@env.check(points=1)
def are_letters(evidence: Evidence, task: Task) -> float:
    answer = evidence.answer
    return sum(char.isascii() and char.isalpha() for char in answer) / len(answer) if answer else 0.0


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say("letters")


def recipe(folder: Path | None = None, **changed) -> Recipe:
    """A few steps with a model that lies in `folder`, or where the environment variable `TINY` says."""
    plain = Recipe(
        name="letters",
        env=env,
        model=f"hf:{folder or os.environ['TINY']}",
        steps=4,
        tasks=2,
        group=4,
        resample=1,
        algorithm=PolicyGradient(baseline="dr_grpo"),
        optimisation=Optimisation(learning_rate=3e-3, tokens=256),
        sampling=Sampling(max_tokens=8),
        evaluation=Evaluation(every=4, tasks=3, group=2),
        at_once=8,
        threads=1,
    )
    return plain.but(**changed)
