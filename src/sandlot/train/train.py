"""A training run, from a recipe to its report. This is what `sandlot train` and `sandlot.train` call.

The same call on the same folder continues a run that was interrupted. With a changed recipe it is refused: the result would be a
run of neither.
"""

import signal
import time
from pathlib import Path

import torch

from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.folder import load_folder
from sandlot.observe.events import Sink, fan_out, ignore_event
from sandlot.run.results import Sitting, note_sitting
from sandlot.run.run import cpu_seconds
from sandlot.train.leader import follow
from sandlot.train.learner import build_trainer
from sandlot.train.learning_policy import require_one_process
from sandlot.train.loop import learn
from sandlot.train.parallel.ranks import is_leader, open_ranks
from sandlot.train.recipe import Recipe
from sandlot.train.report.html import write_report
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.tracking import open_tracking


def train(recipe: Recipe, *, run: str | Path | None = None, sink: Sink = ignore_event) -> TrainingProgress:
    """Train a recipe, write checkpoints and a report, and return the `TrainingProgress`: steps, evaluations, alarms.

    The same call continues a training that was interrupted. With a changed recipe it is refused. Inside an event loop, await
    `train_async` instead.

    - `recipe`: what to train; `sandlot.train.recipe.load_recipe("path.py")` reads one from a file.
    - `run`: the run directory. Default: `runs/NAME`.
    - `sink`: receives the events: steps, evaluations, alarms and rollouts.

    ```python
    import sandlot
    from sandlot.train import Evaluation

    measured = Evaluation(tasks=1, group=1)
    recipe = sandlot.Recipe(name="tiny", env="drill", steps=1, tasks=1, group=2, resample=1, evaluation=measured)
    progress = sandlot.train(recipe)
    assert len(progress.evaluations) == 2  # before the first step and after the last
    ```
    """
    if not is_leader():
        return _follow_training(recipe, place_of(recipe, run))
    return run_interruptible(train_async, recipe, place_of(recipe, run), sink)


async def train_async(recipe: Recipe, path: Path, sink: Sink = ignore_event) -> TrainingProgress:
    """As `train`, inside an event loop."""
    started_s, cpu_s = time.monotonic(), cpu_seconds()

    def end(progress: TrainingProgress) -> None:
        sitting = Sitting(
            wall_s=time.monotonic() - started_s,
            cpu_s=cpu_seconds() - cpu_s,
            stopped=progress.stopped,
            tripped=progress.tripped,
            admission=progress.admission,
        )
        note_sitting(path, sitting)
        write_report(progress, recipe)

    with open_tracking(recipe, path, fan_out(sink)) as emit:
        return await learn(recipe, path, emit, end)


def _follow_training(recipe: Recipe, path: Path) -> TrainingProgress:
    """Run as one of the other `torchrun` processes: hold a shard of the weights and compute a share of every batch.

    The first process decides when the training is over, also when it is interrupted; this one ends with it.
    """
    require_one_process(recipe)
    with open_ranks(recipe.device) as ranks:
        for ignored in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_IGN)
        if recipe.threads is not None:
            torch.set_num_threads(recipe.threads)
        decoder = load_folder(model_folder(recipe.model), dtype=torch.float32)
        follow(build_trainer(decoder, recipe, ranks), ranks)
    return TrainingProgress.read(path)


def place_of(recipe: Recipe, run: str | Path | None) -> Path:
    """The run directory of a recipe."""
    return Path(run) if run is not None else Path("runs") / recipe.name
