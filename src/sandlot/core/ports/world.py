"""What a rollout acts in: the world and its tools."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Protocol

import msgspec

from sandlot.core.ports.sandbox import Command, Completed, Process, Stream
from sandlot.core.task import Task
from sandlot.core.trace import (
    ToolCall,
    ToolResult,
)
from sandlot.core.types import Json


class World(Protocol):
    """What a rollout acts in: the first argument of setups and tools.

    With an image, files and commands are those of the rollout's sandbox. Without one, files live in memory and `exec` is refused.
    Commands and files are awaited, so a tool that uses them is `async`.

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
    """Made anew for every rollout by the environment's `state`; checks see its last value."""
    task: Task
    """The task, without its key."""
    rng: Random
    """Seeded by environment and task: every rollout of a task draws the same numbers."""

    async def exec(
        self,
        command: str,
        *,
        stdin: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        check: bool | None = None,
    ) -> Completed:
        """Run a shell command in the sandbox and wait for it. Output beyond `output_bytes` (None: 8 MiB) is dropped and counted.

        With `check`, an exit code other than 0 raises, with the end of what the command printed. Setups check unless you write
        `check=False`; tools and checks do not unless you write `check=True`.
        """
        ...

    async def spawn(self, command: Command) -> Process:
        """Start a command in the sandbox, and hold its streams."""
        ...

    async def start(self, command: str, *, ready: int | str | None = None, timeout_s: float = 30.0) -> Process:
        """Start a shell command in the sandbox and leave it running.

        With `ready`, a port or the path of a unix socket, wait until it takes connections; one that ends or is late is an error.
        """
        ...

    async def connect(self, where: int | str) -> Stream:
        """Reach a port or a unix socket inside the sandbox, without opening the network."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Answer, on the host, what programs in the sandbox send to this port of their loopback address."""
        ...

    async def read(self, path: str) -> bytes:
        """The bytes of one file."""
        ...

    async def write(self, path: str, data: bytes | str) -> None:
        """Write one file, and make the folders above it."""
        ...

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        ...


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as every model and every MCP client sees it."""

    name: str
    description: str
    parameters: Json
    """JSON Schema of the arguments, an object."""


class Tool(Protocol):
    """What the agent may call. A bad call comes back as a result with `error`; only infrastructure raises."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if calls of one turn may run beside each other; what shares the world's state in threads may not."""
        ...

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments, run it, and say what came of it."""
        ...


class ToolSource(Protocol):
    """Something that offers tools for as long as a world lives: an MCP server, for one."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start it for this world; it is gone when the context ends."""
        ...
