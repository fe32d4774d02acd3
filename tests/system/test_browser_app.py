"""A real Chromium in the native sandbox: hostile pages, dialogs, tabs, the guide, the public server on the same sites."""

import json
import re
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandlot import Environment, Task, run
from sandlot.apps import BROWSER_IMAGE, Browser, PageRequest, PageResponse, RecordedServer, SitePort
from sandlot.core.trace import Message, ToolCall, ToolResult
from sandlot.core.types import Role
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native
from sandlot.tools.mcp import McpServer

ROOT = Path(__file__).parents[2]
CACHE = Path.home() / ".cache" / "sandlot-tests"

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

PAGES = {
    "/": "<title>Start</title><h1>Start</h1><a href=/next>Next</a> <a href=/next target=_blank>New tab</a>"
    "<label>Name <input id=name></label><select aria-label=Size><option>S<option>M</select>"
    "<button onclick=\"document.title=confirm('Sure?')\">Ask</button>",
    "/next": "<title>Next</title><h1>Next</h1><form method=post action=/sent><label>Text <input name=text></label>"
    "<button>Send</button></form>",
    "/covered": "<button id=under>Under</button><div style='position:fixed;inset:0;background:#fff'>Curtain</div>",
    "/many": "<ul>" + "<li><a href=/x>item</a>" * 4_200 + "</ul>",
    "/alerts": "<title>Alerts</title><script>for (let i = 0; i < 3; i++) alert('No. ' + i)</script><p>Done",
    "/reach": "<p>Here</p><iframe src='file:///etc/passwd'></iframe><iframe src='http://example.org/'></iframe>",
    "/patched": "<script>Element.prototype.getBoundingClientRect = () => { throw 1 }; window.setTimeout = () => {};"
    "document.elementFromPoint = () => null</script><button onclick=\"document.title='clicked'\">Go</button>",
}


def page(_world: Any, request: PageRequest) -> PageResponse:
    if request.path == "/fails":
        raise RuntimeError("the table is missing")
    if request.method == "POST":
        return PageResponse(body=f"<h1>Got {dict(request.form)}</h1>".encode())
    return PageResponse(body=("<!doctype html>" + PAGES.get(request.path, "<p>nothing here")).encode())


class Played:
    """A session whose tools are called one by one."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        call = ToolCall(id="c", name=name, arguments=arguments)
        step = await self._session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        return step.messages[0].parts[0]

    async def __call__(self, name: str, **arguments: Any) -> str:
        return (await self.result(f"browser_{name}", **arguments)).text


@asynccontextmanager
async def opened(**settings: Any) -> AsyncGenerator[Played]:
    env = Environment("pages", image=BROWSER_IMAGE, tools=[], **settings)
    env.use(Browser(sites={"site.example": page}, screenshots="images" in settings))
    async with open_native() as backend, open_session(env, Task("t", prompt="x"), backend=backend) as session:
        await session.reset()
        yield Played(session)


def ref_of(page: str, what: str) -> str:
    found = re.search(rf"{re.escape(what)}.*?\[ref=(e\d+)\]", page)
    assert found is not None, page
    return found[1]


async def test_pages_are_read_clicked_typed_into_and_left_again():
    async with opened() as call:
        start = await call("navigate", url="http://site.example/")
        assert "- Page Title: Start" in start
        nxt = await call("click", target=ref_of(start, 'link "Next"'))
        assert 'heading "Next"' in nxt
        stale = await call("click", target=ref_of(start, 'link "Next"'))
        assert "not found in the current page snapshot. Try capturing new snapshot." in stale
        sent = await call("type", target=ref_of(nxt, 'textbox "Text"'), text="héllo & co", submit=True)
        assert "Got {'text': 'héllo & co'}" in sent
        assert 'heading "Next"' in await call("navigate_back")
        back = await call("navigate_back")
        assert 'heading "Start"' in back
        chosen = await call("select_option", target=ref_of(back, 'combobox "Size"'), values=["M"])
        assert 'option "M" [selected]' in chosen
        wrong = await call("select_option", target=ref_of(back, 'combobox "Size"'), values=["XL"])
        assert "options: 'S', 'M'" in wrong
        assert 'textbox "Name" [active] [ref' in await call("click", target="#name")
        assert "matches 2 elements" in await call("click", target="a")


async def test_a_dialog_stops_the_page_until_it_is_answered():
    async with opened() as call:
        start = await call("navigate", url="http://site.example/")
        asked = await call("click", target=ref_of(start, 'button "Ask"'))
        assert '["confirm" dialog with message "Sure?"]' in asked
        assert "does not handle the modal state" in await call("snapshot")
        assert "- Page Title: true" in await call("handle_dialog", accept=True)
        assert "can only be used when" in await call("handle_dialog", accept=True)
        alerts = await call("navigate", url="http://site.example/alerts")
        for number in range(3):
            assert f"No. {number}" in alerts
            alerts = await call("handle_dialog", accept=True)
        assert "- Page Title: Alerts" in alerts


async def test_links_open_tabs_that_can_be_chosen_and_closed():
    async with opened() as call:
        start = await call("navigate", url="http://site.example/")
        assert "- 1: (current) [Next]" in await call("click", target=ref_of(start, 'link "New tab"'))
        assert "(current) [Start]" in await call("tabs", action="select", index=0)
        assert "no tab with index 7" in await call("tabs", action="close", index=7)
        assert (await call("tabs", action="close", index=1)).count("\n- ") == 1
        assert "(current) [Next]" in await call("tabs", action="new", url="http://site.example/next")


async def test_nothing_but_the_sites_can_be_reached():
    async with opened() as call:
        assert "ERR_NAME_NOT_RESOLVED" in await call("navigate", url="http://example.org/")
        assert "ERR_" in await call("navigate", url="http://93.184.216.34/")
        assert "protocol is blocked" in await call("navigate", url="file:///etc/passwd")
        seen = await call("navigate", url="http://site.example/reach")
        assert "root:" not in seen


async def test_hostile_pages_end_in_errors_that_the_agent_can_read():
    async with opened() as call:
        start = await call("navigate", url="http://site.example/covered")
        assert "is covered by <div>" in await call("click", target=ref_of(start, 'button "Under"'))
        patched = await call("navigate", url="http://site.example/patched")
        assert "- Page Title: clicked" in await call("click", target=ref_of(patched, 'button "Go"'))
        assert "elements, too many to show" in await call("navigate", url="http://site.example/many")
        assert 'heading "Next"' in await call("navigate", url="http://site.example/next")


async def test_a_page_that_raises_is_an_error_of_the_tool_and_the_browser_works_on():
    async with opened() as call:
        assert "`browser_navigate` failed: it has an error of its own" in await call("navigate", url="http://site.example/fails")
        assert "- Page Title: Start" in await call("navigate", url="http://site.example/")


async def test_a_screenshot_is_an_image_of_the_page():
    async with opened(images="describe") as call:
        await call("navigate", url="http://site.example/")
        taken = await call.result("browser_take_screenshot", fullPage=True)
        assert [image.media_type for image in taken.images] == ["image/png"]
        assert "Screenshot of full page" in taken.text


def test_the_guides_environment_runs(tmp_path: Path):
    text = (ROOT / "docs/guides/browser.md").read_text()
    (tmp_path / "library.py").write_text(re.search(r"```python no-run\n(.*?)```", text, re.DOTALL)[1])
    traces = list(run(tmp_path / "library.py", "scripted:golden", runs=tmp_path / "runs"))
    assert [trace.reward for trace in traces] == [1.0, 1.0, 1.0]


# -- the public server on the same sites -------------------------------------------------------------------------------


def public_server() -> Path:
    """The npm package, installed once."""
    home = CACHE / "playwright-mcp"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "@playwright/mcp@0.0.83"]
        subprocess.run(install, cwd=home, check=True, timeout=300, env={"PATH": "/usr/bin:/bin", "HOME": str(home)})
        (home / "complete").touch()
    return home


async def test_the_public_server_uses_the_same_sites_and_lists_the_recorded_tools():
    home = await anyio.to_thread.run_sync(public_server)
    arguments = ["--no-sandbox", "--host-resolver-rules=MAP site.example 127.0.0.1:8080 , MAP * ~NOTFOUND"]
    config: Mapping[str, Any] = {
        "browser": {
            "isolated": True,
            "launchOptions": {"headless": True, "executablePath": "/usr/lib/chromium/chromium", "args": arguments},
        }
    }
    env = Environment("public", image=f"host:{home}", tools=[])

    @env.setup
    async def write_config(world: Any, _task: Task) -> None:
        await world.write("/tmp/config.json", json.dumps(config))

    env.use(SitePort(sites={"site.example": page}))
    server = str(home / "node_modules/@playwright/mcp/cli.js")
    command = ("/usr/bin/node", server, "--no-sandbox", "--headless", "--config", "/tmp/config.json")
    env.mcp(McpServer(name="playwright", command=command, inside=True, env={"HOME": "/tmp", "PATH": "/usr/bin:/bin"}, start_s=60))
    async with open_native() as backend, open_session(env, Task("t", prompt="x"), backend=backend) as session:
        await session.reset()
        recorded = {tool.name: tool.input_schema for tool in RecordedServer.read("playwright").tools}
        assert {spec.name: spec.parameters for spec in session.tools} == recorded
        call = Played(session)
        await call("navigate", url="http://site.example/next")
        seen = await call("snapshot")
        assert 'heading "Next"' in seen
        sent = await call("type", target=ref_of(seen, 'textbox "Text"'), text="hello", submit=True)
        assert "http://site.example/sent" in sent
        assert re.search(r"Got .*hello", await call("snapshot"))
