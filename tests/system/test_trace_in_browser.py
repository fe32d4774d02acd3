"""The pages of traces and groups, artifacts and saved files in a real Chromium; everything in them is hostile."""

from pathlib import Path
from typing import Any

import pytest

from builders.view_pages import FILES, HTML, PDF, SVG, make_run
from drive.browser import Browser, open_browser, wait_until
from sandlot.core.types import digest
from sandlot.web.app import serve_view
from sandlot.web.saved import save_pages
from sandlot.web.site import Site, link

pytestmark = pytest.mark.system
NAME = "desk <b>"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("browser"))


def trace(rollout: int = 1, page: str = "trace", **query: str | int) -> str:
    return link(NAME, page, task="made", rollout=rollout, **query)


async def becomes(browser: Browser, script: str, wanted: Any) -> None:
    await wait_until(lambda: browser.is_at(script, wanted))


async def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        await browser.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")


async def test_every_page_at_two_widths_without_a_word_on_the_console(run):
    group, diff = (link(NAME, page, task="made", **query) for page, query in (("group", {}), ("diff", {"one": 1, "other": 3})))
    pages = [trace(), trace(3), group, diff, *(trace(page="file", path=path) for path in FILES if not path.endswith(".pdf"))]
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        for width in (420, 1600):
            for page in pages:
                await browser.open(address(page), width)
                assert await browser.evaluate("document.title.endsWith(' · sandlot')"), page
                assert await browser.evaluate("document.scripts.length") == 1
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
        assert browser.problems == []


async def test_a_trace_is_folded_loaded_and_stepped_into(run):
    shut = "[...document.querySelectorAll('details.call, details.result, details.error')].filter((each) => !each.open).length"
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        await browser.open(address(trace()))
        assert await browser.evaluate(shut) == 1, "the long result"
        await press(browser, "f")
        assert await browser.evaluate(shut) == 0
        await press(browser, "f")
        assert await browser.evaluate(shut) == 8
        await browser.evaluate("document.querySelector('#m4 button.rest').click()")
        await becomes(browser, "document.querySelector('#m4 pre').textContent.length", 9000)
        await browser.evaluate("document.querySelector('#m3 button.step').click()")
        assert (await browser.evaluate("document.querySelector('.stepping').textContent")).endswith("made/1' --turn 2")
        await press(browser, "x")
        assert await browser.evaluate("document.activeElement.closest('tr').className") == "lost"
        assert browser.problems == []


async def test_links_to_a_message_and_a_token_find_what_is_not_loaded_yet(run):
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        await browser.open(address(trace(3)) + "#m301t1")
        await becomes(browser, "document.activeElement.id", "m301t1")
        shown = await browser.evaluate("document.querySelector('#m301 .told').textContent")
        assert "log-probability -3.5000" in shown
        assert "weights 4" in shown
        assert await browser.evaluate("document.querySelectorAll('.gap').length") == 2
        await browser.evaluate(
            "[...document.querySelectorAll('#m301 .bar button')].find((e) => e.textContent == 'trained').click()"
        )
        classes = "[...document.querySelectorAll('#m301 .map span')].map((each) => each.classList[0]).join()"
        assert await browser.evaluate(classes) == "trained,trained,untrained,trained"
        await browser.evaluate("document.querySelector('.gap a').click()")
        await becomes(browser, "document.querySelectorAll('article').length", 581)
        numbers = await browser.evaluate("[...document.querySelectorAll('article')].map((each) => Number(each.id.slice(1)))")
        assert numbers == sorted(set(numbers))
        assert browser.problems == []


async def test_a_recording_is_played(run):
    screen = "document.querySelector('.screen')?.textContent ?? ''"
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        for page in (trace(), trace(page="file", path="/out/session.cast")):
            await browser.open(address(page))
            await browser.evaluate("document.querySelector('details.recording').open = true")
            await becomes(browser, f"({screen}).length > 0", wanted=True)
            whole = await browser.evaluate(screen)
            assert "\x1b" not in whole
            await browser.evaluate("p = document.querySelector('.bar input'), p.value = 0, p.dispatchEvent(new Event('input'))")
            assert len(await browser.evaluate(screen)) < len(whole)
            await browser.evaluate(
                "document.querySelector('.bar select').value = 8, document.querySelector('.bar button').click()"
            )
            await becomes(browser, screen, whole)
        assert whole == "hello\nred <b>\n"
        assert browser.problems == []


async def test_no_artifact_runs_as_a_page_of_ours(run):
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        for data, query in ((SVG, {}), (SVG, {"as": "image"}), (HTML, {}), (HTML, {"as": "image"})):
            await browser.open(address(trace(page="artifact", id=digest(data), name="page.html", **query)))
            assert await browser.evaluate("document.title") != "owned"
            assert await browser.evaluate("self.origin") == "null", "a sandbox has no origin"
        await browser.open(address(trace(page="file", path="/out/drawing.svg")))
        assert await browser.evaluate("document.querySelector('img.artifact').naturalWidth") == 40
        assert await browser.evaluate("document.title") != "owned"


async def test_a_paper_is_shown_in_a_frame(run):
    async with serve_view(Site(run.parent)) as address, open_browser() as browser:
        await browser.open(address(trace(page="file", path="/out/paper.pdf")))
        shown = await browser.evaluate("document.querySelector('iframe').src")
        assert shown.endswith(f"id={digest(PDF)}&name=%2Fout%2Fpaper.pdf")
        assert browser.problems == []


async def open_file(browser: Browser, path: Path, place: str = "") -> None:
    await browser.call("Page.navigate", url="about:blank")
    await browser.call("Page.navigate", url=path.as_uri() + place)
    await becomes(browser, "document.readyState + ' ' + location.protocol", "complete file:")


async def test_a_saved_file_shows_its_pages_without_a_server(run, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(save_pages(run, [("made", 1), ("made", 3)], tokens=True).text)
    title = "document.querySelector('h1')?.textContent.trim().split(/\\s+/).join(' ')"
    async with open_browser() as browser:
        await open_file(browser, file)
        assert "2 of 4 rollouts" in await browser.evaluate(title)
        await browser.evaluate("document.querySelector('main table a').click()")
        await becomes(browser, title + "?.slice(0, 14)", "made rollout 1")
        here = await browser.evaluate("location.hash")
        await browser.evaluate("document.querySelector('#m5 h3 a').click()")
        assert await browser.evaluate("location.hash") == f"{here}/m5"
        await browser.evaluate("document.querySelector('#m4 button.rest').click()")
        await becomes(browser, "document.querySelector('#m4 pre').textContent.length", 9000)
        await browser.evaluate("document.querySelector('details.recording').open = true")
        await becomes(browser, "document.querySelector('.screen')?.textContent.startsWith('$ ls')", wanted=True)
        assert await browser.evaluate("document.querySelector('.strip img').naturalWidth") == 8
        await browser.evaluate("document.querySelectorAll('nav a')[2].click()")
        await becomes(browser, title + "?.slice(0, 15)", "made 4 rollouts")
        await browser.evaluate("document.querySelector('a[href=\"#left-out\"]').click()")
        assert await browser.evaluate("document.querySelector('#left-out-note').open")
        await browser.evaluate("history.back()")
        await becomes(browser, title + "?.slice(0, 14)", "made rollout 1")
        for number in range(await browser.evaluate("document.querySelectorAll('template[data-page]').length")):
            await open_file(browser, file, f"#page-{number}")
            assert await browser.evaluate("document.querySelector('main h1') !== null")
        await open_file(browser, file, f"{here}/m3t1")
        await becomes(browser, "document.activeElement.id", "m3t1")
        assert await browser.evaluate("document.title") != "owned"
        assert browser.problems == []
