"""Learning: from graded rollouts to better weights.

Read `loop.py` first: collect, weight, update, publish, on one screen. Then `algorithms/` (traces to per-token losses) and
`forest/` (shared prefixes are computed once). Needs the `torch` extra.

A recipe's author imports from here: `from sandlot.train import Evaluation, Optimisation, PolicyGradient, Recipe, Sampling`.
Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.core.ports.model import Sampling as Sampling
    from sandlot.train.algorithms.algorithms import Imitate as Imitate
    from sandlot.train.algorithms.algorithms import PolicyGradient as PolicyGradient
    from sandlot.train.algorithms.algorithms import Ppo as Ppo
    from sandlot.train.algorithms.algorithms import Prefer as Prefer
    from sandlot.train.algorithms.losses import Clip as Clip
    from sandlot.train.recipe import Evaluation as Evaluation
    from sandlot.train.recipe import Recipe as Recipe
    from sandlot.train.trainer import Optimisation as Optimisation

_NAMES = {
    "Clip": "sandlot.train.algorithms.losses",
    "Evaluation": "sandlot.train.recipe",
    "Imitate": "sandlot.train.algorithms.algorithms",
    "Optimisation": "sandlot.train.trainer",
    "PolicyGradient": "sandlot.train.algorithms.algorithms",
    "Ppo": "sandlot.train.algorithms.algorithms",
    "Prefer": "sandlot.train.algorithms.algorithms",
    "Recipe": "sandlot.train.recipe",
    "Sampling": "sandlot.core.ports.model",
}

__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll] - each name is imported on first use


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module `sandlot.train` has no name `{name}`; it has: {', '.join(_NAMES)}")
    return getattr(import_module(_NAMES[name]), name)
