"""An open training run: the collector of its rollouts, the engine, the trainer and the checkpoints.

Engine and trainer are in this process, each with its own copy of the weights, or a server samples (`publish.py`). The run
directory is an ordinary one, so `sandlot show`, `replay` and `tokens` work on the rollouts of a training.
"""

import functools
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.trace import Trace
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.shape import read_shape
from sandlot.model.policy.demonstrated import DemonstratedPolicies, TurnRenderer
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.model.render.renderer import TokenRenderer
from sandlot.model.wire.server_load import load_of
from sandlot.observe.events import Sink
from sandlot.observe.training_records import Measured
from sandlot.run.admission_watch import AdmissionWatch, watch_admission
from sandlot.run.collector import Collection, Collector
from sandlot.run.results import Run
from sandlot.run.slots import Room
from sandlot.run.trained import training_record
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.choices import TaskChoice
from sandlot.train.leader import Learner, open_leader
from sandlot.train.learner import build_trainer, copy_decoder
from sandlot.train.open_environment import OpenEnvironment, open_environments, prepare_environments
from sandlot.train.pairs import RenderedPairs, load_pairs, require_same_pairs
from sandlot.train.parallel.ranks import open_ranks
from sandlot.train.publish import Publisher, open_publisher, require_agreement
from sandlot.train.recipe import Recipe, require_same_recipe, write_recipe


@dataclass(slots=True)
class Training:
    """One training run, open."""

    recipe: Recipe
    path: Path
    environments: dict[str, OpenEnvironment]
    """By name, in the order of the recipe."""
    publisher: Publisher
    renderer: TurnRenderer
    trainer: Learner
    checkpoints: Checkpoints
    standing: TrainingState
    pairs: RenderedPairs | None
    """The pairs of the recipe's file, which is trained on instead of rollouts."""
    watch: AdmissionWatch | None = None
    """Finds out how many rollouts may be in flight; None if the recipe does not ask for that."""
    updating: bool = False
    """True while weights are changed: they then belong to no version, and are not written to disk."""

    @property
    def collector(self) -> Collector:
        """The collector of the first environment: its log has the events of the whole training."""
        return next(iter(self.environments.values())).collector

    @property
    def collection(self) -> Collection:
        """Whether and why the training stops early."""
        return self.collector.collection

    def policies(self, sampling: Sampling) -> Policies:
        """The model with the weights published last."""
        return token_policies(self.publisher.model, self.renderer, sampling)

    def players(self, env: OpenEnvironment) -> Policies:
        """The policies whose rollouts are learned from: the model, or its teacher in the model's tokens."""
        if env.teacher is None:
            return self.policies(self.recipe.sampling)
        return DemonstratedPolicies(env.teacher, self.renderer, self.standing.version)

    async def rollout(self, choice: TaskChoice, number: int) -> Trace:
        """One rollout to learn from: read if it is stored, else taken and stored."""
        env = self.environments[choice.environment]
        return await env.rollout(choice.task, number, functools.partial(self.players, env))

    async def evaluate(self, version: int) -> dict[str, Run]:
        """Measure the published weights on held-out tasks, each environment in a run of its own; read if it is stored."""
        return {name: await env.evaluate(version, self.policies) for name, env in self.environments.items()}

    async def keep(self, standing: TrainingState) -> None:
        """Write weights and state to disk: after a crash, the training continues from here."""
        self.standing = standing
        await off_loop("keep", lambda: self.checkpoints.keep(self.trainer, standing))

    async def keep_unless_stored(self, *, due: bool = True) -> None:
        """Write the weights of the last step to disk, if it is `due` and they are not there yet."""
        place = self.checkpoints.place(self.standing.version)
        if due and self.standing.version and not self.updating and not place.is_dir():
            await self.keep(self.standing)

    async def mark(self, best: Measured) -> None:
        """Store which version is best: its weights are kept until another is better."""
        self.standing = msgspec.structs.replace(self.standing, best=best.version, best_score=best.mean)
        if not self.checkpoints.place(self.standing.version).is_dir():
            await self.keep(self.standing)
        if best.version == self.standing.version:
            await off_loop("export", lambda: self.checkpoints.export(self.trainer.whole(), best.version))
        await off_loop("mark", lambda: self.checkpoints.mark(self.standing))

    async def go_back(self, version: int) -> None:
        """Continue from the weights and the optimiser's state of an earlier version; version numbers keep counting up."""
        if not self.checkpoints.place(version).is_dir():
            raise ConfigError(
                f"the weights of version {version} are gone from `{self.checkpoints.folder}`, and the training was to go back to "
                "them; put the folder back, or train without `rollback`"
            )
        self.updating = True  # a stop before the end must not write the weights that are given up as this version
        before = msgspec.structs.replace(self.standing, version=version)
        await off_loop("restore", lambda: self.checkpoints.restore(self.trainer, before))
        await self.keep(self.standing)
        self.updating = False
        await self.publish(self.standing.version)

    async def publish(self, version: int) -> None:
        """Send the trainer's weights to the model that samples."""
        decoder = await off_loop("whole", self.trainer.whole)
        await self.publisher.publish(version, decoder)


@asynccontextmanager
async def open_training(recipe: Recipe, path: Path, collection: Collection, sink: Sink) -> AsyncGenerator[Training]:
    """Load everything a recipe names, and continue where the run stopped."""
    require_same_recipe(recipe, path)
    folder = await off_loop("folder_of", lambda: model_folder(recipe.model))
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    prepared = await prepare_environments(recipe, path)
    renderer = await off_loop("open_renderer", lambda: open_renderer(folder))
    pairs = await off_loop("load_pairs", lambda: _pairs_of(recipe, renderer, folder))
    settings = [(each.env.name, each.run.facts) for each in prepared]
    record = functools.partial(training_record, settings, path.name)
    checkpoints = Checkpoints(path / "checkpoints", folder, record)
    standing = checkpoints.newest() or TrainingState(version=0, groups=0)
    time_s = max(each.env.limits.time_s for each in prepared)
    async with (
        _open_learner(recipe, folder) as (trainer, sampled),
        open_publisher(recipe, sampled, path, folder, time_s) as publisher,
        watch_admission(Room(recipe.at_once, adapt=recipe.adapt)) as watch,
        open_environments(prepared, collection, sink, watch, load_of(publisher.model)) as environments,
    ):
        write_recipe(recipe, path)
        if pairs is not None:
            require_same_pairs(pairs.used, path)
        if standing.version:
            await off_loop("restore", lambda: checkpoints.restore(trainer, standing))
        training = Training(
            recipe=recipe,
            path=path,
            environments=environments,
            publisher=publisher,
            renderer=renderer,
            trainer=trainer,
            checkpoints=checkpoints,
            standing=standing,
            pairs=pairs,
            watch=watch,
        )
        await training.publish(standing.version)
        if recipe.server is not None:
            await require_agreement(publisher.model, trainer, training.renderer, recipe.sampling)
        yield training


def _pairs_of(recipe: Recipe, renderer: TokenRenderer, folder: Path) -> RenderedPairs | None:
    if recipe.pairs is None:
        return None
    return load_pairs(Path(recipe.pairs), renderer, read_shape(folder).context)


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
