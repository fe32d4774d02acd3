"""Tracking: the figures of a training run told to a tracker besides, by plug-in.

A tracker is told of figures and of a few settings, and of nothing else: no prompt, no trace, no address, no variable of the
environment. It is opened before any work is done, so that a missing package is heard of at once; from then on it works in a
thread of its own, and one that fails or hangs is left out with a warning while the training goes on. Packages bring their own
under the entry point group `sandlot.trackers`.
"""

import logging
import math
import queue
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sandlot.analysis.alarm import Alarm
from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.core.trace import TraceRow
from sandlot.observe.trackers.mlflow import open_mlflow
from sandlot.observe.trackers.tensorboard import open_tensorboard
from sandlot.observe.trackers.tracker import Tracker
from sandlot.observe.trackers.wandb import open_wandb
from sandlot.train.loop import Watcher
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import Learned, Measured, TrainingProgress
from sandlot.train.training import Training
from sandlot.wiring.plugins import find_opener

_log = logging.getLogger(__name__)

_END_S = 20.0
"""How long a tracker may take to write what it still has when the run is over."""
BEHIND = 1000
"""Notes that may wait for it; one further behind hangs."""

_DIVERSITY = ("distinct", "distance", "first_entropy")


def open_tracker(spec: str, path: Path) -> Tracker:
    """The tracker that `name` or `name:rest` means for a run that lies in `path`; `ConfigError` says what is missing."""
    ready = {"tensorboard": open_tensorboard, "mlflow": open_mlflow, "wandb": open_wandb}
    make, rest = find_opener("trackers", ready, spec)
    return make(rest, path)


@contextmanager
def open_tracking(recipe: Recipe, path: Path, watch: Watcher) -> Generator[Watcher]:
    """A watcher that also tells the recipe's tracker, if it names one."""
    if recipe.tracker is None:
        yield watch
        return
    tracking = Tracking(recipe.tracker, open_tracker(recipe.tracker, path), watch)
    try:
        yield tracking
    finally:
        tracking.close()


class Tracking(Watcher):
    """Passes everything on to a watcher, and the figures to a tracker."""

    def __init__(self, spec: str, tracker: Tracker, watch: Watcher) -> None:
        self._name, self._tracker, self._watch = spec.partition(":")[0], tracker, watch
        self._orders: queue.Queue[Callable[[], None] | None] = queue.Queue(BEHIND)
        self._failure: str | None = None
        """Set by the thread, which ends with it; told by the loop's own."""
        self._told = False
        self._thread = threading.Thread(target=self._work, name="sandlot-tracker", daemon=True)
        self._thread.start()

    # -- what the loop says --------------------------------------------------------------------------------------------

    def begin(self, run: Training, progress: TrainingProgress) -> None:
        """Begin, or go on after the version that was kept."""
        self._watch.begin(run, progress)
        name, settings, version = run.path.name, settings_of(run.recipe), run.standing.version
        self._order(lambda: self._tracker.begin(name, settings, version))

    def rollout(self, row: TraceRow) -> None:
        """Not its affair."""
        self._watch.rollout(row)

    def learned(self, step: Learned, alarm: Alarm | None = None) -> None:
        """Figures of a step."""
        self._watch.learned(step, alarm)
        self._note(step.version, {**figures_of_step(step), "train/alarm": float(alarm is not None)})

    def measuring(self, version: int, num_rollouts: int) -> None:
        """Not its affair."""
        self._watch.measuring(version, num_rollouts)

    def measured(self, evaluation: Measured) -> None:
        """Figures of held-out tasks."""
        self._watch.measured(evaluation)
        self._note(evaluation.version, figures_of_evaluation(evaluation))

    def went_back(self, version: int, best: int) -> None:
        """From which version it goes on."""
        self._watch.went_back(version, best)
        self._note(version, {"train/went_back_to": float(best)})

    def warned(self, sentence: str) -> None:
        """Not for a tracker: its figures show it."""
        self._watch.warned(sentence)

    def close(self) -> None:
        """Have the tracker write what it has, and wait for it, but not for ever."""
        self._order(None)
        self._thread.join(_END_S)
        if self._thread.is_alive() and self._failure is None:
            self._failure = f"it did not end within {_END_S:.0f} s"
        self._tell_failure()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _note(self, version: int, figures: Mapping[str, float]) -> None:
        known = {name: value for name, value in figures.items() if math.isfinite(value)}
        self._order(lambda: self._tracker.note(version, known))

    def _order(self, order: Callable[[], None] | None) -> None:
        if self._failure is None:
            try:
                self._orders.put_nowait(order)
            except queue.Full:
                self._failure = f"it is {BEHIND} notes behind"
        self._tell_failure()

    def _tell_failure(self) -> None:
        if self._failure is not None and not self._told:
            self._told = True
            _log.warning("tracker failed", extra={"tracker": self._name, "error": self._failure})
            self._watch.untracked(self._name, self._failure)

    def _work(self) -> None:
        """Until the last order or the first failure; either way the tracker is ended, to let go of what it holds."""
        while self._failure is None and (order := self._orders.get()) is not None:
            self._attempt(order)
        self._attempt(self._tracker.end)

    def _attempt(self, order: Callable[[], None]) -> None:
        try:
            with boundary(HarnessError, "it raised"):
                order()
        except SandlotError as error:
            self._failure = self._failure or str(error)


def settings_of(recipe: Recipe) -> dict[str, str | int | float]:
    """What a tracker is told of a recipe: numbers, and names without addresses."""
    env = recipe.env if isinstance(recipe.env, str | Path) else recipe.env.name
    optimisation = recipe.optimisation
    return {
        "environment": Path(env).name,
        "model": recipe.model.partition(":")[0] if "@" in recipe.model else Path(recipe.model).name,
        "algorithm": type(recipe.algorithm).__name__,
        "steps": recipe.steps,
        "tasks": recipe.tasks,
        "group": recipe.group,
        "staleness": recipe.staleness,
        "lora": recipe.lora or 0,
        "seed": recipe.seed,
        "learning_rate": optimisation.learning_rate,
        "warmup": optimisation.warmup,
        "minibatches": optimisation.minibatches,
        "epochs": optimisation.epochs,
        "temperature": recipe.sampling.temperature,
    }


def figures_of_step(step: Learned) -> dict[str, float]:
    """A step as figures with names."""
    names = (
        "reward",
        "passed",
        "outcome",
        "loss",
        "norm",
        "kl",
        "entropy",
        "clipped",
        "staleness",
        "tokens",
        "seconds",
        "failed",
    )
    known = {name: getattr(step, name) for name in names}
    return {
        **{f"train/{name}": float(value) for name, value in known.items() if value is not None},
        "train/informative": step.informative / max(1, step.groups),
        "train/tokens_per_s": step.tokens_per_s,
        **({f"diversity/{name}": getattr(step.diversity, name) for name in _DIVERSITY} if step.diversity else {}),
        **{f"time/{name}": share for name, share in step.shares.items()},
    }


def figures_of_evaluation(evaluation: Measured) -> dict[str, float]:
    """A measurement as figures with names."""
    names = {"mean": "score", "low": "score_low", "high": "score_high", "passed": "passed", "failed": "failed"}
    return {f"heldout/{name}": float(getattr(evaluation, field)) for field, name in names.items()}
