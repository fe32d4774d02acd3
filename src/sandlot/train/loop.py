"""The training loop on one screen: collect groups, weigh their tokens, update, keep, publish, evaluate.

Rollouts run ahead of learning by as many versions as the recipe allows and no further (`groups.py`); what an algorithm is and how
weights reach the engine are the parts' affair. A run that was killed goes on when this is called again.
"""

import time
from pathlib import Path

import anyio.lowlevel
import msgspec

from sandlot.analysis.alarm import Alarm
from sandlot.core.concurrency.threads import off_loop
from sandlot.core.trace import Trace, TraceRow
from sandlot.run.collect import Collection, stopped_by_signals
from sandlot.train.algorithms.algorithms import teaches
from sandlot.train.groups import Groups, open_groups, task_order
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import Learned, Measured, TrainingProgress, WentBack, summarise_evaluation, summarise_step
from sandlot.train.rows import Group, group_of
from sandlot.train.training import Training, open_training


async def learn(recipe: Recipe, path: Path, watch: "Watcher | None" = None) -> TrainingProgress:
    """Learn until the recipe's last step; everything lies in `path`, and how it went is returned."""
    watcher = watch or Watcher()
    collection = Collection()
    async with stopped_by_signals(collection), open_training(recipe, path, collection, watcher.rollout) as run:
        progress = TrainingProgress.resume(path, run.standing.version)
        watcher.begin(run, progress)
        with collection.scope:
            await _evaluate(run, progress, watcher)
            async with open_groups(_groups_of(run)) as groups:
                for version in range(run.standing.version + 1, recipe.steps + 1):
                    started = time.monotonic()
                    batch, traces = await _collect_batch(run, groups)
                    examples = recipe.algorithm(batch, run.trainer.values if recipe.critic else None)
                    update = await off_loop("update", lambda examples=examples: run.trainer.update(examples))
                    seconds = time.monotonic() - started
                    # Before the weights are kept: a crash between the two learns the step again, and never loses its line.
                    progress.add(summarise_step(version, batch, traces, update, seconds, recipe))
                    await run.keep(msgspec.structs.replace(run.standing, version=version, groups=groups.taken))
                    await run.publish(version)
                    groups.published()
                    watcher.learned(progress.steps[-1], progress.check_alarm())
                    await _evaluate(run, progress, watcher)
                    await _require_learning(run, progress, watcher)
    progress.stopped, progress.tripped = collection.stopped, collection.tripped
    return progress


def _groups_of(run: Training) -> Groups:
    """Tasks in shuffled order, each again and again, from where the run stood."""
    recipe = run.recipe
    return Groups(
        run.rollout,
        task_order(run.tasks, recipe.seed),
        size=recipe.group,
        step=recipe.tasks,
        staleness=recipe.staleness,
        first=run.standing.groups,
        steps=max(0, recipe.steps - run.standing.version),
    )


async def _collect_batch(run: Training, groups: Groups) -> tuple[list[Group], list[Trace]]:
    """The groups of one step: further ones in place of those that teach nothing, as long as the recipe allows."""
    recipe = run.recipe
    batch: list[Group] = []
    traces: list[Trace] = []
    missing = recipe.tasks
    while missing:
        for task, members in await groups.next(missing):
            batch.append(group_of(task.id, members, recipe.reward))
            traces += members
        missing = recipe.tasks - sum(teaches(recipe.algorithm, group) for group in batch)
        missing = min(missing, recipe.tasks * recipe.resample - len(batch))
    return batch, traces


async def _evaluate(run: Training, progress: TrainingProgress, watcher: "Watcher") -> None:
    """Measure the published weights when it is time; remember the best, and go back to them when it has gone wrong."""
    recipe, version = run.recipe, run.standing.version
    if version % recipe.evaluation.every and version != recipe.steps:
        return
    if not any(line.version == version for line in progress.evaluations):
        watcher.measuring(version, run.heldout.num_rollouts)
        progress.add(summarise_evaluation(version, await run.evaluate(version), run.path))
        watcher.measured(progress.evaluations[-1])
    best = progress.best
    assert best is not None
    if run.standing.best != best.version:
        await run.mark(best)
    fallen = best.mean - progress.evaluations[-1].mean
    gone_back = any(line.version == version for line in progress.rollbacks)
    if recipe.evaluation.rollback is not None and fallen > recipe.evaluation.rollback and not gone_back:
        await run.go_back(best.version)
        progress.add(WentBack(version=version, best=best.version))
        watcher.went_back(version, best.version)


async def _require_learning(run: Training, progress: TrainingProgress, watcher: "Watcher") -> None:
    """Warn, and later stop, when step after step nothing was learned from."""
    recipe = run.recipe
    if progress.idle and progress.idle == recipe.warn_idle:
        watcher.warned(progress.why_idle())
    if recipe.stop_idle and progress.idle >= recipe.stop_idle and run.standing.version < recipe.steps:
        run.collection.stop(progress.why_idle(), tripped=True)
        await anyio.lowlevel.checkpoint()  # ends here


class Watcher:
    """Sees a training run go on; the command line draws it."""

    def begin(self, run: Training, progress: TrainingProgress) -> None:
        """It is about to start, or to continue."""

    def rollout(self, row: TraceRow) -> None:
        """One more rollout of a measurement is on disk."""

    def learned(self, step: Learned, alarm: Alarm | None = None) -> None:
        """The weights have moved; with an alarm, if this step raised one."""

    def measuring(self, version: int, num_rollouts: int) -> None:
        """Held-out tasks are about to be measured."""

    def measured(self, evaluation: Measured) -> None:
        """Held-out tasks were measured."""

    def went_back(self, version: int, best: int) -> None:
        """Weights of an earlier version are in place again."""

    def warned(self, sentence: str) -> None:
        """Something is wrong, and the training goes on for now."""

    def untracked(self, tracker: str, reason: str) -> None:
        """A tracker failed and is left out from here on; the training goes on."""
