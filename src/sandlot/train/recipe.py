"""A recipe: everything a training run is, in one frozen record that a short Python function returns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.env.environment import Environment
from sandlot.errors import ConfigError
from sandlot.ports import Sampling
from sandlot.trace import Trace
from sandlot.train.algorithms import Algorithm, PolicyGradient
from sandlot.train.trainer import Optimisation
from sandlot.wiring.parts import AgentConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How the model is measured on tasks it never trains on."""

    every: int = 10
    """Steps between measurements; the first is before the first step and the last after the last."""
    tasks: int | None = None
    """Held-out tasks; None for all."""
    group: int = 4
    """Rollouts of each."""
    sampling: Sampling | None = None
    """None: as in training."""
    rollback: float | None = None
    """Go back to the best weights when the score falls this far below theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to learn, in what, how."""

    name: str
    env: str | Path | Environment
    model: str = "rookie"
    """`rookie`, `smollm2` or `hf:FOLDER`."""
    steps: int = 50
    tasks: int = 8
    """Groups that each step learns from."""
    group: int = 8
    """Rollouts of each task, compared with each other."""
    algorithm: Algorithm = field(default_factory=PolicyGradient)
    optimisation: Optimisation = field(default_factory=Optimisation)
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=256))
    evaluation: Evaluation = field(default_factory=Evaluation)
    staleness: int = 0
    """Versions a rollout may be behind when it is learned from; 0 samples and learns in turns."""
    resample: int = 2
    """Groups without variance are replaced by others, up to this many times `tasks` in all; 1 never does."""
    lora: int | None = None
    """Rank of adapters on all linear layers; None trains the weights themselves."""
    critic: bool = False
    reward: Callable[[Trace], float] | None = None
    """Another reward than the score: for controls and experiments; evaluation always uses the score."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    sandbox: str = "native"
    at_once: int = 64
    threads: int | None = None
    """CPU threads for sampling and learning; None leaves it to torch."""
    seed: int = 0
    device: str = "cpu"
    curriculum: tuple[str, ...] = ()
    """Train on these tasks only, by id."""

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "tasks": 1, "group": 1, "staleness": 0, "resample": 1, "at_once": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"recipe `{self.name}`: {name} is {getattr(self, name)}; give {least} or more")
        if self.sampling.top_p != 1.0 or self.sampling.top_k:
            raise ConfigError(
                f"recipe `{self.name}`: top_p {self.sampling.top_p} and top_k {self.sampling.top_k} cut the distribution that is "
                "learned from; train with top_p=1 and top_k=0, and cut in `evaluation.sampling` only"
            )
