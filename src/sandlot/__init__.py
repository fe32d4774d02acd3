"""Sandlot: reinforcement-learning environments for language-model agents.

Write an environment, check it, run thousands of rollouts in it, train on them, and see why they succeed or fail.

Write an environment (docs/guides/write-an-environment.md):
    environment, Ask, Score     one function: yield a question, then a score
    Environment                 one file: decorators for tasks, setup, tools, checks and the golden solution
    Task, Split                 one task; which tasks a model may be trained on
    World                       what setups and tools act in: files, commands, `state`
    Evidence                    what checks see after the agent has ended
    Agent                       what a golden solution acts with
    ToolError, Image            raise it in a tool: the agent reads the message; return it: the agent sees the picture
    Rubric, PythonCheck, JudgeCheck   checks and their points; checked by a function, or by a grader model
    Limits, Constraint          budgets and deadlines; rules about tool calls
    Persona, McpServer          a user that a model plays; tools from an MCP server
    Seat                        a place for one of several agents in one world
    load                        an environment from a path or an installed name
    import_environment          tasks of another format, written as an environment in a folder
    tasks_of, tasks_from        the tasks of an environment; tasks from a file

Check it (docs/guides/audit.md, docs/guides/calibrate.md):
    audit                       look for defects before a model learns to exploit them; returns an Audit
    calibrate                   how often a model passes each task, and which tasks are worth training on

Run it and read what happened (docs/guides/run-and-look.md):
    run, run_async              take rollouts with a model; returns a Run
    Run, Trace, End             a stored run; one rollout; why the agent stopped
    Scored, Failed, Cancelled   the outcome of a rollout; only Scored has a reward
    seat_trace                  one of several agents' part of a rollout
    health, triage              signs of a broken environment in a run; its failures grouped by cause
    SandlotError                the base class of every error

Train, with `pip install 'sandlot[torch]'` (docs/guides/train.md):
    Recipe, train               all settings of a training run; train it
    sandlot.train               losses and settings: `from sandlot.train import Evaluation, Optimisation, PolicyGradient`

Use it in Gymnasium or PettingZoo (docs/guides/gymnasium.md):
    to_gym, to_pettingzoo       an environment as a `gymnasium.Env`; as a `pettingzoo.AECEnv`

Plug in a part of your own (docs/guides/own-parts.md):
    sandlot.ports               the interfaces: `from sandlot.ports import Harness, Policy, ChatModel, Judge, Backend`

For example:
    run = sandlot.run("arithmetic", "scripted:golden")
    print(run.summary().score.value, run.trace("arithmetic-0").answer)

Each name is imported when it is first used, so `import sandlot` is fast. The reference is docs/reference/python.md, and
`help(sandlot.Environment)` shows the same text.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.analysis.health.health import health as health
    from sandlot.analysis.triage.triage import triage as triage
    from sandlot.audit.audit import audit as audit
    from sandlot.calibrate.tasks.calibrate import calibrate as calibrate
    from sandlot.core.errors import SandlotError as SandlotError
    from sandlot.core.errors import ToolError as ToolError
    from sandlot.core.images import Image as Image
    from sandlot.core.limits import Constraint as Constraint
    from sandlot.core.limits import Limits as Limits
    from sandlot.core.persona import Persona as Persona
    from sandlot.core.ports.grading import Evidence as Evidence
    from sandlot.core.ports.world import World as World
    from sandlot.core.rubric import JudgeCheck as JudgeCheck
    from sandlot.core.rubric import PythonCheck as PythonCheck
    from sandlot.core.rubric import Rubric as Rubric
    from sandlot.core.seats import Seat as Seat
    from sandlot.core.seats import seat_trace as seat_trace
    from sandlot.core.task import Task as Task
    from sandlot.core.trace import Cancelled as Cancelled
    from sandlot.core.trace import Failed as Failed
    from sandlot.core.trace import Scored as Scored
    from sandlot.core.trace import Trace as Trace
    from sandlot.core.types import End as End
    from sandlot.core.types import Split as Split
    from sandlot.env.environment import Environment as Environment
    from sandlot.env.function import Ask as Ask
    from sandlot.env.function import Score as Score
    from sandlot.env.function import environment as environment
    from sandlot.env.importing import import_environment as import_environment
    from sandlot.env.load import load as load
    from sandlot.env.taskset import tasks_from as tasks_from
    from sandlot.env.taskset import tasks_of as tasks_of
    from sandlot.interop.gyms.open import to_gym as to_gym
    from sandlot.interop.gyms.open import to_pettingzoo as to_pettingzoo
    from sandlot.model.policy.solution import Agent as Agent
    from sandlot.run.results import Run as Run
    from sandlot.run.run import run as run
    from sandlot.run.run import run_async as run_async
    from sandlot.tools.mcp import McpServer as McpServer
    from sandlot.train.recipe import Recipe as Recipe
    from sandlot.train.train import train as train

_FRONT_DOOR = {
    "Agent": "model.policy.solution",
    "Ask": "env.function",
    "Cancelled": "core.trace",
    "Constraint": "core.limits",
    "End": "core.types",
    "Environment": "env.environment",
    "Evidence": "core.ports.grading",
    "Failed": "core.trace",
    "Image": "core.images",
    "JudgeCheck": "core.rubric",
    "Limits": "core.limits",
    "McpServer": "tools.mcp",
    "Persona": "core.persona",
    "PythonCheck": "core.rubric",
    "Recipe": "train.recipe",
    "Rubric": "core.rubric",
    "Run": "run.results",
    "SandlotError": "core.errors",
    "Score": "env.function",
    "Scored": "core.trace",
    "Seat": "core.seats",
    "Split": "core.types",
    "Task": "core.task",
    "ToolError": "core.errors",
    "Trace": "core.trace",
    "World": "core.ports.world",
    "audit": "audit.audit",
    "calibrate": "calibrate.tasks.calibrate",
    "environment": "env.function",
    "health": "analysis.health.health",
    "import_environment": "env.importing",
    "load": "env.load",
    "run": "run.run",
    "run_async": "run.run",
    "seat_trace": "core.seats",
    "tasks_from": "env.taskset",
    "tasks_of": "env.taskset",
    "to_gym": "interop.gyms.open",
    "to_pettingzoo": "interop.gyms.open",
    "train": "train.train",
    "triage": "analysis.triage.triage",
}

_NEEDS_TORCH = {"Recipe", "train"}

# `from sandlot import *` opens every name in it, and must not need torch.
__all__ = [name for name in _FRONT_DOOR if name not in _NEEDS_TORCH]  # pyright: ignore[reportUnsupportedDunderAll] - lazy


def __getattr__(name: str) -> Any:
    if name not in _FRONT_DOOR:
        from difflib import get_close_matches  # noqa: PLC0415 - only for the error

        near = get_close_matches(name, _FRONT_DOOR, n=1)
        meant = f"did you mean `{near[0]}`?" if near else f"it has: {', '.join(_FRONT_DOOR)}"
        raise AttributeError(f"module `sandlot` has no name `{name}`; {meant}")
    try:
        value = getattr(import_module(f"sandlot.{_FRONT_DOOR[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"`sandlot.{name}` needs torch: `pip install 'sandlot[torch]'`", name="torch") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The front door; what needs torch only where torch is installed, since `help(sandlot)` opens every name."""
    try:
        without = set[str]() if find_spec("torch") else _NEEDS_TORCH
    except ModuleNotFoundError:
        without = _NEEDS_TORCH
    return sorted(_FRONT_DOOR.keys() - without)


class _FrontDoor(ModuleType):
    """Keeps `sandlot.run` and the other functions when a package of the same name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _FRONT_DOOR or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
