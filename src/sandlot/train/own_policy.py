"""A policy of its own for one seat: `Recipe(seats={"buyer": OwnPolicy()})`. It has its own weights, optimiser and engine."""

from dataclasses import dataclass
from pathlib import Path

from sandlot.train.trainer import Optimisation

SHARED = ""
"""The name of the recipe's own model among the policies of a training; the others have the names of their seats."""
POLICIES = "policies"
"""The folder of a checkpoint in which the policies with weights of their own lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPolicy:
    """A seat whose player learns with weights of its own, in the same rollouts as the others.

    ```python
    from sandlot.train import OwnPolicy, Recipe

    recipe = Recipe(name="apart", env="haggle", seats={"seller": OwnPolicy(), "buyer": OwnPolicy()})
    ```
    """

    model: str | None = None
    """The model that it begins with: `rookie`, `smollm2` or `hf:FOLDER`; None for the recipe's."""
    optimisation: Optimisation | None = None
    """Its learning rate and other settings of its optimiser; None for the recipe's."""


def policy_folder(checkpoint: Path, policy: str) -> Path:
    """Where one policy lies in a checkpoint: the shared model has the folder itself."""
    return checkpoint / POLICIES / policy if policy else checkpoint
