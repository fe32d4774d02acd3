"""Sandlot: reinforcement-learning environments for language-model agents.

Write an environment, trust it, run thousands of rollouts in it, train on them, and see why. These are the names an author needs;
each is imported when it is first used, so that `import sandlot` costs nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.env.environment import Environment as Environment
    from sandlot.env.function import Ask as Ask
    from sandlot.env.function import Score as Score
    from sandlot.env.function import environment as environment
    from sandlot.env.load import load as load
    from sandlot.env.taskset import tasks_from as tasks_from
    from sandlot.errors import SandlotError as SandlotError
    from sandlot.errors import ToolError as ToolError
    from sandlot.limits import Constraint as Constraint
    from sandlot.limits import Limits as Limits
    from sandlot.model.agent import Agent as Agent
    from sandlot.persona import Persona as Persona
    from sandlot.ports import Evidence as Evidence
    from sandlot.ports import World as World
    from sandlot.run.results import Run as Run
    from sandlot.run.run import run as run
    from sandlot.run.run import run_async as run_async
    from sandlot.task import Task as Task
    from sandlot.tools.mcp import McpServer as McpServer
    from sandlot.trace import Cancelled as Cancelled
    from sandlot.trace import Failed as Failed
    from sandlot.trace import Scored as Scored
    from sandlot.trace import Trace as Trace
    from sandlot.train.recipe import Recipe as Recipe
    from sandlot.train.train import train as train
    from sandlot.types import End as End
    from sandlot.types import Split as Split

_FRONT_DOOR = {
    "Agent": "model.agent",
    "Ask": "env.function",
    "Cancelled": "trace",
    "Constraint": "limits",
    "End": "types",
    "Environment": "env.environment",
    "Evidence": "ports",
    "Failed": "trace",
    "Limits": "limits",
    "McpServer": "tools.mcp",
    "Persona": "persona",
    "Recipe": "train.recipe",
    "Run": "run.results",
    "SandlotError": "errors",
    "Score": "env.function",
    "Scored": "trace",
    "Split": "types",
    "Task": "task",
    "ToolError": "errors",
    "Trace": "trace",
    "World": "ports",
    "environment": "env.function",
    "load": "env.load",
    "run": "run.run",
    "run_async": "run.run",
    "tasks_from": "env.taskset",
    "train": "train.train",
}

__all__ = list(_FRONT_DOOR)  # pyright: ignore[reportUnsupportedDunderAll] - each name is imported on first use


def __getattr__(name: str) -> Any:
    if name not in _FRONT_DOOR:
        raise AttributeError(f"module `sandlot` has no name `{name}`; it has: {', '.join(_FRONT_DOOR)}")
    value = getattr(import_module(f"sandlot.{_FRONT_DOOR[name]}"), name)
    globals()[name] = value
    return value


class _FrontDoor(ModuleType):
    """`sandlot.run` and `sandlot.train` are the functions, whoever imports the folders of those names first."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {"run", "train"} or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
