"""Our tools, held to the suite that we ship."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from sandlot.core.errors import ToolError
from sandlot.core.ports.world import Tool
from sandlot.testing.tool import *
from sandlot.tools.function import FunctionTool
from sandlot.tools.mcp import McpServer

WORLD: Any = SimpleNamespace(state={}, task=None, rng=None)
SERVER = Path(__file__).parent.parent / "unit" / "tools" / "raw_server.py"


def work(n: int) -> str:
    """Double it."""
    if n < 0:
        raise ToolError("n is negative")
    return str(2 * n)


async def work_async(n: int) -> str:
    """Double it."""
    return work(n)


def opened(tool: Tool) -> Callable[[], AbstractAsyncContextManager[Tool]]:
    @asynccontextmanager
    async def opening() -> AsyncGenerator[Tool]:
        yield tool

    return opening


@asynccontextmanager
async def of_mcp_server() -> AsyncGenerator[Tool]:
    async with McpServer(name="work", command=(sys.executable, str(SERVER), "double")).open(WORLD) as tools:
        yield tools[0]


TOOLS: dict[str, Callable[[], AbstractAsyncContextManager[Tool]]] = {
    "function": opened(FunctionTool.of(work)),
    "async function": opened(FunctionTool.of(work_async, name="work")),
    "isolated function": opened(FunctionTool.of(work, isolate=True)),
    "mcp server": of_mcp_server,
}


@pytest.fixture(params=TOOLS.values(), ids=TOOLS.keys())
def open_tool(request: pytest.FixtureRequest) -> Callable[[], AbstractAsyncContextManager[Tool]]:
    return request.param


async def test_a_schema_is_a_valid_one(open_tool: Any):
    async with open_tool() as tool:
        jsonschema.Draft202012Validator.check_schema(tool.spec.parameters)
