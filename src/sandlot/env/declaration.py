"""What an author declares: the facts of an environment, and the functions it was given.

Sessions, task sets, users and images read a `Declaration`. `Environment` adds the decorators and opens sessions, so it stands
above them.
"""

import copy
import inspect
import posixpath
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

from sandlot.apps.app import App
from sandlot.apps.colleague import Colleague
from sandlot.apps.tool import tools_of
from sandlot.core.concurrency.author import location_of
from sandlot.core.crashes import OnCrash, require_on_crash
from sandlot.core.errors import ConfigError
from sandlot.core.images import IMAGE_POLICIES, ImagePolicy
from sandlot.core.limits import Constraint, Hold, Limits
from sandlot.core.persona import Persona
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.session import User
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import AsksRoles, Tool, ToolSource, World
from sandlot.core.rubric import PythonCheck, Rubric, RubricScore
from sandlot.core.seats import ORDERS, Order, Seat
from sandlot.core.task import Task
from sandlot.core.trace import FileRecord
from sandlot.env.world import LiveWorld
from sandlot.tools.bash import BASH
from sandlot.tools.function import FunctionTool
from sandlot.tools.terminal import TERMINAL

F = TypeVar("F", bound=Callable[..., Any])


_T = TypeVar("_T")


_NETWORKS = ("none",)
"""What a sandbox may reach."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass
class Marked:
    """The functions and rubrics of an environment. Decorators fill it; the folder and function forms do so directly."""

    tasks: Callable[[Random], Iterable[Task]] | None = None
    setup: Callable[..., Any] | None = None
    base: Callable[..., Any] | None = None
    """Fills the apps before any task."""
    finish: Callable[..., Any] | None = None
    """Looks at the world when the agent has ended, while programs still run."""
    tools: list[Tool] = field(default_factory=list[Tool])
    sources: list[ToolSource] = field(default_factory=list[ToolSource])
    checks: list[PythonCheck] = field(default_factory=list[PythonCheck])
    rubrics: dict[str, Rubric] = field(default_factory=dict[str, Rubric])
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Check functions by reference."""
    solution: Callable[..., Any] | None = None
    adversaries: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """The author's own cheating agents, which must earn nothing."""
    controls: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Other right solutions, which must get full marks."""
    user: Callable[[World, Task], User] | None = None
    """The scripted user."""
    persona: Callable[[Task], Persona] | None = None
    """The user that a model plays."""
    colleagues: Callable[[Task], Iterable[Colleague]] | None = None
    """The colleagues whom a model plays."""
    hold: Hold | None = None
    """The actions that wait for a person."""
    round: Callable[..., Any] | None = None
    """Called when every seat has acted."""
    grade: Callable[[Evidence, Task, Judge | None], Awaitable[RubricScore]] | None = None
    """Grades instead of the rubrics, where the environment is one function."""

    @property
    def is_played(self) -> bool:
        """True if there is someone for a model to play: a user, colleagues, or roles of a foreign program."""
        return self.persona is not None or self.colleagues is not None or bool(self.roles)

    @property
    def needs_player(self) -> bool:
        """True if no rollout is possible without a model that plays someone."""
        return self.colleagues is not None or bool(self.roles) or (self.persona is not None and self.user is None)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that programs of other frameworks ask a model to play."""
        return tuple(role for source in self.sources if isinstance(source, AsksRoles) for role in source.roles)


def _require_valid(name: str, network: str, state: object, images: str | None) -> None:
    if not _NAME.match(name):
        raise ConfigError(
            f"environment name {name!r}: use up to 64 letters, digits, `.`, `_`, `-`, starting with a letter or digit"
        )
    if network not in _NETWORKS:
        raise ConfigError(f"environment `{name}`: network={network!r} is unknown; use {', '.join(_NETWORKS)}")
    if not callable(state):
        raise ConfigError(
            f"environment `{name}`: state={state!r} is not callable; give a class or function that makes a fresh state"
        )
    if images is not None and images not in IMAGE_POLICIES:
        raise ConfigError(f"environment `{name}`: images={images!r} is unknown; use {', '.join(IMAGE_POLICIES)}")


class Declaration:
    """An environment as declared: its facts, and `marked`, its functions."""

    in_other_image = False
    """True for a copy that runs in another image: then the images of single tasks do not count."""
    declared_limits: Limits | None = None
    """Its own limits, in a copy whose `limits` a recipe has changed."""

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
        images: ImagePolicy | None = None,
        apps: Sequence[App] = (),
        seats: Sequence[Seat | str] = (),
        order: Order = "in turn",
        shared: str = "",
        on_crash: OnCrash = "grade",
    ) -> None:
        _require_valid(name, network, state, images)
        require_on_crash(on_crash, f"environment `{name}`")
        self.name = name
        self.description = description
        self.system = system
        """The system prompt; empty for none."""
        self.image = image
        """The sandbox's image; None for a world in memory, without a sandbox."""
        listed = require_sequence(tools or (), f"environment `{name}`: tools", "[look, 'bash']")
        self.bash = image is not None if tools is None else BASH.spec.name in listed
        """True if the agent has the tool `bash`: it has an image, and `tools`, if given, lists it."""
        self.terminal = TERMINAL.spec.name in listed
        """True if the agent has the tool `terminal`: `tools` lists it."""
        self.concurrent = concurrent
        """False to run the tool calls of one turn one after the other, for tools that change the same file."""
        self.network = network
        self.images: ImagePolicy | None = images
        """What a model that takes text only gets where the environment shows images; None: it shows none."""
        self.seed = seed
        self.limits = limits or Limits()
        self.constraints = require_sequence(constraints, f"environment `{name}`: constraints", "(Constraint(...),)")
        self.state = state
        """Called for each rollout's fresh state: a dataclass, a msgspec.Struct, or `dict`."""
        self.apps = require_sequence(apps, f"environment `{name}`: apps", "[MAIL, CHAT]")
        """Ready parts of the world."""
        self.seats = _seats(name, seats, order)
        """The agents that act in one world; none for a single agent."""
        self.order: Order = order
        """How seats act: `in turn`, or `at once`, where nobody sees what the others do in the same round."""
        self.shared = _shared(name, shared, self.seats, image)
        """A folder of the sandbox that all seats may read and write; empty for none."""
        self.on_crash: OnCrash = on_crash
        """What a crash of a tool does after the agent has acted: the rollout is graded, or has failed."""
        self.marked = Marked()
        self.marked.tools += _functions(name, listed)
        self.source: Path | None = None
        """The file or folder it was loaded from; the fingerprint is computed from it."""
        self.package: Path | None = None
        """The folder of its installed package; None if it is not installed."""

    @property
    def tools(self) -> list[Tool]:
        """The tools the agent may call: `bash` and `terminal` if it has them, and the marked functions. Without MCP servers'."""
        own = {tool.spec.name for tool in self.marked.tools}
        offered = [tool for tool, has in ((BASH, self.bash), (TERMINAL, self.terminal)) if has and tool.spec.name not in own]
        return [*offered, *self.marked.tools, *tools_of(self.apps)]

    def in_image(self, image: str | None) -> Self:
        """Return a copy that runs in another image. None returns this environment.

        A copy of an environment without a sandbox does not get the tool `bash`.

        ```python
        from sandlot import Environment

        env = Environment("shop")
        assert env.in_image("host").image == "host" and env.image is None
        ```
        """
        if image is None:
            return self
        other = copy.copy(self)
        other.image = image
        other.in_other_image = True
        return other

    def new_world(self, task: Task, files: Any, seed: int, blobs: Blobs | None = None) -> LiveWorld:
        """Create the world of one rollout. Sessions call it. Images are stored in `blobs`."""
        written: dict[str, FileRecord] | None = None if self.image is None else {}
        rng = Random(seed)  # noqa: S311 - seeded, not secret
        images = blobs if self.images is not None else None
        told: dict[str, list[str]] = {seat.name: [] for seat in self.seats}
        return LiveWorld(state=self.state(), task=task.public(), rng=rng, files=files, written=written, blobs=images, seats=told)


def _seats(name: str, seats: Sequence[Seat | str], order: str) -> tuple[Seat, ...]:
    """The seats, whole; `ConfigError` for fewer than two, for two of one name and for an unknown order."""
    given = require_sequence(seats, f"environment `{name}`: seats", '[Seat("buyer"), Seat("seller")]')
    made = tuple(Seat(each) if isinstance(each, str) else each for each in given)
    names = [seat.name for seat in made]
    if len(made) == 1 or len(set(names)) < len(names):
        raise ConfigError(f"environment `{name}`: its seats are {names}; give two or more with different names, or none")
    if "root" in names:
        raise ConfigError(f"environment `{name}`: a seat is named `root`, which is a user of every sandbox; choose another name")
    if order not in ORDERS:
        raise ConfigError(f"environment `{name}`: order={order!r} is unknown; use {', '.join(repr(each) for each in ORDERS)}")
    return made


def _shared(name: str, shared: str, seats: Sequence[Seat], image: str | None) -> str:
    """The shared folder; `ConfigError` if it is no folder below `/`, or there is nobody to share it."""
    if not shared:
        return ""
    if not seats or image is None:
        raise ConfigError(f"environment `{name}`: shared={shared!r} is for seats in a sandbox; give it `seats` and an `image`")
    if posixpath.normpath(shared) != shared or not shared.startswith("/") or shared in {"/", "//", "/home", "/tmp"}:  # noqa: S108 - inside
        raise ConfigError(f'environment `{name}`: shared={shared!r}; give the absolute path of a folder, such as "/work"')
    return shared


def _functions(name: str, listed: Sequence[Callable[..., Any] | str]) -> list[FunctionTool]:
    """The functions among the listed tools; the others are `bash` and `terminal`."""
    wrong = next((tool for tool in listed if not callable(tool) and tool not in {BASH.spec.name, TERMINAL.spec.name}), None)
    if wrong is not None:
        raise ConfigError(
            f"environment `{name}`: tools has {wrong!r}; list functions, 'bash' for a shell, or 'terminal' for a terminal"
        )
    return [FunctionTool.of(tool) for tool in listed if callable(tool)]


def require_async(function: F, what: str) -> F:
    """Return the function; `ConfigError` if it is not `async def`."""
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{location_of(function)}: the {what} `{function.__name__}` must be `async def`, to await `agent.call`")
    return function


def require_sequence(value: Sequence[_T], what: str, fix: str) -> tuple[_T, ...]:
    """The values as a tuple. `ConfigError` for a single value, and for a string, which Python would split into letters."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise ConfigError(f"{what} is {value!r}; give a list, such as `{fix}`")
    return tuple(value)
