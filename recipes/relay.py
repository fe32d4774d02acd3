"""Two agents learn to work together: `rookie` plays both halves of `relay`, and both learn from one shared reward.

sandlot train recipes/relay.py           one model for both
sandlot train recipes/relay.py:apart     each with weights of its own
"""

from pathlib import Path

from sandlot.train import Clip, Evaluation, Optimisation, OwnPolicy, PolicyGradient, Recipe, Sampling

ROOT = Path(__file__).parent.parent


def recipe() -> Recipe:
    """GRPO with a group for each seat: 12 tasks per step, 8 rollouts of each."""
    return Recipe(
        name="relay",
        env=ROOT / "environments" / "relay",
        model="rookie",
        steps=24,
        tasks=12,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=12, group=4),
        at_once=96,
        threads=1,
    )


def apart() -> Recipe:
    """Two policies that begin as the same model and have one reward to share: what one learns, the other does not."""
    return recipe().but(name="relay-apart", seats={"left": OwnPolicy(), "right": OwnPolicy()})
