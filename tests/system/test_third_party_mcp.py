"""Real MCP servers that others wrote, as an environment's tools.

Two from PyPI, each in a virtual environment of its own that is kept for the next time: `mcp-server-time` speaks the newest
protocol, `mcp-server-sqlite` stands on an SDK of the handshake era.
"""

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from drive.packages import install_below, make_environment
from sandlot.core.errors import AuthorError
from sandlot.core.task import Task
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native
from sandlot.tools.mcp import McpServer

CACHE = Path.home() / ".cache" / "sandlot-tests"
WORLD: Any = SimpleNamespace(state=None)

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def installed(program: str, *packages: str) -> str:
    """The program of some packages, installed once into a virtual environment of its own."""
    home = CACHE / program
    if not (home / "complete").exists():
        make_environment(home, *packages)
        (home / "complete").touch()
    return str(home / "bin" / program)


async def test_a_clock_of_the_newest_protocol_tells_the_time():
    program = await anyio.to_thread.run_sync(installed, "mcp-server-time", "mcp-server-time==2026.10.19")
    async with McpServer(name="time", command=(program, "--local-timezone", "UTC")).open(WORLD) as tools:
        named = {tool.spec.name: tool for tool in tools}
        assert set(named) == {"get_current_time", "convert_time"}
        arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
        told = await named["convert_time"].call(WORLD, ToolCall(id="c1", name="convert_time", arguments=arguments))
        assert "T03:00" in told.text
        missing = await named["convert_time"].call(WORLD, ToolCall(id="c2", name="convert_time", arguments={}))
        assert missing.error
        assert "source_timezone" in missing.text


async def test_a_database_of_the_handshake_era_keeps_books_for_one_world(tmp_path: Path):
    program = await anyio.to_thread.run_sync(installed, "mcp-server-sqlite", "mcp-server-sqlite==2025.4.25", "mcp<2")

    async def books(name: str) -> tuple[str, str]:
        source = McpServer(name="books", command=(program, "--db-path", str(tmp_path / name)), prefix="db_")
        async with source.open(WORLD) as tools:
            named = {tool.spec.name: tool for tool in tools}

            async def call(tool: str, **arguments: Any) -> Any:
                return await named[tool].call(WORLD, ToolCall(id="c1", name=tool, arguments=arguments))

            await call("db_create_table", query="create table ledger (account text, amount integer)")
            await call("db_write_query", query="insert into ledger values ('cash', 40), ('cash', 2)")
            total = await call("db_read_query", query="select sum(amount) as total from ledger")
            wrong = await call("db_read_query", query="select nonsense")
            return total.text, wrong.text

    for name in ("first.db", "second.db"):  # a world of its own each time
        total, wrong = await books(name)
        assert "42" in total
        assert "nonsense" in wrong


def packed(package: str) -> bytes:
    """A package with all it needs, as a tar file for a sandbox that has a Python of the same version and no network."""
    home = CACHE / f"packed-{package}"
    if not (home / "complete").exists():
        install_below(home, package)
        (home / "complete").touch()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        tar.add(home, ".")
    return whole.getvalue()


async def test_a_clock_somebody_else_wrote_runs_inside_the_sandbox():
    packages = await anyio.to_thread.run_sync(packed, "mcp-server-time==2026.10.19")
    env = Environment("clock", image="host")
    command = ("/usr/bin/python3", "-m", "mcp_server_time", "--local-timezone", "UTC")
    env.mcp(McpServer(name="time", command=command, inside=True, env={"PYTHONPATH": "/opt/time"}, start_s=60))

    @env.setup
    async def install(world: Any, task: Task) -> None:
        await world.write("/opt/time.tar", packages)
        assert (await world.exec("mkdir /opt/time && tar xf /opt/time.tar -C /opt/time && rm /opt/time.tar")).code == 0

    async with open_native() as backend, open_session(env, Task("one", prompt="go"), backend=backend) as session:
        await session.reset()
        arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
        call = ToolCall(id="c1", name="convert_time", arguments=arguments)
        step = await session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        assert "T03:00" in str(step.messages[0].parts)


async def test_a_server_that_does_not_fit_its_sdk_is_refused_with_its_own_words(tmp_path: Path):
    program = await anyio.to_thread.run_sync(installed, "mcp-server-time", "mcp-server-time==2026.10.19")
    with pytest.raises(AuthorError, match="did not start") as caught:
        async with McpServer(name="time", command=(program, "--no-such-option")).open(WORLD):
            pass
    assert "unrecognized arguments: --no-such-option" in str(caught.value)
    assert msgspec.json.encode(str(caught.value))
