"""The tools of an MCP server as an environment's tools, for as long as a world is open.

An author declares an `McpServer`: a command to start (stdio) or a URL (streamable HTTP), on the host or inside the sandbox.
Opening it for a world starts the server, or a session on it, and lists its tools; closing ends it, whatever its state. The server
gets only a few of our environment variables like `PATH`, and those that are named; inside a sandbox, none. A server that does not
start is a failure of the environment; one that dies later is a crash, an error to the agent (`core/crashes.py`).

The SDK is imported when a server is opened, not before: it takes more than a second.
"""

import importlib
import math
import os
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import AuthorError, ConfigError, boundary, unwrapped
from sandlot.core.ports.sandbox import Command
from sandlot.core.ports.world import Tool, World

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as ListedTool

    from sandlot.tools.stdio import ServerNotes

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""Environment variables that every server gets."""
_MAX_TOOLS = 1024
"""More than any agent can use."""
_MAX_PAGES = 100
_LOOPBACK = {"127.0.0.1", "localhost"}


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server whose tools the agent may call: hand it to `env.mcp(...)`.

    Give either `command` (stdio) or `url` (streamable HTTP). A command is started anew for every rollout and ended with it. It
    sees none of this process's environment variables except a few like `PATH`, `env` and `pass_env`. A server that does not start
    is a failure of the environment: the rollout has no reward. If it dies later, its tools answer the agent with errors.

    ```python
    from sandlot import Environment, McpServer

    env = Environment("notes")
    env.mcp(McpServer(name="notes", command=("python3", "notes_server.py"), tools=("add", "search"), prefix="notes_"))
    ```
    """

    name: str
    """Names the server in errors and traces."""
    command: tuple[str, ...] = ()
    """Start this program and talk to it over stdin and stdout."""
    url: str | None = None
    """Connect to this address instead."""
    inside: bool = False
    """Start the command in the rollout's sandbox, or reach the address there: `url` is then `http://127.0.0.1:PORT/...`."""
    cwd: str | None = None
    """The command's working directory. None: the current one, or inside a sandbox the image's."""
    env: dict[str, str] = {}
    """Environment variables for the command. They are stored with the run: no secrets here."""
    pass_env: tuple[str, ...] = ()
    """Names of this process's environment variables that the command may see. Values are not stored."""
    headers: dict[str, str] = {}
    """HTTP header -> name of the environment variable that holds its value."""
    tools: tuple[str, ...] = ()
    """The tools to use; empty for all of them."""
    prefix: str = ""
    """Put before every tool's name, so that two servers do not clash."""
    start_s: float = 30.0
    """Seconds that starting and listing tools may take."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ConfigError(f"MCP server `{self.name}`: give either `command` or `url`")
        if self.url and (self.env or self.pass_env):
            raise ConfigError(f"MCP server `{self.name}`: `env` and `pass_env` are for `command`; a `url` takes `headers`")
        if self.command and self.headers:
            raise ConfigError(f"MCP server `{self.name}`: `headers` are for `url`; a `command` takes `env` and `pass_env`")
        if self.inside:
            self._require_fit_for_inside()
        if not 0 < self.start_s < math.inf:
            raise ConfigError(f"MCP server `{self.name}`: `start_s` is {self.start_s}; give a positive number of seconds")

    def _require_fit_for_inside(self) -> None:
        if self.pass_env or self.headers:
            raise ConfigError(
                f"MCP server `{self.name}`: `pass_env` and `headers` may hold secrets of this process, which must not enter a "
                "sandbox; remove them, or `inside`"
            )
        if self.url is not None and (urlsplit(self.url).scheme != "http" or urlsplit(self.url).hostname not in _LOOPBACK):
            raise ConfigError(
                f"MCP server `{self.name}`: `url` is {self.url!r}; inside a sandbox it must be `http://127.0.0.1:PORT/...`"
            )

    @asynccontextmanager
    async def open(self, world: World) -> AsyncGenerator[Sequence[Tool]]:
        """Start the server for this world; its tools, until the context ends. All its processes end with it."""
        await anyio.to_thread.run_sync(_load_sdk)  # in a thread: every other rollout would wait for it
        from sandlot.tools.stdio import ServerNotes  # noqa: PLC0415 - brings the SDK, see above

        secrets = tuple(filter(None, map(os.environ.get, [*self.pass_env, *self.headers.values()])))
        notes = ServerNotes(secrets=secrets, inside=self.inside)
        what = f"MCP server `{self.name}` did not start"
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.start_s) as starting:
                async with AsyncExitStack() as stack:
                    tools = await self._start(stack, world, notes, what)
                    starting.deadline = math.inf
                    yield tools
        except BaseExceptionGroup as group:
            leaf = unwrapped(group)
            raise leaf from leaf.__cause__
        if starting.cancelled_caught:
            raise AuthorError(f"{what} within {self.start_s:g} s; {notes.summary() or 'it wrote nothing'}", kind="timeout")

    async def _start(self, stack: AsyncExitStack, world: World, notes: "ServerNotes", what: str) -> Sequence[Tool]:
        from mcp import Client, MCPError  # noqa: PLC0415 - see above

        from sandlot.tools.remote import make_remote_tool  # noqa: PLC0415 - see above

        with boundary(AuthorError, what):
            try:
                client = await stack.enter_async_context(Client(await self._transport(stack, world, notes), cache=None))
                listed = await self._list_tools(client)
            except (MCPError, ExceptionGroup, OSError) as error:
                raise AuthorError(f"{what}: {unwrapped(error)}; {notes.summary()}", kind="server") from error
        return [make_remote_tool(each, self.name, self.prefix, client, notes) for each in listed]

    async def _transport(self, stack: AsyncExitStack, world: World, notes: "ServerNotes") -> Any:
        if self.url is not None:
            return await self._over_http(stack, self.url, world, notes)
        if not self.inside:
            from sandlot.tools.stdio import open_stdio  # noqa: PLC0415 - see above

            env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            env |= {name: self._variable(name) for name in self.pass_env} | self.env
            return open_stdio(self.command, env, self.cwd, notes)
        from sandlot.tools.inside import open_stdio_inside  # noqa: PLC0415 - see above

        return open_stdio_inside(world, Command(argv=self.command, env=self.env, cwd=self.cwd), notes)

    async def _over_http(self, stack: AsyncExitStack, url: str, world: World, notes: "ServerNotes") -> Any:
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - see above

        from sandlot.tools.http import open_http_client  # noqa: PLC0415 - see above
        from sandlot.tools.inside import forward_port  # noqa: PLC0415 - see above
        from sandlot.tools.stdio import MAX_MESSAGE_BYTES  # noqa: PLC0415 - see above

        socket = await stack.enter_async_context(forward_port(world, urlsplit(url).port or 80, notes)) if self.inside else None
        headers = {header: self._variable(name) for header, name in self.headers.items()}
        client = await stack.enter_async_context(open_http_client(url, headers, notes, socket))
        return streamable_http_client(url, http_client=client, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE_BYTES)

    def _variable(self, name: str) -> str:
        try:
            return os.environ[name]
        except KeyError:
            raise AuthorError(
                f"MCP server `{self.name}` needs the environment variable `{name}`; set it", kind="config"
            ) from None

    async def _list_tools(self, client: "Client") -> list["ListedTool"]:
        """The wanted tools of the server; an error if a name is missing or used twice."""
        listed: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += [tool for tool in page.tools if not self.tools or tool.name in self.tools]
            cursor = page.next_cursor
            if cursor is None or len(listed) > _MAX_TOOLS:
                break
        else:
            raise AuthorError(f"MCP server `{self.name}` lists more than {_MAX_PAGES} pages of tools", kind="server")
        if len(listed) > _MAX_TOOLS:
            raise AuthorError(
                f"MCP server `{self.name}` offers more than {_MAX_TOOLS} tools; list those to use in `tools`", kind="server"
            )
        names = Counter(tool.name for tool in listed)
        if twice := [name for name, count in names.items() if count > 1]:
            raise AuthorError(f"MCP server `{self.name}` offers two tools named `{twice[0]}`", kind="server")
        if missing := [name for name in self.tools if name not in names]:
            raise AuthorError(
                f"MCP server `{self.name}` has no tool `{missing[0]}`; there are: {', '.join(names)}", kind="config"
            )
        return listed


def _load_sdk() -> None:
    for name in ("http", "remote"):
        importlib.import_module(f"sandlot.tools.{name}")
