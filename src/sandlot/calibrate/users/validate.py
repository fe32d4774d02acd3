"""Validate a model that plays the user, on conversations whose right course is known. `sandlot simulator` calls this."""

from collections.abc import Callable
from pathlib import Path

from sandlot.calibrate.judges.gates import Validation
from sandlot.calibrate.users.conversations import conversations_of, labelled_conversations
from sandlot.calibrate.users.gates import SimulatorGates, simulator_gates
from sandlot.calibrate.users.simulator import SimulatedTask, SimulatorQuality, measure_user
from sandlot.core.errors import ConfigError
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.env.user import persona_of
from sandlot.wiring.config import ModelConfig, user_config
from sandlot.wiring.models import open_users


async def validate_user(  # noqa: PLR0913 - what is measured, all by keyword
    env: str | Path | Environment,
    user: str | ModelConfig,
    *,
    labels: Path | None = None,
    tasks: tuple[str, ...] = (),
    split: Split | None = None,
    most: int = 10,
    repeats: int = 3,
    at_once: int = 8,
    gates: SimulatorGates | None = None,
    begin: Callable[[int, int], None] = lambda _tasks, _conversations: None,
) -> Validation[SimulatorQuality]:
    """Hold every known conversation of up to `most` tasks, and those that people labelled.

    `begin` is called with the number of tasks and of conversations, before the first one.
    """
    if most < 1:
        raise ConfigError(f"--tasks is {most}; give 1 or more")
    config = user_config(user) if isinstance(user, str) else user
    assert config is not None, "a user is named"
    environment = load(env)
    everyone = [task_named(environment, name) for name in tasks] or tasks_of(environment, split)
    labelled = labelled_conversations(labels, {task.id for task in everyone}) if labels else []
    chosen = {task.id for task in everyone[:most]}
    needed = chosen | {each.task for each in labelled}
    subjects = [
        SimulatedTask(task=task.public(), persona=await persona_of(environment, task)) for task in everyone if task.id in needed
    ]
    known = [each for one in subjects if one.task.id in chosen for each in conversations_of(one.task, one.persona)]
    conversations = [*known, *labelled]
    begin(len(chosen), len(conversations))
    async with open_users(config, environment) as users:
        quality = await measure_user(users, subjects, conversations, repeats=repeats, at_once=at_once)
    return Validation(quality, tuple(simulator_gates(quality, gates or SimulatorGates())))
