"""An environment as an MCP server: any MCP client can be the agent, in its own world.

Over stdio a process has one connection and one world; over streamable HTTP each session has a world. The world is closed when the
client disconnects. This module does not depend on environments: `open_session` opens the world.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import anyio

from sandlot.core.address import Address
from sandlot.core.errors import unwrapped
from sandlot.serve.environment.connection import FinishText, OpenSession, open_connection

_MAX_BODY_BYTES = 4 * 2**20
_DRAIN_S = 2.0


async def serve_mcp(  # noqa: PLR0913 - where and how, all by keyword
    name: str,
    open_session: OpenSession,
    *,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_hosts: Sequence[str] = (),
    token: str | None = None,
    finish_text: FinishText | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until the client disconnects (stdio) or the task is cancelled (HTTP).

    `finish_text` returns the text about a rollout that has ended, such as its score. `ready` is called with the address once the
    server listens; port 0 takes any free port. `allow_hosts` are further host names that HTTP clients may use, and `token` is
    what they must send: an address beyond this machine needs one.
    """
    if transport == "stdio":
        await _serve_stdio(name, open_session, finish_text)
        return
    from mcp.server.transport_security import RequestBodyLimitMiddleware  # noqa: PLC0415 - stdio does not need it

    from sandlot.model.wire.listening import serve_app  # noqa: PLC0415 - as above
    from sandlot.serve.environment.http import PATH, SessionRouter  # noqa: PLC0415 - as above
    from sandlot.serve.guard import Guard  # noqa: PLC0415 - as above

    local = Address(host, port).is_loopback and not allow_hosts
    try:
        async with anyio.create_task_group() as worlds:
            router = SessionRouter(lambda: open_connection(name, open_session, finish_text), worlds, local=local)
            app = Guard(RequestBodyLimitMiddleware(router, _MAX_BODY_BYTES), host, allow_hosts, token=token)
            async with serve_app(app, host=host, port=port, drain_s=_DRAIN_S) as address:
                ready(f"{address}{PATH}")
                await anyio.sleep_forever()
    except BaseExceptionGroup as group:
        raise unwrapped(group) from None


async def _serve_stdio(name: str, open_session: OpenSession, finish_text: FinishText | None) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - HTTP does not need it

    # The streams are taken first: after that, prints of author code go to stderr.
    async with stdio_server() as (reading, writing), open_connection(name, open_session, finish_text) as connection:
        await connection.server.run(reading, writing, connection.server.create_initialization_options())
