"""MCP servers over HTTP: an honest one made with the SDK, and hostile ones made by hand, all in this process."""

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sandlot.core.errors import AuthorError
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.mcp import McpServer

WORLD: Any = SimpleNamespace(state=None)


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[tuple[str, uvicorn.Server]]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", server
            server.should_exit = True


async def asked(url: str, **options: Any) -> ToolResult:
    async with McpServer(name="web", url=url, **options).open(WORLD) as tools:
        return await tools[0].call(WORLD, ToolCall(id="c1", name="work", arguments={"n": 2}))


async def test_an_honest_server_over_http_is_a_source_of_tools():
    server = MCPServer("web")

    @server.tool()
    def work(n: int) -> str:
        """Double it."""
        if n < 0:
            raise ToolError("too small")
        return str(2 * n)

    async with served(server.streamable_http_app()) as (url, _), McpServer(name="web", url=url).open(WORLD) as tools:
        assert (tools[0].spec.name, tools[0].spec.description) == ("work", "Double it.")
        assert (await tools[0].call(WORLD, ToolCall(id="c1", name="work", arguments={"n": 2}))).text == "4"
        bad = await tools[0].call(WORLD, ToolCall(id="c1", name="work", arguments={"n": -2}))
        assert bad.error
        assert "too small" in bad.text


def by_hand(on_call: Callable[[Request, Any], Awaitable[Response]], seen: list[Request] | None = None) -> Starlette:
    """A handshake-era server with one tool, whose answer to a call is `on_call`."""

    async def endpoint(request: Request) -> Response:
        if seen is not None:
            seen.append(request)
        if request.method != "POST":
            return Response(status_code=405 if request.method == "GET" else 200)
        message = await request.json()
        match message.get("method"):
            case "initialize":
                info = {"name": "by hand", "version": "1"}
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                return answered(message, result, {"mcp-session-id": "s1"})
            case "tools/list":
                return answered(message, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                return await on_call(request, message)
            case "server/discover":
                return Response(status_code=404)
        return Response(status_code=202)

    return Starlette(routes=[Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"])])


def answered(message: Any, result: Any, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


async def test_a_session_is_ended_with_the_world_and_headers_come_from_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEB_KEY", "Bearer very-secret")
    seen: list[Request] = []

    async def fine(_: Request, message: Any) -> Response:
        return answered(message, text("fine"))

    async with served(by_hand(fine, seen)) as (url, _):
        assert (await asked(url, headers={"Authorization": "WEB_KEY"})).text == "fine"
    assert {request.headers["authorization"] for request in seen} == {"Bearer very-secret"}
    assert (seen[-1].method, seen[-1].headers["mcp-session-id"]) == ("DELETE", "s1")


async def test_an_error_of_the_tool_reaches_the_agent_even_with_an_http_error_status():
    async def invalid(_: Request, message: Any) -> Response:
        error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "n is odd"}}
        return JSONResponse(error, status_code=400)

    async with served(by_hand(invalid)) as (url, _):
        assert await asked(url) == ToolResult(call="c1", text="n is odd", error=True)


async def huge_json(_: Request, message: Any) -> Response:
    return answered(message, text("x" * 12_000_000))


async def huge_event(_: Request, message: Any) -> Response:
    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("x" * 12_000_000)})
    return Response(f"event: message\ndata: {data}\n\n", media_type="text/event-stream")


async def endless(_: Request, message: Any) -> Response:
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b"x" * 2**20

    return StreamingResponse(pieces(), media_type="application/json")


async def crash(_: Request, message: Any) -> Response:
    return Response("Internal Server Error", status_code=500)


async def forget(_: Request, message: Any) -> Response:
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}, status_code=404
    )


async def nonsense(_: Request, message: Any) -> Response:
    return Response("<html>Welcome</html>", media_type="application/json")


async def web_page(_: Request, message: Any) -> Response:
    return Response("<html>Welcome</html>", media_type="text/html")


async def silent_stream(_: Request, message: Any) -> Response:
    return Response("", media_type="text/event-stream")


async def broken_off(_: Request, message: Any) -> Response:
    return Response(b"{", headers={"content-length": "100", "content-type": "application/json"})


@pytest.mark.parametrize(
    ("on_call", "said"),
    [
        (crash, "HTTP 500"),
        (forget, "no longer knows our session"),
        (nonsense, "Failed to parse JSON response"),
        (web_page, "text/html"),
        (broken_off, "its response was cut off"),
        (silent_stream, "without a response"),
    ],
)
async def test_a_server_that_breaks_in_a_call_fails_the_environment(on_call: Any, said: str):
    async with served(by_hand(on_call)) as (url, _):
        with pytest.raises(AuthorError, match="MCP server `web` failed in `work`") as caught:
            await asked(url)
    assert said in str(caught.value)


@pytest.mark.parametrize("on_call", [huge_json, huge_event, endless])
async def test_a_response_over_the_limit_is_an_error_and_the_next_one_works(on_call: Any):
    async with served(by_hand(on_call)) as (url, _):
        told = "the response is larger than 8388608 bytes; request less in one call"
        assert await asked(url) == ToolResult(call="c1", text=told, error=True)


async def test_a_server_that_goes_away_fails_the_environment():
    async def fine(_: Request, message: Any) -> Response:
        return answered(message, text("fine"))

    async with served(by_hand(fine)) as (url, server), McpServer(name="web", url=url).open(WORLD) as tools:
        server.should_exit = True
        await server.shutdown()
        with pytest.raises(AuthorError, match="cannot be reached"):
            await tools[0].call(WORLD, ToolCall(id="c1", name="work"))


async def test_a_call_that_hangs_ends_with_its_cancel_scope():
    async def hang(_: Request, message: Any) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with served(by_hand(hang)) as (url, _):
        with anyio.move_on_after(0.5) as scope:
            await asked(url)
    assert scope.cancelled_caught


async def test_no_listener_is_a_failed_start():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(AuthorError, match="MCP server `web` did not start"):
        await asked(f"http://127.0.0.1:{port}/mcp")


async def test_a_server_that_never_answers_is_a_failed_start():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with pytest.raises(AuthorError, match="did not start within 1 s") as caught:
            await asked(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", start_s=1.0)
        assert caught.value.kind == "timeout"
