"""What every `Tool` promises. A new implementation adds itself to `TOOLS`.

Each entry opens one tool called `work` that takes `n: int`, doubles it, and tells the agent `n is negative` for negative numbers.
"""

import math
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import jsonschema
import msgspec
import pytest

from sandlot.core.errors import ToolError
from sandlot.core.ports.world import Tool
from sandlot.core.trace import ToolCall
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


async def test_a_tool_has_an_mcp_shape(open_tool: Any):
    async with open_tool() as tool:
        assert (tool.spec.name, tool.spec.description) == ("work", "Double it.")
        jsonschema.Draft202012Validator.check_schema(tool.spec.parameters)
        assert tool.spec.parameters["type"] == "object"
        assert tool.spec.parameters["properties"]["n"]["type"] == "integer"
        assert tool.spec.parameters["required"] == ["n"]
        msgspec.json.encode(tool.spec)


async def test_a_call_gets_its_result_under_its_own_id(open_tool: Any):
    async with open_tool() as tool:
        result = await tool.call(WORLD, ToolCall(id="c7", name="work", arguments={"n": 21}))
        assert (result.call, result.text, result.error) == ("c7", "42", False)


async def test_calls_at_once_do_not_mix(open_tool: Any):
    async with open_tool() as tool, anyio.create_task_group() as group:

        async def one(number: int) -> None:
            result = await tool.call(WORLD, ToolCall(id=f"c{number}", name="work", arguments={"n": number}))
            assert (result.call, result.text) == (f"c{number}", str(2 * number))

        for number in range(10):
            group.start_soon(one, number)


BAD_CALLS = {
    "missing": ToolCall(id="c1", name="work", arguments={}),
    "text": ToolCall(id="c1", name="work", arguments={"n": "many"}),
    "null": ToolCall(id="c1", name="work", arguments={"n": None}),
    "list": ToolCall(id="c1", name="work", arguments={"n": [1]}),
    "nan": ToolCall(id="c1", name="work", arguments={"n": math.nan}),
    "huge number": ToolCall(id="c1", name="work", arguments={"n": 10**400}),
    "half character": ToolCall(id="c1", name="work", arguments={"n": "\ud800"}),
    "huge": ToolCall(id="c1", name="work", arguments={"n": "x" * 2_000_000}),
    "no object": ToolCall(id="c1", name="work", arguments=[1]),  # pyright: ignore[reportArgumentType] - careless parsers
    "malformed": ToolCall(id="c1", name="work", malformed='{"n": '),
}


@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS.keys())
async def test_a_bad_call_is_something_to_read_and_the_next_one_works(open_tool: Any, call: ToolCall):
    async with open_tool() as tool:
        result = await tool.call(WORLD, call)
        assert result.error
        assert result.call == "c1"
        assert result.text
        msgspec.msgpack.encode(result)
        assert (await tool.call(WORLD, ToolCall(id="c2", name="work", arguments={"n": 1}))).text == "2"


async def test_what_the_tool_tells_the_agent_is_an_error_with_its_text(open_tool: Any):
    async with open_tool() as tool:
        result = await tool.call(WORLD, ToolCall(id="c1", name="work", arguments={"n": -1}))
        assert (result.text, result.error) == ("n is negative", True)


async def test_the_recorded_call_is_not_changed(open_tool: Any):
    call = ToolCall(id="c1", name="work", arguments={"n": 3})
    async with open_tool() as tool:
        await tool.call(WORLD, call)
    assert call == ToolCall(id="c1", name="work", arguments={"n": 3})


async def test_a_cancelled_call_returns_at_once_and_the_next_one_works(open_tool: Any):
    async with open_tool() as tool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tool.call(WORLD, ToolCall(id="c1", name="work", arguments={"n": 1}))
        assert (await tool.call(WORLD, ToolCall(id="c2", name="work", arguments={"n": 1}))).text == "2"
