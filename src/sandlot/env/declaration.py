"""What an author declares: the parts of an environment before it is opened."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from sandlot.core.errors import ConfigError
from sandlot.core.persona import Persona
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.session import User
from sandlot.core.ports.world import Tool, ToolSource, World
from sandlot.core.rubric import PythonCheck, Rubric, RubricScore
from sandlot.core.task import Task

F = TypeVar("F", bound=Callable[..., Any])


_T = TypeVar("_T")


MARKS = ("tasks", "setup", "tool", "check", "solution", "adversary", "control", "user", "persona", "mcp")


NETWORKS = ("none",)
"""What a sandbox may reach."""


NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass
class Declaration:
    """What the marks have gathered. The folder and function forms fill it directly."""

    tasks: Callable[[Random], Iterable[Task]] | None = None
    setup: Callable[..., Any] | None = None
    tools: list[Tool] = field(default_factory=list[Tool])
    sources: list[ToolSource] = field(default_factory=list[ToolSource])
    checks: list[PythonCheck] = field(default_factory=list[PythonCheck])
    rubrics: dict[str, Rubric] = field(default_factory=dict[str, Rubric])
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Check functions by reference."""
    solution: Callable[..., Any] | None = None
    adversaries: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Agents of the author's own who must earn nothing."""
    controls: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Other right solutions, which must get full marks."""
    user: Callable[[World, Task], User] | None = None
    """The user as the author scripted it."""
    persona: Callable[[Task], Persona] | None = None
    """The user as a model plays it."""
    grade: Callable[[Evidence, Task, Judge | None], Awaitable[RubricScore]] | None = None
    """Takes the place of rubrics where grading is the author's function itself."""


def require_async(function: F, what: str) -> F:
    """The function itself; `ConfigError` if it is not `async def`."""
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{where(function)}: the {what} `{function.__name__}` must be `async def`, to await `agent.call`")
    return function


def require_sequence(value: Sequence[_T], what: str, fix: str) -> tuple[_T, ...]:
    """Several, as a tuple; one alone, or a text, which Python would take letter by letter, is refused."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise ConfigError(f"{what} is {value!r}; give a list, `{fix}`")
    return tuple(value)


def where(function: Callable[..., Any]) -> str:
    """`file:line` of a function, for errors an author can click."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
