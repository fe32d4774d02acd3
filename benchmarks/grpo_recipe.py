"""What `grpo.py` gives to `sandlot train`: GRPO by token, clipped higher above, no KL; sizes come from the variable `GRPO`."""

import json
import os

from sandlot import Recipe
from sandlot.core.ports.model import Sampling
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Clip
from sandlot.train.recipe import Evaluation
from sandlot.train.trainer import Optimisation


def recipe() -> Recipe:
    """One held-out rollout before and after: the benchmark measures by itself, on saved weights."""
    given = json.loads(os.environ["GRPO"])
    return Recipe(
        name=f"grpo-{given['model']}",
        env=given["env"],
        model=given["model"],
        select=(lambda task: given["tag"] in task.tags) if given["tag"] else None,
        steps=given["steps"],
        tasks=given["tasks"],
        group=given["group"],
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=given["learning_rate"], tokens=given["batch_tokens"]),
        sampling=Sampling(max_tokens=given["max_tokens"]),
        evaluation=Evaluation(every=10**6, tasks=1, group=1),
        at_once=128,
        threads=given["threads"],
        seed=given["seed"],
    )
