"""An open training run: the collector of its rollouts, the engine, the trainer and the checkpoints.

Engine and trainer are in this process, each with its own copy of the weights, or a server samples (`publish.py`). The run
directory is an ordinary one, so `sandlot show`, `replay` and `tokens` work on the rollouts of a training.
"""

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import msgspec
import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import Split, derive_seed
from sandlot.env.environment import Environment
from sandlot.env.function import dialogue_of
from sandlot.env.load import load
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.shape import read_shape
from sandlot.model.policy.demonstrated import DemonstratedPolicies, TurnRenderer
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.model.render.renderer import TokenRenderer
from sandlot.observe.events import Sink
from sandlot.observe.training_records import Measured
from sandlot.run.collector import Collection, Collector, open_collector
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run
from sandlot.run.curriculum import curriculum_tasks
from sandlot.run.prepare import manifest_of, prepare_run
from sandlot.run.results import Run
from sandlot.run.trained import training_record
from sandlot.store.reader import RunReader
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.leader import Learner, open_leader
from sandlot.train.learner import build_trainer, copy_decoder
from sandlot.train.pairs import RenderedPairs, load_pairs, require_same_pairs
from sandlot.train.parallel.ranks import open_ranks
from sandlot.train.publish import Publisher, open_publisher, require_agreement
from sandlot.train.recipe import Recipe, require_same_recipe, write_recipe
from sandlot.train.report.summary import variant_place
from sandlot.wiring.config import ModelConfig, user_config
from sandlot.wiring.models import open_policies

EVALUATION = "/evaluation"
"""Ends the name of a run that measures held-out tasks."""


@dataclass(slots=True)
class Training:
    """One training run, open."""

    recipe: Recipe
    path: Path
    env: Environment
    tasks: list[Task]
    heldout: RunPlan
    collector: Collector
    publisher: Publisher
    teacher: Policies | None
    """The model whose turns are imitated; None if the model learns from its own rollouts."""
    renderer: TurnRenderer
    trainer: Learner
    checkpoints: Checkpoints
    standing: TrainingState
    kept: RunReader | None
    """The rollouts of earlier sittings."""
    pairs: RenderedPairs | None
    """The pairs of the recipe's file, which is trained on instead of rollouts."""
    updating: bool = False
    """True while weights are changed: they then belong to no version, and are not written to disk."""

    @property
    def collection(self) -> Collection:
        """Whether and why the training stops early."""
        return self.collector.collection

    def policies(self, sampling: Sampling) -> Policies:
        """The model with the weights published last."""
        return token_policies(self.publisher.model, self.renderer, sampling)

    def players(self) -> Policies:
        """The policies whose rollouts are learned from: the model, or its teacher in the model's tokens."""
        if self.teacher is None:
            return self.policies(self.recipe.sampling)
        return DemonstratedPolicies(self.teacher, self.renderer, self.standing.version)

    async def rollout(self, task: Task, number: int) -> Trace:
        """One rollout to learn from: read if it is stored, else taken and stored."""
        if self.kept is not None and (task.id, number) in self.collector.store:
            return self.kept.trace(task.id, number)
        trace = await self.collector.take(task, number, self.players)
        assert trace is not None, "there is no spend cap in training"
        return trace

    async def evaluate(self, version: int) -> Run:
        """Measure the published weights on held-out tasks, as a run of its own; read if it is stored.

        Before the first step and after the last, also on the variants of the tasks.
        """
        place = self.path / "evaluations" / f"{version:06d}"
        usual = self.recipe.evaluation.sampling or self.recipe.sampling
        measured = await self._measure(place, self.heldout, usual)
        for name, variant in self.recipe.evaluation.variants.items() if version in {0, self.recipe.steps} else ():
            plan, sampling = (
                (self.heldout, variant) if isinstance(variant, Sampling) else (_apply_variant(self.heldout, variant), usual)
            )
            await self._measure(variant_place(place, name), plan, sampling)
        return measured

    async def _measure(self, place: Path, plan: RunPlan, sampling: Sampling) -> Run:
        if (place / "manifest.json").is_file() and len(RunReader(place)) == plan.num_rollouts:
            return Run(place)
        select = Selection(split=Split.HELDOUT, group=self.recipe.evaluation.group)
        config = _config(self.recipe, self.env, select, sampling)
        # The same seeds at every version: differences are the weights'.
        prepared = await prepare_run(self.env, config, plan, name=self.collector.name + EVALUATION)
        async with self.collector.open_beside(prepared, place, self.policies(sampling)) as measuring:
            await measuring.collect(plan)
        if measuring.collection.stopped is not None:
            self.collection.stop(measuring.collection.stopped, tripped=measuring.collection.tripped)
            await anyio.lowlevel.checkpoint()  # ends here
        return Run(place)

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
    env = load(recipe.env) if not isinstance(recipe.env, Environment) else recipe.env
    tasks = curriculum_tasks(recipe.curriculum, env)
    select = Selection(tasks=tasks, split=Split.TRAIN, group=recipe.group, training=True)
    config = _config(recipe, env, select, recipe.sampling)
    plan = _selected(plan_run(env, config), recipe)
    folder = await off_loop("folder_of", lambda: model_folder(recipe.model))
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    # The same recipe draws the same, wherever its run directory is.
    prepared = await prepare_run(env, config, plan, name=f"{recipe.name}/{recipe.seed}")
    manifest_of(prepared, path)  # refuses another run's directory before a model is loaded
    renderer = await off_loop("open_renderer", lambda: open_renderer(folder))
    pairs = await off_loop("load_pairs", lambda: _pairs_of(recipe, renderer, folder))
    record = functools.partial(training_record, prepared.facts, env.name, path.name)
    checkpoints = Checkpoints(path / "checkpoints", folder, record)
    standing = checkpoints.newest() or TrainingState(version=0, groups=0)
    async with (
        _open_learner(recipe, folder) as (trainer, sampled),
        open_publisher(recipe, sampled, path, folder, env.limits.time_s) as publisher,
        _open_teacher(recipe, env) as teacher,
        open_collector(prepared, path, collection=collection, sink=sink) as collector,
    ):
        write_recipe(recipe, path)
        if pairs is not None:
            require_same_pairs(pairs.used, path)
        if standing.version:
            await off_loop("restore", lambda: checkpoints.restore(trainer, standing))
        training = Training(
            recipe=recipe,
            path=path,
            env=env,
            tasks=list(plan.tasks),
            heldout=_heldout(env, recipe),
            collector=collector,
            publisher=publisher,
            teacher=teacher,
            renderer=renderer,
            trainer=trainer,
            checkpoints=checkpoints,
            standing=standing,
            kept=RunReader(path) if collector.store.done_keys() else None,
            pairs=pairs,
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


@asynccontextmanager
async def _open_teacher(recipe: Recipe, env: Environment) -> AsyncGenerator[Policies | None]:
    if recipe.teacher is None:
        yield None
        return
    async with open_policies(ModelConfig(spec=recipe.teacher), recipe.agent, env) as players:
        yield players


def _config(recipe: Recipe, env: Environment, select: Selection, sampling: Sampling) -> RunConfig:
    return RunConfig(
        env=str(env.source or env.name),
        model=ModelConfig(spec=recipe.model, sampling=sampling),
        select=select,
        agent=recipe.agent,
        user=user_config(recipe.user),
        sandbox=recipe.sandbox,
        at_once=recipe.at_once,
    )


def _heldout(env: Environment, recipe: Recipe) -> RunPlan:
    """The held-out tasks of every evaluation."""
    evaluation = recipe.evaluation
    worded = [name for name, variant in evaluation.variants.items() if not isinstance(variant, Sampling)]
    if worded and dialogue_of(env) is not None:
        raise ConfigError(
            f"recipe `{recipe.name}`: variant `{worded[0]}` changes prompts, but `{env.name}` is one function, and what it "
            "asks is not in its tasks' prompts; vary the sampling instead (`Sampling(temperature=0)`)"
        )
    config = _config(recipe, env, Selection(split=Split.HELDOUT, group=evaluation.group), recipe.sampling)
    plan = _selected(plan_run(env, config), recipe)
    chosen = sorted(plan.tasks, key=lambda task: derive_seed("heldout", recipe.seed, task.id))[: evaluation.tasks]
    return RunPlan(tuple(chosen), (evaluation.group,) * len(chosen))


def _apply_variant(plan: RunPlan, variant: Callable[[Task], Task]) -> RunPlan:
    """The same tasks, rephrased by a variant."""
    with boundary(ConfigError, f"variant `{getattr(variant, '__qualname__', variant)}`"):
        tasks = tuple(variant(task) for task in plan.tasks)
    if [task.id for task in tasks] != [task.id for task in plan.tasks]:
        raise ConfigError(
            f"variant `{getattr(variant, '__qualname__', variant)}` changed the id of a task; change its prompt only"
        )
    return RunPlan(tasks, plan.counts)


def _selected(plan: RunPlan, recipe: Recipe) -> RunPlan:
    """The tasks of a plan that the recipe selects; every task of the plan has the same number of rollouts."""
    if recipe.select is None:
        return plan
    tasks = tuple(task for task in plan.tasks if recipe.select(task.public()))
    if not tasks:
        raise ConfigError(f"recipe `{recipe.name}`: `select` returned False for all {len(plan.tasks)} tasks")
    return RunPlan(tasks, plan.counts[: len(tasks)])
