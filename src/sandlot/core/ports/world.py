"""The interfaces of a rollout's world and its tools."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec

from sandlot.core.images import Image
from sandlot.core.ports.sandbox import Command, Completed, Process, Stream
from sandlot.core.task import Task
from sandlot.core.trace import (
    ImagePart,
    Message,
    ToolCall,
    ToolResult,
)
from sandlot.core.types import Json


class World(Protocol):
    """The world of a rollout: the first argument of setup functions and tools.

    With an image, files and commands are in the rollout's sandbox. Without one, files live in memory and `exec` is an error.
    Files and commands must be awaited, so a tool that uses them is `async`.

    ```python
    from sandlot import Environment, Task, World

    env = Environment("notes", state=lambda: {"reads": 0})


    @env.setup
    async def put_note(world: World, task: Task) -> None:
        await world.write("/notes/today.txt", task.data["note"])


    @env.tool
    async def read_note(world: World, name: str) -> str:
        "Read one note."
        world.state["reads"] += 1
        return (await world.read(f"/notes/{name}.txt")).decode()
    ```
    """

    state: Any
    """The rollout's own state, made by the environment's `state`. Checks see its final value."""
    task: Task
    """The task, without its key."""
    rng: Random
    """Seeded by environment and task: the same in every rollout of a task."""
    apps: Any
    """The apps of the environment, such as `world.apps.mail`; None without apps. See `sandlot.apps`."""
    seat: str
    """Where several agents act: the seat whose call or message is being answered; empty in setup and between rounds."""

    async def exec(
        self,
        command: str,
        *,
        stdin: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        check: bool | None = None,
        user: str | None = None,
    ) -> Completed:
        """Run a shell command in the sandbox and wait for it. Output beyond `output_bytes` (None: 8 MiB) is dropped and counted.

        With `check`, an exit code other than 0 raises an error that shows the end of the output. In setup the default is
        `check=True`, in tools and checks `check=False`.

        It runs as `user`, by default the image's. Where seats share a sandbox, what is run in the call of a seat runs as that
        seat's own user: name `user="root"` for what the seat itself may not do.
        """
        ...

    async def spawn(self, command: Command) -> Process:
        """Start a command in the sandbox and return its process."""
        ...

    async def start(self, command: str, *, ready: int | str | None = None, timeout_s: float = 30.0) -> Process:
        """Start a shell command in the sandbox and leave it running.

        With `ready`, a port or the path of a Unix socket, wait until it accepts connections. It is an error if the command ends
        or is not ready within `timeout_s`.
        """
        ...

    async def connect(self, where: int | str) -> Stream:
        """Connect to a port or Unix socket inside the sandbox; the network stays closed."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Serve a port of the sandbox's loopback from the host: yields the connections of programs inside."""
        ...

    async def read(self, path: str) -> bytes:
        """Read a file; `FileNotFoundError` if there is none."""
        ...

    async def write(self, path: str, data: bytes | str) -> None:
        """Write a file and create its parent folders."""
        ...

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        ...

    def tell(self, seat: str, text: str) -> None:
        """Where several agents act: let a seat read a text before its next turn. In setup it is part of its first message."""
        ...

    def end(self) -> None:
        """Where several agents act: end the rollout for all of them; if they act at once, when the round is over."""
        ...


@runtime_checkable
class ShowsImages(Protocol):
    """A world in which tools may show images."""

    async def store_image(self, image: Image) -> ImagePart | None:
        """Store an image that the agent is to see; None if the environment declares none. `ToolError` if it is not allowed."""
        ...


@runtime_checkable
class ShowsTurns(Protocol):
    """A world whose parts see the agent's whole messages, not only single calls: for loops of other frameworks."""

    turns: Sequence[Message]
    """The agent's messages so far. The last one is the one whose calls run, or to which the user replies."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as models and MCP clients see it."""

    name: str
    description: str
    parameters: Json
    """JSON Schema of the arguments, an object."""


class Tool(Protocol):
    """A tool of the agent. A wrong call returns a result with `error`; only infrastructure failures raise."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if calls of one turn may run at the same time; False for tools that share state in threads."""
        ...

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments, run the tool, return its result."""
        ...


class ToolSource(Protocol):
    """A source of tools that lives as long as a world, such as an MCP server."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start it for this world; it stops when the context ends."""
        ...


@runtime_checkable
class AsksRoles(Protocol):
    """A source of tools whose program asks models in roles: the run's `--user` model plays them."""

    roles: Sequence[str]
    """Their names, as the program has them; none if it asks no model."""
