"""A policy that learns: its trainer, the engine or server that samples with its weights, and the renderer of its model.

A training has one, which plays every seat that learns, or several with weights of their own. They learn from the same rollouts,
each from the turns of its own seats, and have the same version numbers.
"""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.policy.demonstrated import DemonstratedPolicies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.renderer import TokenRenderer
from sandlot.train.leader import Learner, open_leader
from sandlot.train.learner import build_trainer, copy_decoder
from sandlot.train.parallel.ranks import num_processes, open_ranks
from sandlot.train.publish import Publisher, open_publisher
from sandlot.train.recipe import Recipe


@dataclass(frozen=True, slots=True)
class LearningPolicy:
    """One policy of a training, open."""

    recipe: Recipe
    """The training's recipe, with the model and the optimisation of this policy."""
    learner: Learner
    publisher: Publisher
    renderer: TokenRenderer

    def sampled(self, sampling: Sampling) -> Policies:
        """The model with the weights published last."""
        return token_policies(self.publisher.model, self.renderer, sampling)

    def demonstrated(self, teacher: Policies, version: int) -> Policies:
        """A teacher's turns, in the tokens of this model."""
        return DemonstratedPolicies(teacher, self.renderer, version)

    async def publish(self, version: int) -> None:
        """Send the trainer's weights to the model that samples."""
        decoder = await off_loop("whole", self.learner.whole)
        await self.publisher.publish(version, decoder)


@asynccontextmanager
async def open_policy(
    recipe: Recipe, folder: Path, renderer: TokenRenderer, path: Path, time_s: float
) -> AsyncGenerator[LearningPolicy]:
    """Load the model of a policy's recipe, which lies in `folder`, for training and for sampling."""
    async with (
        _open_learner(recipe, folder) as (learner, sampled),
        open_publisher(recipe, sampled, path, folder, time_s) as publisher,
    ):
        yield LearningPolicy(recipe, learner, publisher, renderer)


@asynccontextmanager
async def _open_learner(recipe: Recipe, folder: Path) -> AsyncGenerator[tuple[Learner, Decoder | None]]:
    """The trainer, over all processes of the run, and a copy of the weights for the engine of this process, if it samples."""
    with ExitStack() as opened:
        ranks = await off_loop("open_ranks", lambda: opened.enter_context(open_ranks(recipe.device)))
        own = recipe.device if ranks.count == 1 else "cpu"  # several processes shard it to their devices layer by layer
        decoder = await off_loop("load_folder", lambda: load_folder(folder, dtype=torch.float32, device=own))
        sampled = copy_decoder(decoder).to(ranks.device, getattr(torch, recipe.dtype.value)) if recipe.server is None else None
        trainer = await off_loop("trainer_of", lambda: build_trainer(decoder, recipe, ranks))
        with open_leader(trainer, ranks) as learner:
            yield learner, sampled


def require_one_process(recipe: Recipe) -> None:
    """`ConfigError` if policies with weights of their own are to be trained by several processes."""
    if recipe.own_policies and num_processes() > 1:
        raise ConfigError(
            f"recipe `{recipe.name}`: policies of their own ({', '.join(recipe.own_policies)}) are trained in one process, and "
            f"torchrun started {num_processes()}; start it without torchrun"
        )
