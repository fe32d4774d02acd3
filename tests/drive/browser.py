"""A real Chromium for tests, driven over the DevTools protocol."""

import json
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(120):
        while not await condition():  # noqa: ASYNC110 - another process is waited for
            await anyio.sleep(0.03)


async def has_text(path: Path) -> bool:
    return path.is_file() and bool(path.read_text().strip())


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class NavigatedError(Exception):
    """The page was left while it was asked."""


class Browser:
    """One tab, driven over the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._count = socket, 0
        self.problems: list[str] = []
        """What the console was told: errors of scripts, and what the policy refused."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(timeout=120)).data)
            if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.problems.append(json.dumps(message["params"])[:500])
            if message.get("id") == self._count:
                if "navigated" in message.get("error", {}).get("message", ""):
                    raise NavigatedError(message["error"]["message"])
                assert "error" not in message, message
                return message["result"]

    async def evaluate(self, script: str) -> Any:
        result = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def open(self, url: str, width: int = 1280) -> None:
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        await self.call("Page.navigate", url=url)
        await wait_until(lambda: self.is_at("document.readyState + ' ' + location.protocol", "complete http:"))

    async def is_at(self, script: str, wanted: str) -> bool:
        try:
            return await self.evaluate(script) == wanted
        except NavigatedError:
            return False  # the page that was asked is gone, and the next one can be asked


@asynccontextmanager
async def open_browser() -> AsyncGenerator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={home}")
        process = start("chromium", *options, "about:blank")
        try:
            place = Path(home) / "DevToolsActivePort"
            await wait_until(lambda: has_text(place))
            port = place.read_text().split()[0]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    (tab, *_) = [each for each in await answer.json() if each["type"] == "page"]
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    browser = Browser(socket)
                    for domain in ("Runtime", "Log", "Page"):
                        await browser.call(f"{domain}.enable")
                    yield browser
        finally:
            process.kill()
            process.wait()
