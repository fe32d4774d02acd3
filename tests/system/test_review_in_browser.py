"""The review desk in a real Chromium, by keyboard alone: labels, notes, annotations, pairs; hostile text is never run."""

from pathlib import Path

import pytest

import sandlot
from drive.browser import Browser, open_browser, wait_until
from sandlot.analysis.preferences import read_preferences
from sandlot.analysis.triage.labels import read_labels
from sandlot.analysis.triage.queue import QueueFilter, filter_queue
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link

pytestmark = pytest.mark.system

ATTACK = "</textarea><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
HOSTILE = f"""
from sandlot import Environment, Task

env = Environment("hostile", system={ATTACK!r})

@env.tasks
def tasks(rng):
    for number in range(3):
        yield Task(id=f"task-{{number}}", prompt={ATTACK!r})

@env.check(points=1)
def first(evidence, task):
    return True

@env.check(points=1)
def said(evidence, task):
    return task.id == "task-1", {ATTACK!r}

@env.solution
async def solve(agent, task):
    await agent.say({ATTACK!r} + task.id)
"""
KEYS = {"Enter": "\r", "Escape": ""}


async def press(browser: Browser, *keys: str, ctrl: bool = False) -> None:
    """Press real keys, one after the other."""
    for key in keys:
        text = "" if ctrl else KEYS.get(key, key)
        code = {"Enter": 13, "Escape": 27}.get(key, 0)
        options = {"key": key, "modifiers": 2 if ctrl else 0, "windowsVirtualKeyCode": code}
        await browser.call("Input.dispatchKeyEvent", type="keyDown", text=text, **options)
        await browser.call("Input.dispatchKeyEvent", type="keyUp", **options)


async def shows(browser: Browser, script: str, wanted: object) -> None:
    """Wait until the page has loaded and a script has this value on it."""

    async def has_come() -> bool:
        return await browser.evaluate(f"document.readyState === 'complete' ? ({script}) : null") == wanted

    await wait_until(has_come)


@pytest.fixture
def run(tmp_path) -> Path:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    made = sandlot.run(tmp_path / "hostile.py", "scripted:golden", group=2, runs=tmp_path / "runs")
    (tmp_path / "runs" / "labels.toml").write_text('name = "us"\nversion = 1\n[[labels]]\nname = "rude"\nwhat = "tone"\n')
    return made.path.rename(tmp_path / "runs" / "desk")


async def test_a_queue_is_read_and_labelled_with_keys_alone(run):
    focused = "document.activeElement.id"
    desk = "document.querySelector('#desk').dataset"
    at = f"document.querySelector('#done').textContent + ' ' + {desk}.task + '/' + {desk}.rollout"
    found = filter_queue(sandlot.Run(run), QueueFilter(high=0.5))
    queue = [f"{each.task}/{each.rollout}" for each in found]
    async with serve_view(Site(run.parent, reader="ann <b>")) as address, open_browser() as browser:
        await browser.open(address(link("desk", "review", filter=1, high=0.5)))
        assert await browser.evaluate("document.querySelector('#done').textContent") == "0"
        held = {"type": "keyDown", "key": "1", "text": "1", "autoRepeat": True}
        await browser.call("Input.dispatchKeyEvent", **held)  # a key held down since the last rollout labels nothing here
        await press(browser, "?")
        assert await browser.evaluate("document.querySelector('#keys').open")
        await press(browser, "Escape")
        assert not await browser.evaluate("document.querySelector('#keys').open")
        await press(browser, "f")
        assert await browser.evaluate(f"{focused} === 'check-0' && document.activeElement.className") == "lost"
        await press(browser, "j", "j", "a")
        assert await browser.evaluate(focused) == "note-1"
        await browser.call("Input.insertText", text=ATTACK)
        await press(browser, "Enter", ctrl=True)
        await shows(browser, "document.querySelector('.annotation span')?.textContent", ATTACK)
        await press(browser, "m")
        assert await browser.evaluate(focused) == "note"
        await browser.call("Input.insertText", text="5 n " + ATTACK)
        await press(browser, "Escape", "5")
        await shows(browser, at, f"1 {queue[1]}")
        await press(browser, "Enter")
        await shows(browser, "document.querySelector('#done').textContent", "2")
        await press(browser, "/")
        await browser.call("Input.insertText", text="contam")
        await press(browser, "Enter")
        await shows(browser, "document.querySelector('#done').textContent", "3")
        await press(browser, "p")
        await shows(browser, at, f"3 {queue[2]}")
        await press(browser, "n")
        await shows(browser, at, f"3 {queue[3]}")
        await browser.open(address(link("desk", "review", filter=1, high=0.5, at=queue[0])))
        assert await browser.evaluate("document.querySelector('#saved').textContent") == "your label: rude"
        assert await browser.evaluate("document.querySelector('#note').value") == "5 n " + ATTACK
        assert await browser.evaluate("document.title !== 'owned' && document.images.length === 0")
        assert browser.problems == []
    labels = read_labels(run)
    assert [(f"{each.task}/{each.rollout}", each.label) for each in labels.given] == [
        (queue[0], "rude"),
        (queue[1], found[1].label),
        (queue[2], "contaminated"),
    ]
    assert {each.by for each in labels.given} == {"ann <b>"}
    assert [(each.message, each.note) for each in labels.notes] == [(1, ATTACK)]


async def test_a_note_survives_a_server_that_is_gone(run):
    async with open_browser() as browser:
        async with serve_view(Site(run.parent, reader="ann")) as address:
            await browser.open(address(link("desk", "review", filter=1)))
            await press(browser, "m")
            await browser.call("Input.insertText", text="half a thought")
        await press(browser, "Escape", "1")
        await shows(browser, "document.querySelector('#problem').textContent.slice(0, 11)", "Not stored:")
        assert await browser.evaluate("document.querySelector('#note').value") == "half a thought"
        assert await browser.evaluate("sessionStorage.length") == 1
    assert not (run / "labels.jsonl").exists()


async def test_pairs_are_compared_with_keys_and_no_score_is_on_the_page(run):
    async with serve_view(Site(run.parent, reader="ann")) as address, open_browser() as browser:
        await browser.open(address(link("desk", "pairs")))
        assert "score" not in await browser.evaluate("document.body.innerText")
        for number, key in enumerate("120", start=1):
            await press(browser, key)
            await shows(browser, "document.querySelector('#done').textContent", str(number))
        assert "compared all pairs" in await browser.evaluate("document.querySelector('#saved').textContent")
        await browser.open(address(link("desk", "readers")))
        assert browser.problems == []
    assert [str(each.choice) for each in read_preferences(run).given] == ["left", "right", "equal"]


async def test_the_pages_of_the_desk_fit_two_widths_and_only_read_without_a_reader(run):
    pages = [
        link("desk", "review"),
        link("desk", "pairs"),
        link("desk", "readers"),
        link("desk", "review", filter=1, outcome="failed"),
    ]
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        for width in (420, 1600):
            for page in pages:
                await browser.open(address(page), width)
                assert await browser.evaluate("document.title.endsWith(' · sandlot')")
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
                await press(browser, "1", "Enter")
        assert browser.problems == []
    assert not (run / "labels.jsonl").exists()
