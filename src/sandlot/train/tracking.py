"""Tracking: the figures of a training run, sent to an experiment tracker as well.

A tracker receives figures and a few settings, and nothing else: no prompt, no trace, no address, no environment variable. It is
opened before any work is done, so that a missing package is reported at once. It then works in a thread of its own; a tracker
that fails or hangs is left out with a warning, and the training goes on. Plug-ins register under the entry point group
`sandlot.trackers`.
"""

import math
import queue
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.observe.events import (
    EvaluationEnded,
    RolledBack,
    RunEvent,
    Sink,
    StepLearned,
    TrainingBegan,
    fan_out,
    report_failure,
)
from sandlot.observe.trackers.mlflow import open_mlflow
from sandlot.observe.trackers.tensorboard import open_tensorboard
from sandlot.observe.trackers.tracker import Tracker
from sandlot.observe.trackers.wandb import open_wandb
from sandlot.observe.training_records import Learned, Measured, by_seat
from sandlot.run.learners import is_shared_used
from sandlot.train.recipe import Recipe
from sandlot.wiring.plugins import find_opener

_END_S = 20.0
"""Longest wait for a tracker to write what it still has at the end of the run."""
_BEHIND = 1000
"""Longest queue of notes; a tracker further behind counts as hanging."""

_SEATS = "seats"
"""Stands before the names of seats where no environment's does: a seat may have the name of anything."""
_DIVERSITY = ("distinct", "distance", "first_entropy")


def open_tracker(spec: str, path: Path) -> Tracker:
    """The tracker named by `name` or `name:rest`, for the run directory `path`; `ConfigError` says what is missing."""
    ready = {"tensorboard": open_tensorboard, "mlflow": open_mlflow, "wandb": open_wandb}
    make, rest = find_opener("trackers", ready, spec)
    return make(rest, path)


@contextmanager
def open_tracking(recipe: Recipe, path: Path, sink: Sink) -> Generator[Sink]:
    """The sink, and the recipe's tracker if it names one."""
    if recipe.tracker is None:
        yield sink
        return
    tracking = Tracking(recipe.tracker, open_tracker(recipe.tracker, path), sink)
    try:
        yield fan_out(tracking.receive, sink)
    finally:
        tracking.close()


class Tracking:
    """A sink that passes figures to a tracker, in a thread of its own."""

    def __init__(self, spec: str, tracker: Tracker, others: Sink) -> None:
        self._name, self._tracker, self._others = spec.partition(":")[0], tracker, others
        self._orders: queue.Queue[Callable[[], None] | None] = queue.Queue(_BEHIND)
        self._failure: str | None = None
        """Set by the thread, which ends with it; reported from the thread of the loop."""
        self._reported = False
        self._thread = threading.Thread(target=self._work, name="sandlot-tracker", daemon=True)
        self._thread.start()

    def receive(self, event: RunEvent) -> None:
        """Pass on the figures of an event that has some."""
        match event:
            case TrainingBegan():
                name = Path(event.path).name
                self._order(lambda: self._tracker.begin(name, event.settings, event.version))
            case StepLearned():
                self._note(event.step.version, {**figures_of_step(event.step), "train/alarm": float(event.alarmed)})
            case EvaluationEnded():
                self._note(event.evaluation.version, figures_of_evaluation(event.evaluation))
            case RolledBack():
                self._note(event.version, {"train/went_back_to": float(event.best)})
            case _:
                pass

    def close(self) -> None:
        """Let the tracker write what it still has, for a limited time."""
        self._order(None)
        self._thread.join(_END_S)
        if self._thread.is_alive() and self._failure is None:
            self._failure = f"it did not end within {_END_S:.0f} s"
        self._report_failure()

    def _note(self, version: int, figures: Mapping[str, float]) -> None:
        known = {name: value for name, value in figures.items() if math.isfinite(value)}
        self._order(lambda: self._tracker.note(version, known))

    def _order(self, order: Callable[[], None] | None) -> None:
        if self._failure is None:
            try:
                self._orders.put_nowait(order)
            except queue.Full:
                self._failure = f"it is {_BEHIND} notes behind"
        self._report_failure()

    def _report_failure(self) -> None:
        if self._failure is not None and not self._reported:
            self._reported = True
            report_failure(self._name, self._failure, self._others)

    def _work(self) -> None:
        """Work until the last order or the first failure; either way the tracker is ended, so that it closes what it opened."""
        while self._failure is None and (order := self._orders.get()) is not None:
            self._attempt(order)
        self._attempt(self._tracker.end)

    def _attempt(self, order: Callable[[], None]) -> None:
        try:
            with boundary(HarnessError, "it raised"):
                order()
        except SandlotError as error:
            self._failure = self._failure or str(error)


def _short(model: str) -> str:
    """The name of a model without its folder or address."""
    return model.partition(":")[0] if "@" in model else Path(model).name


def settings_of(recipe: Recipe, seats: Sequence[str] = ()) -> dict[str, str | int | float]:
    """The settings of a recipe that a tracker receives: numbers, and names without addresses. `seats` are those that learn."""
    own = recipe.own_models
    envs = (each.env for each in recipe.environments)
    optimisation = recipe.optimisation
    return {
        "environment": ", ".join(Path(env).name if isinstance(env, str | Path) else env.name for env in envs),
        **({"model": _short(recipe.model)} if is_shared_used(own, seats) else {}),
        **{f"model.{seat}": _short(model) for seat, model in own.items()},
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
    """The figures of a step by name."""
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
        **(_by_environment(step.environments, {"reward": "reward", "passed": "passed", "weight": "weight"}, "train")),
        **_by_seat({name: env.seats for name, env in step.environments.items()}, "train", "reward"),
        **{
            f"train/{_SEATS}/{policy}/{name}": float(value)
            for policy, each in step.policies.items()
            for name in ("loss", "norm", "kl", "entropy", "clipped")
            if policy and (value := getattr(each, name)) is not None
        },
    }


def figures_of_evaluation(evaluation: Measured) -> dict[str, float]:
    """The figures of an evaluation by name."""
    names = {"mean": "score", "low": "score_low", "high": "score_high", "passed": "passed", "failed": "failed"}
    scores = {env: {seat: each.mean for seat, each in part.seats.items()} for env, part in evaluation.environments.items()}
    return {
        **{f"heldout/{name}": float(getattr(evaluation, field)) for field, name in names.items()},
        **_by_environment(evaluation.environments, {"mean": "score", "passed": "passed"}, "heldout"),
        **_by_seat(scores, "heldout", "score"),
    }


def _by_environment(parts: Mapping[str, Any], names: Mapping[str, str], kind: str) -> dict[str, float]:
    """The figures of each environment, if there are several."""
    if len(parts) < 2:
        return {}
    return {f"{kind}/{env}/{name}": float(getattr(part, field)) for env, part in parts.items() for field, name in names.items()}


def _by_seat(figures: Mapping[str, Mapping[str, float]], kind: str, name: str) -> dict[str, float]:
    """A figure of each seat: `KIND/ENVIRONMENT/SEAT/NAME` with several environments, else `KIND/seats/SEAT/NAME`."""
    prefix = kind if len(figures) > 1 else f"{kind}/{_SEATS}"
    return {f"{prefix}/{seat}/{name}": value for seat, value in by_seat(figures).items()}
