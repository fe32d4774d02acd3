"""What every `Tool` promises.

Your fixture is `open_tool`: a function that opens (as an asynchronous context manager) one tool of your kind. It is called
`work`, described as `Double it.`, takes `n: int`, gives twice as much, and tells the agent `n is negative` for negative numbers.
"""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from sandlot.core.ports.world import Tool
from sandlot.core.trace import ToolCall
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark

_OpenTool = Callable[[], AbstractAsyncContextManager[Tool]]
_WORLD: Any = SimpleNamespace(state={}, task=None, rng=None)
_BAD_CALLS = {
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


async def test_a_tool_has_an_mcp_shape(open_tool: _OpenTool) -> None:
    async with open_tool() as tool:
        assert (tool.spec.name, tool.spec.description) == ("work", "Double it.")
        assert tool.spec.parameters["type"] == "object"
        assert tool.spec.parameters["properties"]["n"]["type"] == "integer"
        assert tool.spec.parameters["required"] == ["n"]
        msgspec.json.encode(tool.spec)


async def test_a_call_gets_its_result_under_its_own_id(open_tool: _OpenTool) -> None:
    async with open_tool() as tool:
        result = await tool.call(_WORLD, ToolCall(id="c7", name="work", arguments={"n": 21}))
        assert (result.call, result.text, result.error) == ("c7", "42", False)


async def test_calls_at_once_do_not_mix(open_tool: _OpenTool) -> None:
    async with open_tool() as tool, anyio.create_task_group() as group:

        async def one(number: int) -> None:
            result = await tool.call(_WORLD, ToolCall(id=f"c{number}", name="work", arguments={"n": number}))
            assert (result.call, result.text) == (f"c{number}", str(2 * number))

        for number in range(10):
            group.start_soon(one, number)


@pytest.mark.parametrize("call", _BAD_CALLS.values(), ids=_BAD_CALLS.keys())
async def test_a_bad_call_is_something_to_read_and_the_next_one_works(open_tool: _OpenTool, call: ToolCall) -> None:
    async with open_tool() as tool:
        result = await tool.call(_WORLD, call)
        assert result.error
        assert result.call == "c1"
        assert result.text
        msgspec.msgpack.encode(result)
        assert (await tool.call(_WORLD, ToolCall(id="c2", name="work", arguments={"n": 1}))).text == "2"


async def test_what_the_tool_tells_the_agent_is_an_error_with_its_text(open_tool: _OpenTool) -> None:
    async with open_tool() as tool:
        result = await tool.call(_WORLD, ToolCall(id="c1", name="work", arguments={"n": -1}))
        assert (result.text, result.error) == ("n is negative", True)


async def test_the_recorded_call_is_not_changed(open_tool: _OpenTool) -> None:
    call = ToolCall(id="c1", name="work", arguments={"n": 3})
    async with open_tool() as tool:
        await tool.call(_WORLD, call)
    assert call == ToolCall(id="c1", name="work", arguments={"n": 3})


async def test_a_cancelled_call_returns_at_once_and_the_next_one_works(open_tool: _OpenTool) -> None:
    async with open_tool() as tool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tool.call(_WORLD, ToolCall(id="c1", name="work", arguments={"n": 1}))
        assert (await tool.call(_WORLD, ToolCall(id="c2", name="work", arguments={"n": 1}))).text == "2"
