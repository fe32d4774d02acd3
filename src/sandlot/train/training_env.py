"""One environment of a training that has several: `Recipe(envs=...)`."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.run.results import ENVIRONMENTS
from sandlot.train.own_policy import OwnPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEnv:
    """An environment of a training, with settings of its own.

    ```python
    from sandlot.train import Recipe, TrainingEnv

    sums = TrainingEnv(env="arithmetic", weight=2, limits={"turns": 2})
    recipe = Recipe(name="both", envs=[sums, "drill"])
    ```
    """

    env: str | Path | Environment
    """A path, an installed name, or an `Environment`."""
    weight: float = 1.0
    """Its share of the groups of every step, in proportion to the other environments'."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Limits of its rollouts, in place of its own, such as `{"turns": 4}`."""
    at_once: int | None = None
    """The most of its rollouts in flight; None: as many as the recipe allows for all environments."""
    curriculum: tuple[str, ...] | str | Path = ()
    """Train on these of its tasks only: ids, or the path of its `curriculum.json`."""
    select: Callable[[Task], bool] | None = None
    """Use only tasks for which it returns True, in training and in evaluation."""
    user: str | None = None
    """The model that simulates its user."""
    seats: Mapping[str, str | OwnPolicy] | None = None
    """The models of its seats that do not learn, and the policies of seats that learn with weights of their own."""

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise ConfigError(f"environment `{self.env}`: weight is {self.weight}; give a finite number above 0")
        if self.at_once is not None and self.at_once < 1:
            raise ConfigError(f"environment `{self.env}`: at_once is {self.at_once}; give 1 or more, or None")
        for seat, player in cast("Mapping[str, object]", self.seats or {}).items():
            if not isinstance(player, str | OwnPolicy):
                raise ConfigError(f"environment `{self.env}`: seat `{seat}` is {player!r}; name a model, or give `OwnPolicy()`")

    @property
    def frozen(self) -> dict[str, str]:
        """The models of seats that do not learn."""
        return {seat: player for seat, player in (self.seats or {}).items() if isinstance(player, str)}

    @property
    def own_policies(self) -> dict[str, OwnPolicy]:
        """The policies of seats that learn with weights of their own."""
        return {seat: player for seat, player in (self.seats or {}).items() if isinstance(player, OwnPolicy)}

    def load(self) -> Environment:
        """The environment with these limits."""
        env = load(self.env)
        if not self.limits:
            return env
        env = copy.copy(env)
        env.declared_limits = env.limits
        env.limits = env.limits.but(dict(self.limits))
        return env


def training_place(training: Path, name: str, names: Sequence[str]) -> Path:
    """The run directory of one of a training's environments: the first has the training's own."""
    return training if name == names[0] else training / ENVIRONMENTS / name
