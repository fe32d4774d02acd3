"""An open training run: the collector of its rollouts, the policies that learn, and the checkpoints.

Engine and trainer of a policy are in this process, each with its own copy of the weights, or a server samples (`publish.py`). The
run directory is an ordinary one, so `sandlot show`, `replay` and `tokens` work on the rollouts of a training.
"""

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.trace import Trace
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.shape import read_shape
from sandlot.model.render.open import open_renderer
from sandlot.model.render.renderer import TokenRenderer
from sandlot.model.wire.server_load import load_of
from sandlot.observe.events import Sink
from sandlot.run.admission_watch import AdmissionWatch, watch_admission
from sandlot.run.collector import Collection, Collector
from sandlot.run.results import Run
from sandlot.run.slots import Room
from sandlot.run.trained import TrainedIn, training_record
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.choices import TaskChoice
from sandlot.train.crashed import CrashedRewards
from sandlot.train.learning_policy import LearningPolicy, open_policy, require_one_process
from sandlot.train.open_environment import OpenEnvironment, PreparedEnvironment, open_environments, prepare_environments
from sandlot.train.own_policy import SHARED
from sandlot.train.pairs import RenderedPairs, load_pairs, require_same_pairs
from sandlot.train.publish import require_agreement
from sandlot.train.recipe import Recipe, require_same_recipe, write_recipe
from sandlot.wiring.parts import Players


@dataclass(slots=True)
class Training:
    """One training run, open."""

    recipe: Recipe
    path: Path
    environments: dict[str, OpenEnvironment]
    """By name, in the order of the recipe."""
    policies: dict[str, LearningPolicy]
    """The recipe's own model (`SHARED`), if it plays a seat or there are none, and those with weights of their own, by seat."""
    checkpoints: Checkpoints
    standing: TrainingState
    pairs: RenderedPairs | None
    """The pairs of the recipe's file, which is trained on instead of rollouts."""
    crashed: CrashedRewards
    """Counts the rewards of this sitting that a crash of the environment touched."""
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

    def policy_of(self, seat: str) -> str:
        """The name of the policy that plays a seat."""
        return seat if seat in self.policies else SHARED

    def _players(self, played: Mapping[str, Policies]) -> Players:
        return Players(next(iter(played.values())), {seat: each for seat, each in played.items() if seat != SHARED})

    def players(self, sampling: Sampling) -> Players:
        """The models with the weights published last."""
        return self._players({name: policy.sampled(sampling) for name, policy in self.policies.items()})

    def learners(self, env: OpenEnvironment) -> Players:
        """Who plays the rollouts that are learned from: the models, or their teacher in the tokens of each."""
        teacher, version = env.teacher, self.standing.version
        if teacher is None:
            return self.players(self.recipe.sampling)
        return self._players({name: policy.demonstrated(teacher, version) for name, policy in self.policies.items()})

    async def rollout(self, choice: TaskChoice, number: int) -> Trace:
        """One rollout to learn from: read if it is stored, else taken and stored."""
        env = self.environments[choice.environment]
        return await env.rollout(choice.task, number, functools.partial(self.learners, env))

    async def evaluate(self, version: int) -> dict[str, Run]:
        """Measure the published weights on held-out tasks, each environment in a run of its own; read if it is stored."""
        return {name: await env.evaluate(version, self.players) for name, env in self.environments.items()}

    async def keep(self, standing: TrainingState) -> None:
        """Write weights and state to disk: after a crash, the training continues from here."""
        self.standing = standing
        learners = {name: policy.learner for name, policy in self.policies.items()}
        await off_loop("keep", lambda: self.checkpoints.keep(learners, standing))

    async def keep_unless_stored(self, *, due: bool = True) -> None:
        """Write the weights of the last step to disk, if it is `due` and they are not there yet."""
        place = self.checkpoints.place(self.standing.version)
        if due and self.standing.version and not self.updating and not place.is_dir():
            await self.keep(self.standing)

    async def mark(self, policy: str, version: int) -> None:
        """Store which version of a policy is best: its weights are kept until another is better."""
        self.standing = self.standing.with_best(policy, version)
        if not self.checkpoints.place(self.standing.version).is_dir():
            await self.keep(self.standing)
        elif version == self.standing.version:
            learner = self.policies[policy].learner
            await off_loop("export", lambda: self.checkpoints.export(learner.whole(), version, policy))
        await off_loop("mark", lambda: self.checkpoints.mark(self.standing))

    async def go_back(self, versions: Mapping[str, int]) -> None:
        """Let some policies continue from the weights and the optimiser's state of an earlier version; numbers keep counting up.

        They are stored together: a training that is killed meanwhile finds all of them gone back, or none.
        """
        for policy, version in versions.items():
            if not self.checkpoints.policy_place(version, policy).is_dir():
                raise ConfigError(
                    f"the weights of version {version} are gone from `{self.checkpoints.folder}`, and the training was to go "
                    "back to them; put the folder back, or train without `rollback`"
                )
        self.updating = True  # a stop before the end must not write the weights that are given up as this version
        for policy, version in versions.items():
            await self._restore(policy, version)
        await self.keep(self.standing)
        self.updating = False
        for policy in versions:
            await self.policies[policy].publish(self.standing.version)

    async def _restore(self, policy: str, version: int) -> None:
        learner = self.policies[policy].learner
        await off_loop("restore", lambda: self.checkpoints.restore(learner, version, policy))

    async def continue_from_checkpoint(self) -> None:
        """Put the weights of the newest checkpoint in place, if there is one."""
        for policy in self.policies if self.standing.version else ():
            await self._restore(policy, self.standing.version)

    async def publish(self, version: int) -> None:
        """Send the weights of every policy to the model that samples with them."""
        for policy in self.policies.values():
            await policy.publish(version)


@asynccontextmanager
async def open_training(recipe: Recipe, path: Path, collection: Collection, sink: Sink) -> AsyncGenerator[Training]:
    """Load everything a recipe names, and continue where the run stopped."""
    require_one_process(recipe)
    require_same_recipe(recipe, path)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    prepared = await prepare_environments(recipe, path)
    recipes = {name: recipe.for_policy(name) for name in prepared[0].policies}
    folders = {name: await off_loop("folder_of", functools.partial(model_folder, own.model)) for name, own in recipes.items()}
    renderers = {name: await off_loop("open_renderer", functools.partial(open_renderer, each)) for name, each in folders.items()}
    pairs = await off_loop("load_pairs", lambda: _pairs_of(recipe, renderers, folders))
    checkpoints = Checkpoints(path / "checkpoints", folders, functools.partial(_record, prepared, path.name))
    standing = checkpoints.newest() or TrainingState(version=0, groups=0)
    time_s = max(each.env.limits.time_s for each in prepared)
    async with AsyncExitStack() as stack:
        policies = {
            name: await stack.enter_async_context(open_policy(own, folders[name], renderers[name], path, time_s))
            for name, own in recipes.items()
        }
        watch = await stack.enter_async_context(watch_admission(Room(recipe.at_once, adapt=recipe.adapt)))
        load = load_of(policies[SHARED].publisher.model) if SHARED in policies else None
        environments = await stack.enter_async_context(open_environments(prepared, collection, sink, watch, load))
        write_recipe(recipe, path)
        if pairs is not None:
            require_same_pairs(pairs.used, path)
        training = Training(
            recipe=recipe,
            path=path,
            environments=environments,
            policies=policies,
            checkpoints=checkpoints,
            standing=standing,
            pairs=pairs,
            watch=watch,
            crashed=CrashedRewards(recipe.stop_crashed),
        )
        await training.continue_from_checkpoint()
        await training.publish(standing.version)
        if recipe.server is not None:
            shared = policies[SHARED]
            await require_agreement(shared.publisher.model, shared.learner, shared.renderer, recipe.sampling)
        yield training


def _record(prepared: Sequence[PreparedEnvironment], run: str, policy: str, version: int) -> TrainedIn:
    """The setting that a version of a policy was trained in, with the renderer of its own model."""
    return training_record([(each.env.name, each.policies[policy].facts) for each in prepared], run, version)


def _pairs_of(recipe: Recipe, renderers: Mapping[str, TokenRenderer], folders: Mapping[str, Path]) -> RenderedPairs | None:
    if recipe.pairs is None:
        return None
    return load_pairs(Path(recipe.pairs), renderers[SHARED], read_shape(folders[SHARED]).context)
