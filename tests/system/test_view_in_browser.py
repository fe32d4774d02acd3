"""`sandlot view` in a real Chromium: every page at two widths, sorting, filtering, keys; hostile text is never run."""

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

import sandlot
from sandlot.web.app import link, serve_view

pytestmark = pytest.mark.system

ATTACK = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'><style>body{display:none}</style>"
HOSTILE = f'''
from sandlot import Environment, Task

env = Environment("hostile", system={ATTACK!r})

@env.tasks
def tasks(rng):
    for number in range(3):
        yield Task(id=f"task-{{number}}", prompt={ATTACK!r})

@env.tool
def look(world) -> str:
    """Look."""
    return {ATTACK!r}

@env.check(points=1)
def said(evidence, task):
    return task.id != "task-1" and bool(evidence.answer), {ATTACK!r}

@env.solution
async def solve(agent, task):
    await agent.call("look")
    await agent.say({ATTACK!r})
'''


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(120):
        while not await condition():  # noqa: ASYNC110 - another process is waited for
            await anyio.sleep(0.1)


async def has_text(path: Path) -> bool:
    return path.is_file() and bool(path.read_text().strip())


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
            message = json.loads((await self._socket.receive(timeout=30)).data)
            if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.problems.append(json.dumps(message["params"])[:500])
            if message.get("id") == self._count:
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
        return await self.evaluate(script) == wanted


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("view")
    (place / "hostile.py").write_text(HOSTILE)
    for name, model in (("good", "scripted:golden"), ("bad", "scripted:noop")):
        run = sandlot.run(place / "hostile.py", model, group=2, runs=place / "made")
        run.path.rename((place / "runs").mkdir(exist_ok=True) or place / "runs" / name)
    return place / "runs"


async def test_every_page_at_two_widths_without_a_word_on_the_console(folder):
    pages = ["/", link("good"), link("good", "group", task="task-0"), link("good", "trace", task="task-1", rollout=1)]
    async with serve_view(folder) as address, open_browser() as browser:
        for width in (420, 1600):
            for page in pages:
                await browser.open(address(page), width)
                assert await browser.evaluate("document.title.endsWith(' · sandlot') && document.title !== 'owned'")
                assert await browser.evaluate("getComputedStyle(document.body).display") == "block"
                assert await browser.evaluate("document.scripts.length + document.images.length") == 1
                # Wide tables scroll in their own box; the page itself never scrolls sideways.
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
        assert browser.problems == []


async def test_runs_are_sorted_and_filtered_and_a_trace_is_read_with_keys(folder):
    first = "document.querySelector('#rows tbody tr:not([hidden]) a').textContent"
    async with serve_view(folder) as address, open_browser() as browser:
        await browser.open(address("/"))
        press = "document.querySelectorAll('th button')[4].click(), " + first
        assert [await browser.evaluate(press), await browser.evaluate(press)] == ["bad", "good"]
        write = "f = document.querySelector('#filter'), f.value = 'noop', f.dispatchEvent(new Event('input')), "
        assert await browser.evaluate(write + first) == "bad"
        assert await browser.evaluate("document.querySelector('#count').textContent") == "1 runs"
        await browser.evaluate("document.querySelector('#rows tbody tr:not([hidden]) a').click()")
        await browser.open(address(link("good", "trace", task="task-0", rollout=0)))
        await browser.evaluate("document.body.focus()")
        for _ in range(2):
            for kind in ("keyDown", "keyUp"):
                await browser.call("Input.dispatchKeyEvent", type=kind, key="j", text="j" if kind == "keyDown" else "")
        assert await browser.evaluate("document.activeElement.id") == "m1"
        assert browser.problems == []


async def test_a_live_run_grows_on_the_page_and_becomes_complete(folder, tmp_path):
    slow = "import time\n" + HOSTILE.replace("return task.id", "time.sleep(0.3)\n    return task.id")
    (tmp_path / "slow.py").write_text(slow)
    command = (sys.executable, "-m", "sandlot", "run", tmp_path / "slow.py", "--model", "scripted:golden", "--group", 12)
    process = start(*command, "--at-once", 1, "--run", folder / "going")
    state = "document.querySelector('h1 .tag')?.textContent + document.querySelector('#rollouts')?.textContent"
    seen: set[str] = set()
    try:
        await wait_until(lambda: has_text(folder / "going" / "manifest.json"))
        async with serve_view(folder) as address, open_browser() as browser:

            async def is_complete() -> bool:
                seen.add(str(await browser.evaluate(state)))
                return "complete36" in seen

            await browser.open(address(link("going")))
            await wait_until(is_complete)
            assert len([each for each in seen if each.startswith("live")]) > 2, seen
            assert browser.problems == []
    finally:
        process.kill()
        process.wait()
