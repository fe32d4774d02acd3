"""An environment as an MCP server: any MCP client can be the agent, in its own world.

Over stdio a process has one connection and one world; over streamable HTTP each session has a world. The world is closed when the
client disconnects. This module does not depend on environments: `open_session` opens the world.
"""

import socket
from collections.abc import Callable, Sequence
from typing import Literal

import anyio

from sandlot.serve.environment.connection import FinishText, OpenSession, open_connection

_MAX_BODY_BYTES = 4 * 2**20
_LOCAL = ("127.0.0.1", "localhost", "::1")


async def serve_mcp(
    name: str,
    open_session: OpenSession,
    *,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_hosts: Sequence[str] = (),
    finish_text: FinishText | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until the client disconnects (stdio) or the task is cancelled or interrupted (HTTP).

    `finish_text` returns the text about a rollout that has ended, such as its score. `ready` is called with the address once the
    server listens; port 0 takes any free port. `allow_hosts` are further host names that HTTP clients may use.
    """
    if transport == "stdio":
        await _serve_stdio(name, open_session, finish_text)
    else:
        await _serve_http(name, open_session, finish_text, host, port, allow_hosts, ready)


async def _serve_stdio(name: str, open_session: OpenSession, finish_text: FinishText | None) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - HTTP does not need it

    # The streams are taken first: after that, prints of author code go to stderr.
    async with stdio_server() as (reading, writing), open_connection(name, open_session, finish_text) as connection:
        await connection.server.run(reading, writing, connection.server.create_initialization_options())


async def _serve_http(
    name: str,
    open_session: OpenSession,
    finish_text: FinishText | None,
    host: str,
    port: int,
    allow_hosts: Sequence[str],
    ready: Callable[[str], None] | None,
) -> None:
    import uvicorn  # noqa: PLC0415 - stdio does not need it
    from mcp.server.transport_security import RequestBodyLimitMiddleware  # noqa: PLC0415 - as above

    from sandlot.serve.environment.http import PATH, SessionRouter  # noqa: PLC0415 - as above
    from sandlot.serve.guard import Guard  # noqa: PLC0415 - as above

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        async with anyio.create_task_group() as worlds:
            door = SessionRouter(
                lambda: open_connection(name, open_session, finish_text), worlds, local=host in _LOCAL and not allow_hosts
            )
            app = Guard(RequestBodyLimitMiddleware(door, _MAX_BODY_BYTES), host, allow_hosts)
            config = uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=2)
            if ready:
                shown = f"[{host}]" if family == socket.AF_INET6 else host
                ready(f"http://{shown}:{listening.getsockname()[1]}{PATH}")
            await uvicorn.Server(config).serve([listening])
            worlds.cancel_scope.cancel()
