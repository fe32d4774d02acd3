"""An environment: image, tools, data, tasks, rubric and limits, as its author declares them.

The decorators only mark: they put the function, unchanged, where rollouts will look for it. Nothing runs until a task is opened.
"""

import copy
import difflib
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Never, TypeVar, overload

from sandlot.author import name_of
from sandlot.env.world import LiveWorld
from sandlot.errors import ConfigError
from sandlot.limits import Constraint, Limits
from sandlot.persona import Persona
from sandlot.ports import Evidence, Judge, Session, Tool, ToolSource, User, World
from sandlot.rubric import PythonCheck, Rubric, Score
from sandlot.task import Task
from sandlot.tools.bash import BASH
from sandlot.tools.function import FunctionTool
from sandlot.tools.mcp import McpServer
from sandlot.trace import FileRecord

F = TypeVar("F", bound=Callable[..., Any])

T = TypeVar("T")

MARKS = ("tasks", "setup", "tool", "check", "solution", "adversary", "control", "user", "persona", "mcp")

NETWORKS = ("none",)
"""What a sandbox may reach."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass
class Parts:
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
    grade: Callable[[Evidence, Task, Judge | None], Awaitable[Score]] | None = None
    """Takes the place of rubrics where grading is the author's function itself."""


class Environment:
    """Write one with decorators, or let `sandlot.load` make one from a file or folder.

    An environment with an image offers `bash`, unless `tools` is given: then the agent has those functions, `bash` if it is among
    them, and what is marked with `@env.tool`. `tools=[]` takes the shell away.
    """

    def __init__(  # noqa: PLR0913 - the declared facts of an environment, all by keyword
        self,
        name: str,
        *,
        description: str = "",
        system: str = "",
        image: str | None = None,
        network: str = "none",
        seed: int = 0,
        limits: Limits | None = None,
        constraints: Sequence[Constraint] = (),
        state: Callable[[], Any] = dict,
        concurrent: bool = True,
        tools: Sequence[Callable[..., Any] | str] | None = None,
    ) -> None:
        if not _NAME.match(name):
            raise ConfigError(
                f"environment name {name!r}: use up to 64 letters, digits, `.`, `_`, `-`, starting with a letter or digit"
            )
        if network not in NETWORKS:
            raise ConfigError(f"environment `{name}`: network {network!r}; there is: {', '.join(NETWORKS)}")
        if not callable(state):
            raise ConfigError(f"environment `{name}`: state={state!r} is one state; give what makes a fresh one, `state=State`")
        self.name = name
        self.description = description
        self.system = system
        """The system prompt, if there is one."""
        self.image = image
        """What the sandbox is made from; None for a world without one, which costs no process."""
        listed = _sequence(tools or (), f"environment `{name}`: tools", "[look, 'bash']")
        self.bash = image is not None if tools is None else BASH.spec.name in listed
        """True if the agent has `bash`: where its author gave it a sandbox, unless `tools` lists the tools, without it."""
        self.concurrent = concurrent
        """False if calls of one turn run one after the other: for tools that read, change and write back the same file."""
        self.network = network
        self.seed = seed
        self.limits = limits or Limits()
        self.constraints = _sequence(constraints, f"environment `{name}`: constraints", "(Constraint(...),)")
        self.state = state
        """Makes the fresh state of each rollout: a dataclass, a msgspec.Struct, or `dict`."""
        self.parts = Parts()
        for tool in listed:
            if callable(tool):
                self.parts.tools.append(FunctionTool.of(tool))
            elif tool != BASH.spec.name:
                raise ConfigError(f"environment `{name}`: tools has {tool!r}; give functions, and 'bash' for a shell")
        self.source: Path | None = None
        """The file or folder its author wrote; what the fingerprint is of."""
        self.package: Path | None = None
        """The folder of the package it was installed in, if it was."""

    def __repr__(self) -> str:
        return f"<Environment {self.name!r} from {self.source or 'this session'}>"

    if not TYPE_CHECKING:  # a type checker knows what there is, and should go on saying so

        def __getattr__(self, name: str) -> Never:
            near = difflib.get_close_matches(name, MARKS, n=1, cutoff=0.5)
            meant = f"did you mean `{near[0]}`?" if near else f"its marks are {', '.join(MARKS)}"
            raise AttributeError(f"an environment has no `{name}`; {meant}")

    # -- marks -------------------------------------------------------------------------------------------------------

    def tasks(self, function: F) -> F:
        """Mark the generator of tasks: it is given a seeded `Random` and yields `Task`s, the same ones for the same seed."""
        self._only_one("tasks", self.parts.tasks, function)
        self.parts.tasks = function
        return self._from(function)

    def setup(self, function: F) -> F:
        """Mark what prepares a world: `def put(world, task)`; the task has no key here."""
        self._only_one("setup", self.parts.setup, function)
        self.parts.setup = function
        return self._from(function)

    @overload
    def tool(self, function: F) -> F: ...
    @overload
    def tool(self, *, name: str | None = None, isolate: bool = False) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, *, name: str | None = None, isolate: bool = False) -> F | Callable[[F], F]:
        """Mark a tool: typed parameters become its schema, the docstring its description; `isolate` runs it in a child."""

        def mark(marked: F) -> F:
            self.parts.tools.append(FunctionTool.of(marked, name=name, isolate=isolate))
            return self._from(marked)

        return mark if function is None else mark(function)

    def check(
        self,
        function: None = None,
        *,
        points: float = 1.0,
        id: str | None = None,  # noqa: A002 - the field's name in the rubric
        tags: Sequence[str] = (),
        requires: Sequence[str] = (),
        gate: bool = False,
        isolate: bool = False,
    ) -> Callable[[F], F]:
        """Mark a check: `def right(evidence, task) -> bool | float | (value, why)`."""
        if function is not None:
            raise ConfigError(f"{where(function)}: a check says what it is worth: write `@env.check(points=1)`")
        name_it = f"@env.check(points={points!r})"
        if type(points) not in {int, float} or not math.isfinite(points):
            raise ConfigError(f"{name_it}: points must be a number")
        required = _sequence(requires, f"{name_it}: requires", '["other_check"]')
        tagged = _sequence(tags, f"{name_it}: tags", '["style"]')

        def mark(marked: F) -> F:
            name = id or marked.__name__
            ref = f"environment:{name}"
            if ref in self.parts.functions:
                raise ConfigError(f"{where(marked)}: two checks are called `{name}`; rename one or give it `id=`")
            self.parts.functions[ref] = marked
            self.parts.checks.append(
                PythonCheck(id=name, ref=ref, points=points, tags=tagged, requires=required, gate=gate, isolate=isolate)
            )
            return self._from(marked)

        return mark

    def solution(self, function: F) -> F:
        """Mark the golden solution: `async def solve(agent, task)`; it has what an agent has, plus the key."""
        self._only_one("solution", self.parts.solution, function)
        self.parts.solution = _acting(function, "solution")
        return self._from(function)

    def adversary(self, function: F) -> F:
        """Mark an agent that cheats, written like a solution: `sandlot audit` demands that it earns nothing."""
        self.parts.adversaries[function.__name__] = _acting(function, "adversary")
        return self._from(function)

    def control(self, function: F) -> F:
        """Mark another right way to do the task, written like a solution: `sandlot audit` demands that it gets full marks."""
        self.parts.controls[function.__name__] = _acting(function, "control")
        return self._from(function)

    def user(self, function: F) -> F:
        """Mark the environment's reply to a plain message: `def reply(world, text) -> str | None`; None ends the rollout."""
        self._only_one("user", self.parts.user, function)
        from sandlot.env.user import Replies  # noqa: PLC0415 - users are built on environments

        self.parts.user = lambda world, task: Replies(function, world, task)
        return self._from(function)

    def persona(self, function: F) -> F:
        """Mark who the user is where a model plays it (`--user MODEL`): `def customer(task) -> Persona`; given no key.

        Without `--user` the reply marked with `@env.user` answers in its place: for golden solutions, audits and tests.
        """
        self._only_one("persona", self.parts.persona, function)
        self.parts.persona = function
        return self._from(function)

    def mcp(self, server: McpServer) -> None:
        """Take an MCP server's tools: it is started when a world opens, and gone when it closes."""
        self.parts.sources.append(server)

    @property
    def tools(self) -> list[Tool]:
        """What the agent may call, MCP servers' tools aside: the marked ones, and `bash` where there is a sandbox."""
        has_own = any(tool.spec.name == BASH.spec.name for tool in self.parts.tools)
        return [*([BASH] if self.bash and not has_own else []), *self.parts.tools]

    def in_image(self, image: str | None) -> "Environment":
        """The same environment in another image; None for its own. Tools and checks stay as they are: no `bash` comes with it."""
        if image is None:
            return self
        other = copy.copy(self)
        other.image = image
        return other

    # -- use ---------------------------------------------------------------------------------------------------------

    def session(self, task: Task | str) -> AbstractAsyncContextManager[Session]:
        """A world opened for one task, with the loop in your hands: `reset`, `step`, `render`."""
        from sandlot.env.session import open_session  # noqa: PLC0415 - the session is built on environments
        from sandlot.env.taskset import task_named  # noqa: PLC0415 - as above

        return open_session(self, task_named(self, task) if isinstance(task, str) else task)

    def new_world(self, task: Task, files: Any, seed: int) -> LiveWorld:
        """A world's parts, fresh for one rollout."""
        noted: dict[str, FileRecord] | None = None if self.image is None else {}
        return LiveWorld(state=self.state(), task=task.public(), rng=Random(seed), files=files, noted=noted)  # noqa: S311 - seeded, not secret

    def _from(self, function: F) -> F:
        if self.source is None:
            self.source = Path(inspect.unwrap(function).__code__.co_filename)
        return function

    def _only_one(self, what: str, present: object, function: Callable[..., Any]) -> None:
        if present is not None:
            raise ConfigError(
                f"{where(function)}: environment `{self.name}` has its `{what}` already; a second one is `{name_of(function)}`"
            )


def _acting(function: F, what: str) -> F:
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{where(function)}: the {what} `{function.__name__}` must be `async def`, to await `agent.call`")
    return function


def _sequence(value: Sequence[T], what: str, fix: str) -> tuple[T, ...]:
    """Several, as a tuple; one alone, or a text, which Python would take letter by letter, is refused."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise ConfigError(f"{what} is {value!r}; give a list, `{fix}`")
    return tuple(value)


def where(function: Callable[..., Any]) -> str:
    """`file:line` of a function, for errors an author can click."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
