"""Images of MCP servers: shown where the environment shows images, described where it does not."""

import base64
import sys
from pathlib import Path

import pytest

from builders.pictures import SVG, png
from sandlot.core.task import Task
from sandlot.core.trace import Message, ToolCall, ToolResult
from sandlot.core.types import Role, digest
from sandlot.env.environment import Environment
from sandlot.tools.mcp import McpServer

RAW = str(Path(__file__).parent / "raw_server.py")


async def result_of(data: bytes | str, images: str | None) -> ToolResult:
    env = Environment("pages", images=images)
    sent = data if isinstance(data, str) else base64.b64encode(data).decode()
    env.mcp(McpServer(name="raw", command=(sys.executable, RAW, "picture", sent)))
    async with env.session(Task("one", prompt="?")) as session:
        await session.reset()
        step = await session.step(Message(role=Role.ASSISTANT, parts=(ToolCall("c1", "work", {"n": 1}),)))
    return step.messages[0].results[0]


async def test_a_servers_image_is_shown_by_its_bytes_and_not_by_its_label():
    result = await result_of(png(7, 5), "describe")
    assert (result.text, result.error) == ("The page:", False)
    assert [(image.artifact, image.media_type, image.width) for image in result.images] == [(digest(png(7, 5)), "image/png", 7)]


async def test_a_servers_image_is_described_where_none_are_shown():
    result = await result_of(png(7, 5), None)
    assert result == ToolResult("c1", f"The page:\n[image text/html, {len(png(7, 5))} bytes, not shown]")


@pytest.mark.parametrize(("data", "says"), [(SVG, "SVG drawing"), ("@@@", "not base64"), (b"", "no bytes")])
async def test_what_a_server_calls_an_image_and_is_none_is_an_error(data, says):
    result = await result_of(data, "require")
    assert result.error
    assert result.images == ()
    assert says in result.text
