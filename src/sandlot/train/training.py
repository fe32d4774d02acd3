"""What a training run holds while it lives: the environment's parts, the engine, the trainer, and where everything is kept.

Engine and trainer are in this process, each with weights of its own, or a server samples (`publish.py`). The run directory is an
ordinary one, so that `sandlot show`, `replay` and `tokens` work on what was trained on.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies, Users
from sandlot.core.task import Task
from sandlot.core.trace import Trace, TraceRow
from sandlot.core.types import Split, derive_seed
from sandlot.env.environment import Environment
from sandlot.env.function import dialogue_of
from sandlot.env.load import load
from sandlot.model.engine.weights import folder_of
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.policy.demonstrated import DemonstratedPolicies, TurnRenderer
from sandlot.model.policy.rendered import rendered
from sandlot.model.render.open import open_renderer
from sandlot.run.breaker import Breaker
from sandlot.run.collect import Collection, collect, take
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run
from sandlot.run.curriculum import curriculum_tasks
from sandlot.run.manifest import gather_facts
from sandlot.run.results import Run
from sandlot.run.run import manifest_of
from sandlot.run.trained import setting_differences, training_record
from sandlot.store.directory import RunDirectory, open_run
from sandlot.store.reader import RunReader
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.leader import Learner, open_leader
from sandlot.train.learner import build_trainer, copy_decoder
from sandlot.train.parallel.ranks import open_ranks
from sandlot.train.publish import Publisher, open_publisher, require_agreement
from sandlot.train.recipe import Recipe, require_same_recipe, write_recipe
from sandlot.train.report.progress import Measured
from sandlot.train.report.summary import variant_place
from sandlot.wiring.config import ModelConfig, user_config
from sandlot.wiring.models import open_policies, open_users
from sandlot.wiring.parts import Grading, RolloutParts, open_grading, open_harness

_ATTEMPTS = 2


@dataclass(slots=True)
class Training:
    """One training run, open."""

    recipe: Recipe
    path: Path
    env: Environment
    tasks: list[Task]
    heldout: RunPlan
    grading: Grading
    publisher: Publisher
    users: Users | None
    """Who plays the environment's persona; None for the author's own replies, or none."""
    teacher: Policies | None
    """Who shows how it is done; None if the model learns from what it does itself."""
    renderer: TurnRenderer
    trainer: Learner
    checkpoints: Checkpoints
    standing: TrainingState
    store: RunDirectory
    kept: RunReader | None
    """What earlier sittings left."""
    collection: Collection
    breaker: Breaker
    limiter: anyio.CapacityLimiter
    watch: Callable[[TraceRow], None]
    elsewhere: tuple[str, ...] = ()
    """How this setting differs from the one the model was trained in before, where that is known."""

    @property
    def name(self) -> str:
        """What random draws are made from: the same recipe draws the same, wherever its run lies."""
        return f"{self.recipe.name}/{self.recipe.seed}"

    def parts(self, policies: Policies) -> RolloutParts:
        """Everything a rollout needs."""
        return RolloutParts(grading=self.grading, policies=policies, harness=open_harness(self.recipe.agent), users=self.users)

    def policies(self, sampling: Sampling) -> Policies:
        """The model with the weights as they are published."""
        return rendered(self.publisher.model, self.renderer, sampling)

    def players(self) -> Policies:
        """Who plays what is learned from: the model, or its teacher in the model's tokens."""
        if self.teacher is None:
            return self.policies(self.recipe.sampling)
        return DemonstratedPolicies(self.teacher, self.renderer, self.standing.version)

    async def rollout(self, task: Task, number: int) -> Trace:
        """One rollout to learn from: read if it is there, else taken and kept."""
        if self.kept is not None and (task.id, number) in self.store:
            return self.kept.trace(task.id, number)
        async with self.limiter:
            trace = await take(
                self.parts(self.players()),
                self.store,
                task,
                number,
                collection=self.collection,
                run=self.name,
                attempts=_ATTEMPTS,
                breaker=self.breaker,
            )
        assert trace is not None, "nothing is paid for here"
        return trace

    async def evaluate(self, version: int) -> Run:
        """Held-out tasks with the published weights, as a run of its own; read if it is there.

        Before the first step and after the last, their variants too, beside it.
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
        manifest = await manifest_of(place, self.env, config, plan)
        measuring = Collection()
        async with open_run(place, manifest=manifest) as store:
            await collect(
                plan,
                self.parts(self.policies(sampling)),
                store,
                collection=measuring,
                run=f"{self.name}/evaluation",  # the same seeds at every version: differences are the weights'
                at_once=self.recipe.at_once,
                attempts=_ATTEMPTS,
                breaker=Breaker(num_tasks=len(plan.tasks)),
                watch=self.watch,
            )
        if measuring.stopped is not None:
            self.collection.stop(measuring.stopped, tripped=measuring.tripped)
            await anyio.lowlevel.checkpoint()  # ends here
        return Run(place)

    async def keep(self, standing: TrainingState) -> None:
        """Write weights and state to disk: from here a crash goes on."""
        self.standing = standing
        await off_loop("keep", lambda: self.checkpoints.keep(self.trainer, standing))

    async def mark(self, best: Measured) -> None:
        """Remember which version is best: its weights stay until a better one comes."""
        self.standing = msgspec.structs.replace(self.standing, best=best.version, best_score=best.mean)
        if not self.checkpoints.place(self.standing.version).is_dir():
            await self.keep(self.standing)
        if best.version == self.standing.version:
            await off_loop("export", lambda: self.checkpoints.export(self.trainer.whole(), best.version))
        await off_loop("mark", lambda: self.checkpoints.mark(self.standing))

    async def go_back(self, version: int) -> None:
        """Learn on from the weights of an earlier version; the count of versions goes on."""
        await off_loop("weights", lambda: self.trainer.overwrite(lambda decoder: self.checkpoints.put(decoder, version)))
        await self.keep(self.standing)
        await self.publish(self.standing.version)

    async def publish(self, version: int) -> None:
        """Sample with the trainer's weights from the next token on."""
        decoder = await off_loop("whole", self.trainer.whole)
        await self.publisher.publish(version, decoder)


@asynccontextmanager
async def open_training(
    recipe: Recipe, path: Path, collection: Collection, watch: Callable[[TraceRow], None]
) -> AsyncGenerator[Training]:
    """Load everything a recipe names, and go on where the run stood."""
    require_same_recipe(recipe, path)
    env = load(recipe.env) if not isinstance(recipe.env, Environment) else recipe.env
    tasks = curriculum_tasks(recipe.curriculum, env)
    select = Selection(tasks=tasks, split=Split.TRAIN, group=recipe.group, training=True)
    config = _config(recipe, env, select, recipe.sampling)
    plan = _selected(plan_run(env, config), recipe)
    folder = await off_loop("folder_of", lambda: folder_of(recipe.model))
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    facts = await gather_facts(env, config, plan)
    elsewhere = await off_loop("setting", lambda: setting_differences(config.model, facts, env.name))
    manifest = await manifest_of(path, env, config, plan, facts)
    checkpoints = Checkpoints(path / "checkpoints", folder, lambda version: training_record(facts, env.name, path.name, version))
    standing = checkpoints.newest() or TrainingState(version=0, groups=0)
    async with (
        _open_learner(recipe, folder) as (trainer, sampled),
        open_grading(env, sandbox=recipe.sandbox, pool=min(recipe.at_once, 16)) as grading,
        open_publisher(recipe, sampled, path, folder, env.limits.time_s) as publisher,
        _open_teacher(recipe, env) as teacher,
        _open_users(config.user, env) as users,
        open_run(path, manifest=manifest) as store,
    ):
        write_recipe(recipe, path)
        if standing.version:
            await off_loop("restore", lambda: checkpoints.restore(trainer, standing))
        training = Training(
            recipe=recipe,
            path=path,
            env=env,
            tasks=list(plan.tasks),
            heldout=_heldout(env, recipe),
            grading=grading,
            publisher=publisher,
            users=users,
            teacher=teacher,
            renderer=await off_loop("open_renderer", lambda: open_renderer(folder)),
            trainer=trainer,
            checkpoints=checkpoints,
            standing=standing,
            store=store,
            kept=RunReader(path) if store.done_keys() else None,
            collection=collection,
            breaker=Breaker(num_tasks=len(plan.tasks)),
            limiter=anyio.CapacityLimiter(recipe.at_once),
            watch=watch,
            elsewhere=elsewhere,
        )
        await training.publish(standing.version)
        if recipe.server is not None:
            await require_agreement(publisher.model, trainer, training.renderer, recipe.sampling)
        yield training


@asynccontextmanager
async def _open_learner(recipe: Recipe, folder: Path) -> AsyncGenerator[tuple[Learner, Decoder | None]]:
    """What learns, over all processes of the run, and weights of its own for the engine to sample from, where one does."""
    with ExitStack() as opened:
        ranks = await off_loop("open_ranks", lambda: opened.enter_context(open_ranks(recipe.device)))
        own = recipe.device if ranks.count == 1 else "cpu"  # several take them to their devices a layer at a time
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


@asynccontextmanager
async def _open_users(user: ModelConfig | None, env: Environment) -> AsyncGenerator[Users | None]:
    if user is None:
        yield None
        return
    async with open_users(user, env) as users:
        yield users


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
    """The held-out tasks that are measured: the same ones every time."""
    evaluation = recipe.evaluation
    worded = [name for name, variant in evaluation.variants.items() if not isinstance(variant, Sampling)]
    if worded and dialogue_of(env) is not None:
        raise ConfigError(
            f"recipe `{recipe.name}`: variant `{worded[0]}` changes prompts, and `{env.name}` is one function: what it "
            "asks is not in its tasks' prompts; vary the sampling instead (`Sampling(temperature=0)`)"
        )
    config = _config(recipe, env, Selection(split=Split.HELDOUT, group=evaluation.group), recipe.sampling)
    plan = _selected(plan_run(env, config), recipe)
    chosen = sorted(plan.tasks, key=lambda task: derive_seed("heldout", recipe.seed, task.id))[: evaluation.tasks]
    return RunPlan(tuple(chosen), (evaluation.group,) * len(chosen))


def _apply_variant(plan: RunPlan, variant: Callable[[Task], Task]) -> RunPlan:
    """The same tasks put otherwise."""
    with boundary(ConfigError, f"variant `{getattr(variant, '__qualname__', variant)}`"):
        tasks = tuple(variant(task) for task in plan.tasks)
    if [task.id for task in tasks] != [task.id for task in plan.tasks]:
        raise ConfigError(
            f"variant `{getattr(variant, '__qualname__', variant)}` changed the id of a task; change its prompt only"
        )
    return RunPlan(tasks, plan.counts)


def _selected(plan: RunPlan, recipe: Recipe) -> RunPlan:
    """The tasks the recipe wants of a plan in which each has as many rollouts."""
    if recipe.select is None:
        return plan
    tasks = tuple(task for task in plan.tasks if recipe.select(task.public()))
    if not tasks:
        raise ConfigError(f"recipe `{recipe.name}`: `select` says no to all {len(plan.tasks)} tasks")
    return RunPlan(tasks, plan.counts[: len(tasks)])
