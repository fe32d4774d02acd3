"""A seller and a buyer learn to negotiate: `rookie` plays both in `haggle`, each for its own share.

sandlot train recipes/haggle.py                 both learn
sandlot train recipes/haggle.py:buyer_alone     the buyer learns against a seller that does not
sandlot train recipes/haggle.py:apart           both learn, each with weights of its own
"""

from pathlib import Path

from sandlot import Trace
from sandlot.train import Clip, Evaluation, Optimisation, OwnPolicy, PolicyGradient, Recipe, Sampling

ROOT = Path(__file__).parent.parent


def recipe() -> Recipe:
    """GRPO with a group for each seat: 16 tasks per step, 8 rollouts of each."""
    return Recipe(
        name="haggle",
        env=ROOT / "environments" / "haggle",
        model="rookie",
        steps=40,
        tasks=16,
        group=8,
        resample=1,
        algorithm=PolicyGradient(baseline="dr_grpo", loss=Clip(0.2, 0.28), aggregate="token"),
        optimisation=Optimisation(learning_rate=3e-4, tokens=1024),
        sampling=Sampling(max_tokens=16),
        evaluation=Evaluation(every=20, group=4),
        outcome=made_deal,
        at_once=128,
        threads=1,
    )


def made_deal(trace: Trace) -> float:
    """Whether they agreed: shown beside the reward, and not trained on. Full marks for both at once are impossible here."""
    return float(trace.evidence is not None and trace.evidence.state["deal"] is not None)


def buyer_alone() -> Recipe:
    """The seller is the golden solution, which asks for the middle of the two limits and takes no less."""
    return recipe().but(name="haggle-buyer", seats={"seller": "scripted:golden"})


def apart() -> Recipe:
    """Two policies that begin as the same model: what one learns, the other does not."""
    return recipe().but(name="haggle-apart", seats={"seller": OwnPolicy(), "buyer": OwnPolicy()})
