"""One environment of an open training: its tasks, its held-out tasks, and the collector of its rollouts.

Each has a run directory of its own. A training of one environment has just one of them, which is the training's directory.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.rubric import RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import Split, derive_seed
from sandlot.env.environment import Environment
from sandlot.env.function import dialogue_of
from sandlot.model.wire.server_load import LoadOf, load_of
from sandlot.observe.events import Sink, fan_out
from sandlot.run.admission_watch import AdmissionWatch
from sandlot.run.collector import Collection, Collector, open_collector
from sandlot.run.config import RunConfig, RunPlan, Selection, plan_run, seats_config
from sandlot.run.curriculum import curriculum_tasks
from sandlot.run.prepare import PreparedRun, manifest_of, prepare_run
from sandlot.run.results import Run
from sandlot.run.slots import Slots
from sandlot.store.reader import RunReader
from sandlot.train.choices import result_of
from sandlot.train.own_policy import SHARED
from sandlot.train.recipe import Recipe
from sandlot.train.report.summary import variant_place
from sandlot.train.rows import learner_scores
from sandlot.train.training_env import TrainingEnv, training_place
from sandlot.train.weights import GroupResult
from sandlot.wiring.config import ModelConfig, user_config
from sandlot.wiring.models import open_policies, require_sight
from sandlot.wiring.parts import Players

EVALUATION = "/evaluation"
"""Ends the name of a run that measures held-out tasks."""


@dataclass(frozen=True, slots=True)
class PreparedEnvironment:
    """An environment of a training before anything is opened."""

    recipe: Recipe
    settings: TrainingEnv
    path: Path
    """Its run directory."""
    policies: dict[str, PreparedRun]
    """The same run for each policy that learns, with the policy's own model: its setting, and how that differs from the one the
    model was trained in. The shared model's is the first, if it plays a seat."""
    heldout: RunPlan

    @property
    def run(self) -> PreparedRun:
        """The run as it is stored, with the model of the first policy."""
        return next(iter(self.policies.values()))

    @property
    def env(self) -> Environment:
        """The environment itself."""
        return self.run.env


@dataclass(frozen=True, slots=True)
class OpenEnvironment:
    """An environment of a training, open."""

    prepared: PreparedEnvironment
    collector: Collector
    teacher: Policies | None
    """The model whose turns are imitated; None if the model learns from its own rollouts."""
    kept: RunReader | None
    """The rollouts of earlier sittings."""
    watch: AdmissionWatch | None = None
    """Finds out how many rollouts may be in flight, if the recipe asks for that."""
    load: LoadOf | None = None
    """Asks the servers of the model in training how busy they are."""

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.prepared.env.name

    @property
    def learning_seats(self) -> tuple[str, ...]:
        """The seats whose players learn; none where a single agent acts."""
        frozen = self.prepared.settings.frozen
        return tuple(seat.name for seat in self.prepared.env.seats if seat.name not in frozen)

    @property
    def heldout(self) -> RunPlan:
        """The held-out tasks of every evaluation."""
        return self.prepared.heldout

    def group_results(self, size: int) -> dict[tuple[str, int], GroupResult]:
        """What the stored groups of earlier sittings came to, by task and number of the group."""
        if self.learning_seats:
            return self._seat_results(size)
        found: dict[tuple[str, int], GroupResult] = {}
        table = self.kept.table(["task", "rollout", "score", "passed"]) if self.kept is not None else None
        for task, rollout, score, passed in zip(*(column.to_pylist() for column in table.columns), strict=True) if table else ():
            if score is not None:
                before = found.get((task, rollout // size), GroupResult(0, 0, 0.0))
                found[task, rollout // size] = GroupResult(before.scored + 1, before.passed + passed, before.score + score)
        return found

    def _seat_results(self, size: int) -> dict[tuple[str, int], GroupResult]:
        """As `group_results`, by the scores of the seats that learn, which only the traces have."""
        found: defaultdict[tuple[str, int], list[RubricScore]] = defaultdict(list)
        for trace in self.kept.traces() if self.kept is not None else ():
            found[trace.task, trace.rollout // size] += learner_scores(trace, self.learning_seats)
        return {key: result_of(scores) for key, scores in found.items() if scores}

    async def rollout(self, task: Task, number: int, players: Callable[[], Players]) -> Trace:
        """One rollout to learn from: read if it is stored, else taken and stored."""
        if self.kept is not None and (task.id, number) in self.collector.store:
            return self.kept.trace(task.id, number)
        trace = await self.collector.take(task, number, players)
        assert trace is not None, "there is no spend cap in training"
        return trace

    async def evaluate(self, version: int, players: Callable[[Sampling], Players]) -> Run:
        """Measure on held-out tasks, as a run of its own; before the first step and after the last also on their variants."""
        recipe = self.prepared.recipe
        place = self.prepared.path / "evaluations" / f"{version:06d}"
        usual = recipe.evaluation.sampling or recipe.sampling
        measured = await self._measure(place, self.heldout, usual, players)
        for name, variant in recipe.evaluation.variants.items() if version in {0, recipe.steps} else ():
            plan, sampling = (
                (self.heldout, variant) if isinstance(variant, Sampling) else (_apply_variant(self.heldout, variant), usual)
            )
            await self._measure(variant_place(place, name), plan, sampling, players)
        return measured

    async def _measure(self, place: Path, plan: RunPlan, sampling: Sampling, players: Callable[[Sampling], Players]) -> Run:
        if (place / "manifest.json").is_file() and len(RunReader(place)) == plan.num_rollouts:
            return Run(place)
        prepared, collection = self.prepared, self.collector.collection
        select = Selection(split=Split.HELDOUT, group=prepared.recipe.evaluation.group)
        config = _config(prepared.recipe, prepared.settings, prepared.env, select, sampling)
        # The same seeds at every version: differences are the weights'.
        run = await prepare_run(prepared.env, config, plan, name=self.collector.name + EVALUATION)
        async with self.collector.open_beside(run, place, players(sampling)) as measuring:
            with self.in_watched_room(measuring):
                await measuring.collect(plan)
        if measuring.collection.stopped is not None:
            collection.stop(measuring.collection.stopped, tripped=measuring.collection.tripped)
            await anyio.lowlevel.checkpoint()  # ends here
        return Run(place)

    def in_watched_room(self, collector: Collector) -> AbstractContextManager[None]:
        """The rollouts of a collector are in the room: of the teacher if there is one and they are not measured, else our own."""
        if self.watch is None:
            return nullcontext()
        recipe = self.prepared.recipe
        taught = self.teacher if collector is self.collector else None
        return self.watch.joined(
            collector.name,
            collector.sink,
            sandboxed=self.prepared.env.image is not None,
            here=True,
            model=(recipe.teacher if taught is not None else None) or recipe.server or self.prepared.run.config.model.spec,
            load=self.load if taught is None else load_of(taught),
        )


async def prepare_environments(recipe: Recipe, path: Path) -> list[PreparedEnvironment]:
    """Load the environments of a recipe and choose their tasks; refuse what cannot be trained."""
    loaded = [(settings, settings.load()) for settings in recipe.environments]
    names = [env.name for _, env in loaded]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise ConfigError(f"recipe `{recipe.name}`: two environments have the name `{twice}`; leave one out, or rename it")
    found: list[PreparedEnvironment] = []
    for settings, env in loaded:
        select = Selection(tasks=curriculum_tasks(settings.curriculum, env), split=Split.TRAIN, group=recipe.group, training=True)
        configs = {
            policy: _config(recipe, settings, env, select, recipe.sampling, policy) for policy in _policies_of(settings, env)
        }
        plan = _selected(plan_run(env, next(iter(configs.values()))), recipe, settings)
        if env.seats and len(settings.frozen) == len(env.seats):
            raise ConfigError(f"recipe `{recipe.name}`: no seat of `{env.name}` learns; leave one out of `seats`")
        _require_seats(recipe, settings, env)
        # The same recipe draws the same, wherever its run directory is.
        draws = f"{recipe.name}/{recipe.seed}" + (f"/{env.name}" if env.name != names[0] else "")
        for config in configs.values():
            require_sight(config.model, env)
        runs = {policy: await prepare_run(env, config, plan, name=draws) for policy, config in configs.items()}
        place = training_place(path, env.name, names)
        manifest_of(next(iter(runs.values())), place)  # refuses another run's directory before a model is loaded
        found.append(PreparedEnvironment(recipe, settings, place, runs, _heldout(env, recipe, settings)))
    return found


def _policies_of(settings: TrainingEnv, env: Environment) -> list[str]:
    """The names of the policies that learn: the shared one first, unless every seat that learns has one of its own."""
    own = list(settings.own_policies)
    shared = not own or any(seat.name not in (settings.seats or {}) for seat in env.seats)
    return [SHARED, *own] if shared else own


def _require_seats(recipe: Recipe, settings: TrainingEnv, env: Environment) -> None:
    names = [seat.name for seat in env.seats]
    unknown = [seat for seat in settings.own_policies if seat not in names]
    if unknown:
        known = ", ".join(names) or "none"
        raise ConfigError(f"recipe `{recipe.name}`: environment `{env.name}` has no seat `{unknown[0]}`; its seats: {known}")


@asynccontextmanager
async def open_environments(
    prepared: Sequence[PreparedEnvironment],
    collection: Collection,
    sink: Sink,
    watch: AdmissionWatch | None = None,
    load: LoadOf | None = None,
) -> AsyncGenerator[dict[str, OpenEnvironment]]:
    """Open the environments of a training, by name, with one room for their rollouts in flight.

    The events of all of them are in the log of the first, whose directory is the training's. With `watch`, the room is the one
    that is watched; `load` asks the servers of the model in training how busy they are.
    """
    opened: dict[str, OpenEnvironment] = {}
    slots: Slots | None = None
    room = watch.room if watch is not None else None
    sink = fan_out(watch.receive, sink) if watch is not None else sink
    async with AsyncExitStack() as stack:
        for each in prepared:
            most = each.settings.at_once
            if slots is None:
                slots = own = Slots(each.recipe.at_once, room=room, most=most)
            else:
                own = slots.share(most=most)
            teacher = await stack.enter_async_context(_open_teacher(each.recipe, each.env))
            collector = await stack.enter_async_context(
                open_collector(each.run, each.path, collection=collection, sink=sink, slots=own)
            )
            kept = RunReader(each.path) if collector.store.done_keys() else None
            env = opened[each.env.name] = OpenEnvironment(each, collector, teacher, kept, watch, load)
            stack.enter_context(env.in_watched_room(collector))
            sink = next(iter(opened.values())).collector.sink
        yield opened


@asynccontextmanager
async def _open_teacher(recipe: Recipe, env: Environment) -> AsyncGenerator[Policies | None]:
    if recipe.teacher is None:
        yield None
        return
    async with open_policies(ModelConfig(spec=recipe.teacher), recipe.agent, env) as players:
        yield players


def _config(
    recipe: Recipe,
    settings: TrainingEnv,
    env: Environment,
    select: Selection,
    sampling: Sampling,
    policy: str | None = None,
) -> RunConfig:
    """The run of rollouts, with the model of a policy that learns; None for the first one."""
    policy = _policies_of(settings, env)[0] if policy is None else policy
    return RunConfig(
        env=str(env.source or env.name),
        model=ModelConfig(spec=recipe.for_policy(policy).model, sampling=sampling),
        select=select,
        agent=recipe.agent,
        user=user_config(settings.user),
        sandbox=recipe.sandbox,
        at_once=recipe.at_once,
        seats=seats_config({name: ModelConfig(spec=spec, sampling=sampling) for name, spec in settings.frozen.items()}),
    )


def _heldout(env: Environment, recipe: Recipe, settings: TrainingEnv) -> RunPlan:
    evaluation = recipe.evaluation
    worded = [name for name, variant in evaluation.variants.items() if not isinstance(variant, Sampling)]
    if worded and dialogue_of(env) is not None:
        raise ConfigError(
            f"recipe `{recipe.name}`: variant `{worded[0]}` changes prompts, but `{env.name}` is one function, and what it "
            "asks is not in its tasks' prompts; vary the sampling instead (`Sampling(temperature=0)`)"
        )
    config = _config(recipe, settings, env, Selection(split=Split.HELDOUT, group=evaluation.group), recipe.sampling)
    plan = _selected(plan_run(env, config), recipe, settings)
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


def _selected(plan: RunPlan, recipe: Recipe, settings: TrainingEnv) -> RunPlan:
    """The tasks of a plan that the recipe selects; every task of the plan has the same number of rollouts."""
    rules = [select for select in (recipe.select, settings.select) if select is not None]
    if not rules:
        return plan
    tasks = tuple(task for task in plan.tasks if all(select(task.public()) for select in rules))
    if not tasks:
        raise ConfigError(f"recipe `{recipe.name}`: `select` returned False for all {len(plan.tasks)} tasks")
    return RunPlan(tasks, plan.counts[: len(tasks)])
