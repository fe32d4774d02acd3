"""An environment served over MCP, driven by the official client."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from mcp import Client, MCPError, StdioServerParameters

from sandlot.core.errors import SandboxError, unwrapped
from sandlot.core.ports.session import Session
from sandlot.serve.environment.connection import Connection, open_connection
from sandlot.serve.environment.http import SessionRouter
from sandlot.serve.environment.mcp import serve_mcp
from unit.serve.counting_session import ADD, CountingSession, score

SCRIPT = Path(__file__).parents[1] / "counting_session.py"


@dataclass
class Worlds:
    """The opener under test: counts what it opened and tells when one closes."""

    opened: list[CountingSession] = field(default_factory=list[CountingSession])
    closed: list[CountingSession] = field(default_factory=list[CountingSession])
    one_closed: anyio.Event = field(default_factory=anyio.Event)
    broken: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        if self.broken:
            raise SandboxError("no sandbox to be had")
        session = CountingSession()
        self.opened.append(session)
        try:
            yield session
        finally:
            self.closed.append(session)
            self.one_closed.set()


@asynccontextmanager
async def served(worlds: Worlds) -> AsyncGenerator[str]:
    address: list[str] = []
    listening = anyio.Event()

    def ready(url: str) -> None:
        address.append(url)
        listening.set()

    async def serve() -> None:
        await serve_mcp("counting", worlds.open, transport="http", port=0, finish_text=score, ready=ready)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        with anyio.fail_after(10):
            await listening.wait()
        yield address[0]
        group.cancel_scope.cancel()


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def add(client: Client, n: Any) -> list[str]:
    return texts(await client.call_tool("add", {"n": n}))


async def plays_a_whole_rollout(client: Client) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "break", "finish"]
    assert client.instructions == (
        "You count.\n\nBring the counter to 3.\n\nWhen you are done, call the tool `finish` with your answer."
    )
    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["task"]
    task = await client.get_prompt("task")
    assert [message.content.text for message in task.messages] == ["You count.", "Bring the counter to 3."]
    assert await add(client, 3) == ["the counter is 3"]
    bad = await client.call_tool("add", {"n": "three"})
    assert bad.is_error
    assert texts(await client.call_tool("finish", {"answer": "?"})) == ["No questions.", "The task continues."]
    assert texts(await client.call_tool("finish", {"answer": "done"})) == ["[the rollout has ended: done]", "score 1/1"]
    after = await client.call_tool("add", {"n": 1})
    assert after.is_error
    assert texts(after) == ["the rollout has ended: done; open a new connection for a fresh world"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_over_stdio_plays_a_whole_rollout_and_its_world_is_closed(tmp_path: Path, mode: str):
    command = StdioServerParameters(command=sys.executable, args=[str(SCRIPT), str(tmp_path / "closed")])
    async with Client(command, mode=mode) as client:
        await plays_a_whole_rollout(client)
    assert (tmp_path / "closed").read_text() == "closed"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_over_http_plays_a_whole_rollout_and_its_world_is_closed(mode: str):
    worlds = Worlds()
    async with served(worlds) as url:
        async with Client(url, mode=mode) as client:
            await plays_a_whole_rollout(client)
        with anyio.fail_after(30):
            await worlds.one_closed.wait()
        assert worlds.closed == worlds.opened
        assert len(worlds.opened) == 1


async def test_two_connections_do_not_see_each_others_world():
    worlds = Worlds()
    async with served(worlds) as url, Client(url) as one, Client(url) as other:
        assert await add(one, 2) == ["the counter is 2"]
        assert await add(other, 1) == ["the counter is 1"]
        assert await add(one, 1) == ["the counter is 3"]
        assert texts(await one.call_tool("finish", {"answer": "x"}))[-1] == "score 1/1"
        assert await add(other, 1) == ["the counter is 2"]
        assert len(worlds.opened) == 2


async def test_the_sessions_limits_hold():
    async with served(Worlds()) as url, Client(url) as client:
        for _ in range(5):
            await add(client, 1)
        assert (await add(client, 1))[:2] == ["the counter is 6", "[the rollout has ended: turn_limit]"]
        assert (await client.call_tool("finish", {"answer": "x"})).is_error


async def test_calls_at_once_are_taken_one_after_the_other():
    async with served(Worlds()) as url, Client(url) as client:
        answers: list[str] = []

        async def one() -> None:
            answers.extend(await add(client, 1))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)
        assert sorted(answers) == [f"the counter is {n}" for n in range(1, 5)]


async def test_a_failing_environment_is_told_and_ends_the_rollout():
    async with served(Worlds()) as url, Client(url) as client, Client(url) as other:
        broken = await client.call_tool("break", {})
        assert broken.is_error
        assert texts(broken) == ["the environment failed: tool `break`: KeyError: 'x'"]
        assert "the environment failed" in (await add(client, 1))[0]
        assert await add(other, 1) == ["the counter is 1"]


@pytest.mark.parametrize("arguments", [{}, {"answer": 3}, {"answer": None}])
async def test_finish_without_an_answer_is_something_to_read(arguments: dict[str, Any]):
    async with served(Worlds()) as url, Client(url) as client:
        result = await client.call_tool("finish", arguments)
        assert result.is_error
        assert texts(result) == ["`finish` needs `answer`, a string"]
        assert await add(client, 1) == ["the counter is 1"]


async def test_a_world_that_cannot_be_opened_is_told_to_the_client():
    async with served(Worlds(broken=True)) as url:
        with pytest.raises(ExceptionGroup) as caught:
            await Client(url).__aenter__()
    error = unwrapped(caught.value)
    assert isinstance(error, MCPError)
    assert error.message == "the world could not be opened: no sandbox to be had"


async def test_a_client_that_leaves_in_the_middle_of_a_call_loses_its_world():
    worlds = Worlds()
    async with served(worlds) as url:
        async with Client(url) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "hang", {})
            with anyio.fail_after(30):
                await worlds.opened[0].hanging.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(30):
            await worlds.one_closed.wait()


async def test_a_client_over_stdio_that_leaves_in_the_middle_of_a_call_loses_its_world(tmp_path: Path):
    command = StdioServerParameters(command=sys.executable, args=[str(SCRIPT), str(tmp_path / "closed")])
    os.mkfifo(tmp_path / "hanging")
    async with Client(command) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "hang", {})
        with anyio.fail_after(30):
            assert await anyio.to_thread.run_sync((tmp_path / "hanging").read_text) == "hanging"
        group.cancel_scope.cancel()
    assert (tmp_path / "closed").read_text() == "closed"


async def test_stopping_the_server_closes_every_world():
    worlds = Worlds()
    async with served(worlds) as url:
        async with httpx2.AsyncClient() as http:
            for _ in range(3):
                assert (await http.post(url, json=INITIALIZE, headers=ACCEPT)).status_code == 200
        assert (len(worlds.opened), len(worlds.closed)) == (3, 0)
    assert len(worlds.closed) == 3


ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/mcp", {}, b"not json", 400),
        ("POST", "/mcp", {}, b"x" * 5_000_000, 413),
        ("POST", "/mcp", {}, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400),
        ("GET", "/mcp", {}, b"", 404),
        ("POST", "/other", {}, b"{}", 404),
        ("POST", "/mcp", {"mcp-session-id": "made-up"}, b"{}", 404),
        ("POST", "/mcp", {"host": "evil.example"}, b"{}", 421),
        ("POST", "/mcp", {"origin": "http://evil.example"}, b"{}", 403),
    ],
)
async def test_a_bad_request_is_refused_and_leaves_no_world(method: str, path: str, headers: Any, body: bytes, status: int):
    worlds = Worlds()
    async with served(worlds) as url:
        async with httpx2.AsyncClient() as http:
            json = {"content-type": "application/json"}
            answer = await http.request(method, url.replace("/mcp", path), content=body, headers=ACCEPT | json | headers)
        assert answer.status_code == status
        if worlds.opened:
            with anyio.fail_after(30):
                await worlds.one_closed.wait()
        assert len(worlds.closed) == len(worlds.opened)


@asynccontextmanager
async def a_door(worlds: Worlds, **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    async with anyio.create_task_group() as group:
        door = SessionRouter(lambda: open_connection("counting", worlds.open, None), group, local=False, **options)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(door), base_url="http://door") as http:
            yield http
        group.cancel_scope.cancel()


async def test_more_clients_than_worlds_are_told_to_come_back():
    worlds = Worlds()
    async with a_door(worlds, at_once=2) as http:
        answers = [await http.post("/mcp", json=INITIALIZE, headers=ACCEPT) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 503]
        ended = await http.delete("/mcp", headers=ACCEPT | {"mcp-session-id": answers[0].headers["mcp-session-id"]})
        assert ended.status_code == 200
        with anyio.fail_after(30):
            await worlds.one_closed.wait()
        assert (await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == 200


async def test_a_client_that_went_away_without_a_word_loses_its_world():
    worlds = Worlds()
    async with a_door(worlds, idle_s=0.05) as http:
        session = (await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)).headers["mcp-session-id"]
        with anyio.fail_after(30):
            await worlds.one_closed.wait()
        late = await http.post("/mcp", json=INITIALIZE, headers=ACCEPT | {"mcp-session-id": session})
        assert late.status_code == 404


async def test_an_environment_may_have_a_tool_called_finish():
    session = CountingSession([ADD, msgspec.structs.replace(ADD, name="finish")])
    async with Client(Connection("counting", session, await session.reset(), None).server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "finish", "finish_2"]
        assert texts(await client.call_tool("finish_2", {"answer": "x"})) == ["[the rollout has ended: done]"]


async def test_another_prompt_is_refused_by_name():
    session = CountingSession()
    async with Client(Connection("counting", session, await session.reset(), None).server) as client:
        with pytest.raises(MCPError, match="no prompt named `other`; there is: task"):
            await client.get_prompt("other")
