"""The configuration of a run: tasks, model, number of rollouts. It is stored resolved, and is enough to repeat the run."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task, require_trainable
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.grading import needs_judge, require_gradable
from sandlot.env.taskset import tasks_of
from sandlot.env.user import require_user
from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config, user_config
from sandlot.wiring.models import require_seeing_judge, require_sight


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks, and how many rollouts."""

    tasks: tuple[str, ...] = ()
    """Task ids; none for all."""
    split: Split | None = None
    """Only tasks of this split."""
    rollouts: int | None = None
    """Total number of rollouts, spread evenly over the tasks; None for `group` per task."""
    group: int | None = None
    """Rollouts per task: the attempts that are compared with each other."""
    training: bool = False
    """True if a model will learn from it: then held-out tasks are refused."""


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole run."""

    env: str
    model: ModelConfig
    select: Selection = Selection()
    """Which tasks, and how many rollouts."""
    agent: AgentConfig = AgentConfig()
    """The harness, and how tool calls are written."""
    user: ModelConfig | None = None
    """The model that plays the environment's persona; None for the author's own replies, or none."""
    judge: ModelConfig | None = None
    """The grader model for judge checks."""
    rubric: str | None = None
    """Grade every task by this rubric instead of its own."""
    image: str | None = None
    """Run in a sandbox of this image instead of the environment's own; part of the environment's fingerprint."""
    sandbox: str = "native"
    """The sandbox backend, for environments with an image."""
    at_once: int = 64
    """Rollouts in flight, at most."""
    adapt: bool | msgspec.UnsetType = msgspec.UNSET
    """Find out how many rollouts in flight the model, the judge, the sandboxes and this machine can take, up to `at_once`; never
    part of a run's digest."""
    seed: int | None = None
    """Seed of sampling, for models and users. None: derived from the run's name, so different in each run."""
    other_setting: bool = False
    """Allow another setting than the one the model was trained in; without this, it is refused."""
    attempts: int = 2
    """Attempts at a rollout when the sandbox or the model fails; other failures are not retried."""
    seats: dict[str, ModelConfig] | msgspec.UnsetType = msgspec.UNSET
    """Where several agents act: models of single seats; `model` plays the others. Unset, it is not part of a run's digest."""

    def __post_init__(self) -> None:
        for name in ("at_once", "attempts"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")

    @property
    def adapts(self) -> bool:
        """Whether the number of rollouts in flight is found out."""
        return self.adapt is True

    @property
    def seat_models(self) -> dict[str, ModelConfig]:
        """The models of single seats."""
        return {} if isinstance(self.seats, msgspec.UnsetType) else self.seats


def run_config_of(
    env: Environment,
    model: str | ModelConfig,
    *,
    agent: AgentConfig | None,
    user: str | ModelConfig | None,
    judge: str | ModelConfig | None,
    seats: Mapping[str, str | ModelConfig] | None = None,
    **fields: Any,
) -> RunConfig:
    """The config behind the keywords that `run` and `calibrate` share: models may be named as on the command line."""
    return RunConfig(
        env=str(env.source or env.name),
        model=ModelConfig(spec=model) if isinstance(model, str) else model,
        agent=agent or AgentConfig(),
        user=user_config(user) if isinstance(user, str) else user,
        judge=judge_config(judge) if isinstance(judge, str) else judge,
        seats=seats_config(seats),
        **fields,
    )


def seats_config(seats: Mapping[str, str | ModelConfig] | None) -> dict[str, ModelConfig] | msgspec.UnsetType:
    """The models of single seats, which may be named as on the command line."""
    named = {name: ModelConfig(spec=model) if isinstance(model, str) else model for name, model in (seats or {}).items()}
    return named or msgspec.UNSET


def split_named(split: Split | str | None) -> Split | None:
    """A split by its name; `ConfigError` lists the names."""
    if split is not None and split not in set(Split):
        raise ConfigError(f"split is `{split}`; there are: {', '.join(f'`{each}`' for each in Split)}")
    return None if split is None else Split(split)


def read_config(path: Path) -> RunConfig:
    """The run in a JSON file: what `sandlot run --dry-run` prints, with or without `--json`, or a run's `manifest.json`."""
    try:
        value, _ = json.JSONDecoder().raw_decode(path.read_text().lstrip())  # ignores the forecast that follows the config
        held = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        return msgspec.convert(held.get("config", value), RunConfig)
    except OSError as error:
        raise ConfigError(f"config `{path}` cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"config `{path}` is not a run: {error}; `sandlot run ENV --model MODEL --dry-run` prints one"
        ) from error


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Every rollout of a run, by identity."""

    tasks: tuple[Task, ...]
    counts: tuple[int, ...]
    """Rollouts of each task."""

    @property
    def num_rollouts(self) -> int:
        """Rollouts in all."""
        return sum(self.counts)

    def each(self) -> Iterator[tuple[Task, int]]:
        """Every task with the number of each of its rollouts, task by task: the members of a group run close together."""
        for task, count in zip(self.tasks, self.counts, strict=True):
            for rollout in range(count):
                yield task, rollout


def plan_run(env: Environment, config: RunConfig) -> RunPlan:
    """Choose the tasks, and refuse whatever would make every rollout fail."""
    select = config.select
    tasks = tasks_of(env, select.split)
    if select.tasks:
        known = {task.id: task for task in tasks}
        missing = [name for name in select.tasks if name not in known]
        if missing:
            where = f" in split `{select.split}`" if select.split else ""
            raise ConfigError(
                f"environment `{env.name}` has no task `{missing[0]}`{where}; `sandlot show` lists its {len(known)} tasks"
            )
        tasks = [known[name] for name in select.tasks]
    if not tasks:
        raise ConfigError(f"environment `{env.name}` has no tasks in split `{select.split}`")
    if select.training:
        require_trainable(tasks)
    for task in tasks:
        try:
            env.limits.but(task.limits)
        except ConfigError as error:
            raise ConfigError(f"task `{task.id}` of `{env.name}`: {error}") from error
    _require_seats(env, config)
    require_user(env, named=config.user is not None)
    require_gradable(env, tasks, config.rubric)
    if needs_judge(env, tasks, config.rubric) and config.judge is None:
        raise ConfigError(
            f"rubric of `{env.name}` has judge checks; name a judge with `--judge MODEL`, or grade by another with `--rubric`"
        )
    for model in (config.model, *config.seat_models.values()):
        require_sight(model, env)
    require_seeing_judge(config.judge, env, tasks, config.rubric)
    return RunPlan(tuple(tasks), tuple(_counts(len(tasks), select)))


def _require_seats(env: Environment, config: RunConfig) -> None:
    names = [seat.name for seat in env.seats]
    unknown = [name for name in config.seat_models if name not in names]
    if unknown:
        raise ConfigError(f"environment `{env.name}` has no seat `{unknown[0]}`; its seats: {', '.join(names) or 'none'}")


def _counts(num_tasks: int, select: Selection) -> list[int]:
    if select.rollouts is not None and select.group is not None:
        raise ConfigError(
            f"rollouts={select.rollouts} and group={select.group}: give the total, or the number for each task, not both"
        )
    for name in ("rollouts", "group"):
        value = getattr(select, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; give 1 or more")
    if select.rollouts is None:
        return [select.group or 1] * num_tasks
    each, rest = divmod(select.rollouts, num_tasks)
    return [each + (place < rest) for place in range(num_tasks)]
