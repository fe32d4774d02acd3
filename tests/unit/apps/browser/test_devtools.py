"""The DevTools connection, with a process of memory streams instead of a browser."""

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from sandlot.apps.browser import devtools as devtools_module
from sandlot.apps.browser.devtools import NoAnswerError, open_devtools
from sandlot.apps.browser.snapshot import Element
from sandlot.apps.browser.tools import browser_tools
from sandlot.apps.browser.window import Window
from sandlot.core.errors import SandboxError
from sandlot.core.trace import ToolCall

RESULTS: dict[str, Any] = {
    "Page.getFrameTree": {"frameTree": {"frame": {"id": "f"}}},
    "Page.createIsolatedWorld": {"executionContextId": 1},
    "Runtime.callFunctionOn": {"result": {"value": "complete"}},
    "Page.getNavigationHistory": {"currentIndex": 0, "entries": [{"url": "about:blank", "title": ""}]},
}
ATTACHED = {"method": "Target.attachedToTarget", "params": {"sessionId": "s", "targetInfo": {"type": "page", "targetId": "t"}}}


class MemoryProcess:
    """Answers each request except `silent_on`; with `says`, writes these bytes instead, and with None it ends."""

    def __init__(self) -> None:
        self._write, self._read = anyio.create_memory_object_stream[bytes](1000)
        self.says: bytes | None = b""
        self.silent_on = ""

    @property
    def dropped(self) -> int:
        return 0

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        with self._read:
            async for piece in self._read:
                yield "stdout", piece

    async def send(self, data: bytes) -> None:
        if self.says is None:
            self._write.close()
            raise SandboxError("the command has ended")
        request = json.loads(data[:-1])
        if request["method"] == self.silent_on:
            return
        if request["method"] == "Target.createTarget":
            await self._write.send(json.dumps(ATTACHED).encode() + b"\0")
        answer = {"id": request["id"], "result": RESULTS.get(request["method"], {})}
        await self._write.send(self.says or json.dumps(answer).encode() + b"\0")

    async def wait(self) -> int:
        return -9

    async def kill(self) -> None:
        self._write.close()


async def use(says: bytes | None, name: str = "browser_navigate", **arguments: Any) -> list[Any]:
    """What a tool gives, twice, once the browser says something else."""
    process = MemoryProcess()
    world: Any = None
    server: Any = SimpleNamespace(error=None)
    async with open_devtools(process) as devtools:
        window = Window(devtools)
        await window.open()
        process.says = says
        (tool,) = [each for each in browser_tools(window, server, screenshots=True) if each.spec.name == name]
        call = ToolCall(id="1", name=name, arguments=arguments)
        with anyio.fail_after(20):
            return [await tool.call(world, call) for _ in range(2)]


@pytest.mark.parametrize(
    "says",
    [
        b"x\0",
        b"\xff\0",
        b"[" * 100_000 + b"\0",
        b"[]\0",
        b'{"id": []}\0',
        b'{"id": 1, "result": 5}\0',
        b'{"id": 1, "error": "no"}\0',
        b'{"params": {}}\0',
        b'{"method": 1}\0',
        b'{"method": "Target.attachedToTarget", "params": {}}\0',
        b'{"method": "Page.frameNavigated", "params": {}, "sessionId": "s"}\0',
        b"1" * (8 * 2**20 + 1),
        None,
    ],
    ids=lambda says: str(says)[:40],
)
async def test_a_forged_message_or_a_killed_browser_is_an_error_for_the_agent(says: bytes | None):
    for result in await use(says, url="http://shop.example"):
        assert result.error
        assert "the browser has ended" in result.text


async def test_a_forged_result_is_an_error_for_the_agent():
    (result, _) = await use(b"", "browser_snapshot")  # the number of elements is "complete"
    assert result.error
    assert "an answer that cannot be read" in result.text


async def test_a_browser_that_does_not_start_is_a_failure_of_the_sandbox():
    process = MemoryProcess()
    process.says = None
    async with open_devtools(process) as devtools:
        with pytest.raises(SandboxError, match="did not start"):
            await devtools.call("Browser.getVersion")


@pytest.mark.parametrize("method", ["DOM.resolveNode", "DOM.scrollIntoViewIfNeeded"])
async def test_a_page_that_does_not_answer_is_not_said_to_have_lost_the_element(method: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devtools_module, "_MAX_CALL_S", 0.05)
    process = MemoryProcess()
    async with open_devtools(process) as devtools:
        window = Window(devtools)
        await window.open()
        process.silent_on = method
        (tab,) = window.tabs
        field, button = Element("e1", 7, "textbox", "Name"), Element("e2", 8, "button", "Pay")
        acting = tab.fill(field, "Ada") if method == "DOM.resolveNode" else tab.click(button)
        with pytest.raises(NoAnswerError, match="did not answer"):
            await acting
