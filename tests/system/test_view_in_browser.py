"""`sandlot view` in a real Chromium: every page at two widths, sorting, filtering, keys; hostile text is never run."""

import sys
from pathlib import Path

import pytest

import sandlot
from drive.browser import has_text, open_browser, start, wait_until
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

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
    async with serve_view(Site(folder)) as address, open_browser() as browser:
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
    async with serve_view(Site(folder)) as address, open_browser() as browser:
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


async def test_a_live_run_grows_on_the_page_and_becomes_complete(tmp_path):
    slow = "import time\n" + HOSTILE.replace("return task.id", "time.sleep(0.3)\n    return task.id")
    (tmp_path / "slow.py").write_text(slow)
    command = (sys.executable, "-m", "sandlot", "run", tmp_path / "slow.py", "--model", "scripted:golden", "--group", 12)
    process = start(*command, "--at-once", 1, "--run", tmp_path / "runs" / "going")
    state = "document.querySelector('h1 .tag')?.textContent + document.querySelector('#rollouts')?.textContent"
    seen: set[str] = set()
    try:
        await wait_until(lambda: has_text(tmp_path / "runs" / "going" / "manifest.json"))
        async with serve_view(Site(tmp_path / "runs")) as address, open_browser() as browser:

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
