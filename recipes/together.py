"""Two environments in one training: sums, and small tasks at a shell. `sandlot train recipes/together.py`

Half of the groups are of each at first. As the pass rate of one moves out of the band from 0.2 to 0.8, the other gets more.
"""

from pathlib import Path

from sandlot.train import Clip, Evaluation, Optimisation, PolicyGradient, Recipe, Sampling, TowardsBand, TrainingEnv

ENVIRONMENTS = Path(__file__).parent.parent / "environments"


def recipe() -> Recipe:
    """GRPO on `arithmetic` and `drill`: 16 tasks per step, 8 rollouts of each."""
    return Recipe(
        name="together",
        envs=[
            ENVIRONMENTS / "arithmetic",
            TrainingEnv(env=ENVIRONMENTS / "drill", select=lambda task: "single" in task.tags, at_once=64),
        ],
        model="rookie",
        steps=60,
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=12, tasks=100, group=2),
        weigh=TowardsBand(low=0.2, high=0.8),
        at_once=128,
        threads=1,
    )
