"""The training loop on one screen: collect groups, weigh their tokens, update, save, publish, evaluate.

Rollouts run ahead of the updates by at most as many versions as the recipe allows (`groups.py`). The algorithm and the publishing
of weights are parts of their own. A training that was killed continues when this is called again.
"""

import functools
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.lowlevel
import msgspec

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.trace import Trace
from sandlot.observe.events import (
    AlarmRaised,
    EvaluationBegan,
    EvaluationEnded,
    RolledBack,
    Sink,
    StepLearned,
    TrainingBegan,
)
from sandlot.observe.lag import LoopWatch
from sandlot.observe.training_records import Collapse, Learned, WentBack
from sandlot.run.collector import Collection, stopped_by_signals
from sandlot.run.learners import model_names
from sandlot.train.algorithms.algorithms import teaches
from sandlot.train.choices import FILE as CHOICES
from sandlot.train.choices import TaskChoice, TaskChoices
from sandlot.train.groups import Groups, open_groups
from sandlot.train.open_environment import EVALUATION
from sandlot.train.pairs import PairBatches
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import Batch, TrainingProgress, summarise_evaluation, summarise_pairs, summarise_step
from sandlot.train.rows import Group, group_of, split_by_seat
from sandlot.train.tally import Update, joint_update
from sandlot.train.tracking import settings_of
from sandlot.train.training import Training, open_training
from sandlot.train.weights import GroupResult, weigh_equally


async def learn(recipe: Recipe, path: Path, sink: Sink, end: Callable[[TrainingProgress], None]) -> TrainingProgress:
    """Train until the recipe's last step, in the run directory `path`, and return how it went. `sink` receives the events.

    `end` stores the result. It is called before the run's lock is released: who sees that the run has ended finds its result.
    """
    collection = Collection()
    async with stopped_by_signals(collection), open_training(recipe, path, collection, sink) as run, LoopWatch() as lag:
        lag.report_to(run.collector.sink)
        progress = TrainingProgress.resume(path, run.standing.version)
        emit = run.collector.sink
        emit(_training_began(run, progress))
        with collection.until_stopped():
            await _mark_best(run, progress)
            await _evaluate(run, progress)
            async with _open_batches(run) as groups:
                for version in range(run.standing.version + 1, recipe.steps + 1):
                    started = time.monotonic()
                    batch = await _collect_batch(run, groups)
                    await _require_sound(run)
                    updates = await _update(run, batch, progress)
                    seconds = time.monotonic() - started
                    # Before the weights are saved: a crash between the two repeats the step, and never loses its line.
                    progress.add(_summarise(version, run, batch, updates, seconds, groups))
                    run.standing = msgspec.structs.replace(run.standing, version=version, groups=groups.taken)
                    run.updating = False
                    alarm = progress.check_alarm()
                    emit(StepLearned(step=progress.steps[-1], alarmed=alarm is not None))
                    if alarm is not None:
                        emit(AlarmRaised(kind="reward_hacking", sentence=alarm.sentence))
                    await _guard(run, progress)  # before anything is sampled with these weights
                    await run.keep_unless_stored(due=recipe.evaluates(version) or run.checkpoints.due)
                    await run.publish(version)
                    groups.published()
                    await _evaluate(run, progress)
                    await _require_learning(run, progress)
        await run.keep_unless_stored()  # after a stop in order, nothing is computed again
        progress.stopped, progress.tripped = collection.stopped, collection.tripped
        progress.admission = run.watch.record() if run.watch is not None else None
        await off_loop("end", lambda: end(progress))
    return progress


def _training_began(run: Training, progress: TrainingProgress) -> TrainingBegan:
    recipe, first = run.recipe, next(iter(run.environments.values()))
    return TrainingBegan(
        path=str(run.path),
        environment=", ".join(run.environments),
        sandboxed=any(each.prepared.env.image is not None for each in run.environments.values()),
        model=model_names(recipe.model, recipe.own_models, first.learning_seats),
        steps=recipe.steps,
        tasks=recipe.tasks,
        group=recipe.group,
        version=run.standing.version,
        heldout=progress.evaluations[-1].mean if progress.evaluations else None,
        alarmed=bool(progress.alarms),
        differences=_differences(run),
        settings=settings_of(recipe, first.learning_seats),
        pairs=len(run.pairs.groups) if run.pairs is not None else 0,
        left_out=run.pairs.used.sentence if run.pairs is not None else "",
    )


def _differences(run: Training) -> tuple[str, ...]:
    """How the setting differs from those that the models were trained in before."""
    prepared = (own for env in run.environments.values() for own in env.prepared.policies.values())
    return tuple(dict.fromkeys(each for own in prepared for each in own.differences))


def _choices_of(run: Training) -> TaskChoices:
    """The choices of tasks, with the results of the groups that the weights were trained on in earlier sittings."""
    recipe, envs = run.recipe, run.environments
    choices = TaskChoices(
        {name: env.prepared.run.plan.tasks for name, env in envs.items()},
        seed=recipe.seed,
        shares={name: env.prepared.settings.weight for name, env in envs.items()},
        seats={name: env.learning_seats for name, env in envs.items()},
        weigh=recipe.weigh or weigh_equally,
        file=run.path / CHOICES,
    )
    if run.standing.groups and recipe.weigh is not None:
        results = {name: env.group_results(recipe.group) for name, env in envs.items()}
        for number in range(run.standing.groups):
            choice = choices.at(number)
            choices.note_result(number, results[choice.environment].get((choice.task.id, choice.before), GroupResult(0, 0, 0.0)))
        choices.settle()
    return choices


def _groups_of(run: Training) -> Groups:
    """Groups of rollouts, from where the run stopped."""
    recipe = run.recipe
    return Groups(
        run.rollout,
        _choices_of(run),
        size=recipe.group,
        step=recipe.tasks,
        staleness=recipe.staleness,
        first=run.standing.groups,
        steps=max(0, recipe.steps - run.standing.version),
    )


@asynccontextmanager
async def _open_batches(run: Training) -> AsyncGenerator[Groups | PairBatches]:
    """Where batches come from: groups of rollouts, taken in the background, or pairs from a file."""
    if run.pairs is not None:
        yield PairBatches(run.pairs.groups, run.recipe.seed, run.standing.groups)
        return
    async with open_groups(_groups_of(run)) as groups:
        yield groups


async def _collect_batch(run: Training, groups: Groups | PairBatches) -> Batch:
    """The groups of one step, each with its traces. Those that teach nothing are replaced, as often as the recipe allows."""
    recipe = run.recipe
    if isinstance(groups, PairBatches):
        return [(group, []) for group in groups.next(recipe.tasks)]
    batch: list[tuple[Group, list[Trace]]] = []
    missing, taken, taught = recipe.tasks, 0, 0
    while missing:
        for choice, members in await groups.next(missing):
            run.crashed.add(members)
            seats = run.environments[choice.environment].learning_seats
            found = [
                (await _grouped(choice, seat, own, recipe.reward), own)
                for seat, own in zip(seats or ("",), split_by_seat(members, seats), strict=True)
            ]
            batch += found
            taken += 1
            taught += any(teaches(recipe.algorithm, group) for group, _ in found)
        missing = min(recipe.tasks - taught, recipe.tasks * recipe.resample - taken)
    return batch


async def _require_sound(run: Training) -> None:
    """Stop when crashes of the environment touched too many of the rewards that are about to be learned from."""
    reason = run.crashed.reason()
    if reason is not None:
        run.collection.stop(reason, tripped=True)
        await anyio.lowlevel.checkpoint()  # ends here


async def _grouped(choice: TaskChoice, seat: str, traces: list[Trace], reward: Callable[[Trace], float] | None) -> Group:
    """The group of a task and a seat; a reward of the recipe's own may take long, so it is computed in a thread."""
    make = functools.partial(group_of, choice.task.id, traces, reward, environment=choice.environment, seat=seat)
    return make() if reward is None else await off_loop("reward", make)


def _batch_of(run: Training, policy: str, batch: Batch) -> Batch:
    """The groups that one policy learns from: those of the seats that it plays."""
    return [(group, traces) for group, traces in batch if run.policy_of(group.seat) == policy]


async def _update(run: Training, batch: Batch, progress: TrainingProgress) -> dict[str, Update]:
    """Let every policy learn from its groups; the figures of each update."""
    algorithm, updates = run.recipe.algorithm, dict[str, Update]()
    examples = {
        name: algorithm([group for group, _ in _batch_of(run, name, batch)], policy.learner.values if run.recipe.critic else None)
        for name, policy in run.policies.items()
    }
    run.updating = True
    for name, policy in run.policies.items():
        update = functools.partial(policy.learner.update, examples[name], progress.rate_of(name))
        updates[name] = await off_loop("update", update)
    return updates


def _summarise(
    version: int,
    run: Training,
    batch: Batch,
    updates: Mapping[str, Update],
    seconds: float,
    groups: Groups | PairBatches,
) -> Learned:
    """The figures of one step, and if several policies learn those of each."""
    update = joint_update(list(updates.values()))
    if isinstance(groups, PairBatches):
        return summarise_pairs(version, len(batch), update, seconds)
    whole = summarise_step(version, batch, update, seconds, run.recipe, groups.weights)
    if len(updates) == 1:
        return whole
    parts = {
        name: summarise_step(version, _batch_of(run, name, batch), own, seconds, run.recipe, {}) for name, own in updates.items()
    }
    return msgspec.structs.replace(whole, policies=parts)


async def _evaluate(run: Training, progress: TrainingProgress) -> None:
    """Evaluate the published weights if it is due; mark the best version, and return to it if the score fell too far."""
    recipe, version, emit = run.recipe, run.standing.version, run.collector.sink
    if not recipe.evaluates(version):
        return
    if not any(line.version == version for line in progress.evaluations):
        first, *others = (env.collector.name + EVALUATION for env in run.environments.values())
        planned = sum(env.heldout.num_rollouts for env in run.environments.values())
        emit(EvaluationBegan(version=version, run=first, others=tuple(others), num_rollouts=planned))
        measured = await run.evaluate(version)
        own = recipe.own_policies
        progress.add(await off_loop("evaluation", lambda: summarise_evaluation(version, measured, run.path, own=own)))
        emit(EvaluationEnded(evaluation=progress.evaluations[-1]))
    await _mark_best(run, progress)
    back = {
        name: best.version
        for name in run.policies
        if (best := progress.best_of(name)) is not None
        and recipe.evaluation.rollback is not None
        and best.score_of(name) - progress.evaluations[-1].score_of(name) > recipe.evaluation.rollback
        and not progress.went_back(name, version)
    }
    if back:
        await run.go_back(back)
    for name, best in back.items():
        # After the weights are saved: a crash between the two goes back once more.
        progress.add(WentBack(version=version, best=best, policy=name))
        emit(RolledBack(version=version, best=best, policy=name))


async def _mark_best(run: Training, progress: TrainingProgress) -> None:
    """Mark the best version of every policy. A crash may have come between its evaluation and the mark."""
    for name in run.policies:
        best = progress.best_of(name)
        stored = best is not None and (best.version == run.standing.version or run.checkpoints.place(best.version).is_dir())
        if best is not None and best.version != run.standing.best.get(name) and stored:
            await run.mark(name, best.version)


async def _require_learning(run: Training, progress: TrainingProgress) -> None:
    """Warn, and later stop, when no group of several steps in a row had a training signal."""
    recipe = run.recipe
    if progress.idle and progress.idle == recipe.warn_idle:
        run.collector.sink(AlarmRaised(kind="idle", sentence=progress.why_idle()))
    if recipe.stop_idle and progress.idle >= recipe.stop_idle and run.standing.version < recipe.steps:
        await run.keep_unless_stored()  # continues after these steps
        run.collection.stop(progress.why_idle(), tripped=True)
        await anyio.lowlevel.checkpoint()  # ends here


async def _guard(run: Training, progress: TrainingProgress) -> None:
    """Look whether a policy is about to collapse, and do what the recipe says; after the last step only say it."""
    guard, version = run.recipe.guard, run.standing.version
    action = guard.on_collapse if version < run.recipe.steps else "warn"
    found: list[Collapse] = []
    back: dict[str, int] = {}
    for name in run.policies:
        why, best = progress.check_collapse(guard.window, name), progress.best_of(name)
        if why is None:
            continue
        if action == "roll_back" and best is not None:
            back[name] = best.version
            progress.add(WentBack(version=version, best=best.version, policy=name))
        rate = progress.rate_of(name) * (guard.factor if action in {"roll_back", "shrink"} else 1.0)
        found.append(Collapse(version=version, why=why, action=action, rate=rate, policy=name))
        progress.add(found[-1])
        run.collector.sink(AlarmRaised(kind="collapse", sentence=found[-1].sentence))
    if not found:
        return
    # The weights of this version are not on disk yet: after a crash before they are, the step and its verdicts are repeated.
    if back:
        await run.go_back(back)
    for name, best in back.items():
        run.collector.sink(RolledBack(version=version, best=best, policy=name))
    await run.keep_unless_stored()
    if action == "stop":
        run.collection.stop("; ".join(each.sentence for each in found), tripped=True)
        await anyio.lowlevel.checkpoint()  # ends here
