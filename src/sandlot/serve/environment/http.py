"""Many MCP clients on one port, each with its own world.

A client's first request opens a world; the session id in the reply routes later requests to it. A DELETE or an idle timeout
closes it. The MCP SDK's session manager shares one server among all clients, so it is replaced here.

MCP version 2026-07-28 has no sessions over HTTP, so a world could not be assigned to a client. Requests of that version are
refused with a list of the versions that have sessions, and clients fall back to one of those.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

import anyio
import mcp_types as mcp
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.serve.environment.connection import Connection

PATH = "/mcp"
_AT_ONCE = 64
"""Maximum open worlds; further clients get HTTP 503."""
_IDLE_S = 600.0
"""A world without requests for this long is closed."""
_LOCAL_ONLY = TransportSecuritySettings(
    allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
)
"""Protection against DNS rebinding by web pages."""

_log = logging.getLogger(__name__)


class SessionRouter:
    """An ASGI application that routes each client to its own connection."""

    def __init__(
        self,
        open_connection: Callable[[], AbstractAsyncContextManager[Connection]],
        worlds: TaskGroup,
        *,
        local: bool,
        at_once: int = _AT_ONCE,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._open_connection = open_connection
        self._worlds = worlds
        self._security = _LOCAL_ONLY if local else None
        self._at_once = at_once
        self._idle_s = idle_s
        self._transports: dict[str, StreamableHTTPServerTransport] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        headers = Headers(scope=scope)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        session = headers.get(MCP_SESSION_ID_HEADER)
        if scope["path"].rstrip("/") != PATH:
            answer = Response(f"the MCP endpoint is {PATH}", status_code=404)
        elif version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version}
            answer = _refusal(400, mcp.UNSUPPORTED_PROTOCOL_VERSION, "this version has no sessions; use an earlier one", data)
        elif session is None and scope.get("method") == "POST":
            await self._open_session(scope, receive, send)
            return
        elif session in self._transports:
            await self._transports[session].handle_request(scope, receive, send)
            return
        else:
            answer = _refusal(404, mcp.INVALID_REQUEST, "unknown session: its world is closed; start a new one")
        await answer(scope, receive, send)

    async def _open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a world for a new client; keep it if the client's first request succeeds."""
        if len(self._transports) >= self._at_once:
            answer = _refusal(503, mcp.INTERNAL_ERROR, f"{self._at_once} worlds are open, the maximum; try again later")
            await answer(scope, receive, send)
            return
        name = uuid4().hex
        transport = StreamableHTTPServerTransport(name, security_settings=self._security, idle_timeout=self._idle_s)
        self._transports[name] = transport
        try:
            await self._worlds.start(self._run_session, name, transport)
        except SandlotError as error:
            await _refusal(500, mcp.INTERNAL_ERROR, f"the world could not be opened: {error}")(scope, receive, send)
            return
        good = False

        async def watched(message: Message) -> None:
            nonlocal good
            if message["type"] == "http.response.start":
                good = message["status"] < 400
            await send(message)

        try:
            await transport.handle_request(scope, receive, watched)
        finally:
            if not good:
                with anyio.CancelScope(shield=True):
                    await transport.terminate()

    async def _run_session(
        self, name: str, transport: StreamableHTTPServerTransport, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep one world open while its client is connected. A failure is logged and does not affect other worlds."""
        started = False
        try:
            with boundary(HarnessError, "connection"):
                async with self._open_connection() as connection, transport.connect() as (reading, writing):
                    started = True
                    task_status.started()
                    with transport.idle_scope or anyio.CancelScope():
                        await connection.server.run(reading, writing, connection.server.create_initialization_options())
        except SandlotError:
            if not started:
                raise
            _log.exception("connection failed", extra={"session": name})
        finally:
            del self._transports[name]
            with anyio.CancelScope(shield=True):
                await transport.terminate()


def _refusal(status: int, code: int, message: str, data: object = None) -> Response:
    error = mcp.ErrorData(code=code, message=message, data=data)
    body = mcp.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    return Response(body.model_dump_json(by_alias=True, exclude_unset=True), status_code=status, media_type="application/json")
