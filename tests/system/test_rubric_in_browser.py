"""An environment and its rubric in a real Chromium: pages at two widths, and a rubric changed, tried and saved by typing."""

from pathlib import Path

import pytest

import sandlot
from drive.browser import Browser, open_browser, wait_until
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link, serve_environment
from worlds.folders import ATTACK, JUDGED, RUBRIC, write_environment

pytestmark = pytest.mark.system


@pytest.fixture
def place(tmp_path) -> Path:
    folder = write_environment(tmp_path / "sums")
    made = sandlot.run(folder, "scripted:golden", group=2, runs=tmp_path / "runs")
    made.path.rename(tmp_path / "runs" / "first")
    return tmp_path


async def shows(browser: Browser, script: str, wanted: object) -> None:
    """Wait until the page has loaded and a script has this value on it."""

    async def has_come() -> bool:
        return await browser.evaluate(f"document.readyState === 'complete' ? ({script}) : null") == wanted

    await wait_until(has_come)


async def test_the_pages_of_an_environment_fit_two_widths_and_run_no_hostile_text(place):
    pages = ["/environment", "/rubric?name=default", "/rubric?name=judged", link("first", "environment"), "/audits"]
    site = Site(place / "runs", control=True, environment=serve_environment(str(place / "sums")))
    async with serve_view(site) as address, open_browser() as browser:
        for width in (420, 1600):
            for page in pages:
                await browser.open(address(page), width)
                assert await browser.evaluate("document.title.endsWith(' · sandlot') && document.images.length === 0"), page
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
        assert browser.problems == []


async def test_a_rubric_is_changed_tried_and_saved_without_writing_python(place):
    file = place / "sums" / "rubrics" / "default.json"
    points = "document.querySelectorAll('[data-field=points]')[1]"
    saves = "!document.querySelector('#save').disabled"
    site = Site(place / "runs", control=True, environment=serve_environment(str(place / "sums")))
    async with serve_view(site) as address, open_browser() as browser:
        await browser.open(address("/rubric"))
        assert not await browser.evaluate(saves)
        await browser.evaluate(f"{points}.select()")
        await browser.call("Input.insertText", text="lots")
        await shows(
            browser, "document.querySelector('#findings .error')?.textContent.includes('write a number, not `lots`')", True
        )
        assert await browser.evaluate("document.querySelector('.check.wrong').dataset.id") == "short"
        assert not await browser.evaluate(saves)
        await browser.evaluate(f"{points}.select()")
        await browser.call("Input.insertText", text="9")
        await shows(browser, saves, True)
        assert await browser.evaluate("document.querySelector('#points').textContent") == "12"
        await browser.evaluate("document.querySelector('#try').click()")
        await shows(browser, "document.querySelectorAll('#trial tr').length", 6)
        assert "0.875 → 0.625" in await browser.evaluate("document.querySelector('#trial').textContent")
        assert file.read_text() == RUBRIC
        await browser.evaluate("document.querySelector('#add-judge').click()")
        await browser.call("Input.insertText", text="polite")
        await browser.evaluate("document.activeElement.closest('.check').querySelector('[data-field=prompt]').focus()")
        await browser.call("Input.insertText", text=ATTACK)
        await shows(browser, saves, True)
        await browser.evaluate("document.querySelector('.check:not([data-was]) .examples').open = true")
        await browser.evaluate("document.querySelector('.check:not([data-was]) .add-example').click()")
        await browser.call("Input.insertText", text="thanks")
        await shows(browser, "document.querySelector('#findings .error')?.textContent.includes('verdict')", True)
        await browser.evaluate("document.querySelector('.example [data-part=verdict]').focus()")
        await browser.call("Input.insertText", text="yes")
        await shows(browser, saves, True)
        await browser.evaluate("document.querySelector('#save').click()")
        await shows(browser, "document.querySelectorAll('.check[data-was]').length", 3)
        assert await browser.evaluate("document.querySelector('[data-id=polite] [data-field=prompt]').value") == ATTACK
        assert await browser.evaluate("document.title !== 'owned'")
        assert browser.problems == []
    kept = file.read_text()
    assert kept.startswith(RUBRIC.partition('"args"')[0]), "what was not changed is as it was"
    assert '"points": 9' in kept
    assert '"examples": [{"view": "thanks", "verdict": "yes"}]}' in kept


async def test_what_a_field_cannot_show_exactly_stays_as_it_was(place):
    site = Site(place / "runs", control=True, environment=serve_environment(str(place / "sums")))
    async with serve_view(site) as address, open_browser() as browser:
        await browser.open(address("/rubric?name=judged"))
        await browser.evaluate("document.querySelector('[data-field=points]').select()")
        await browser.call("Input.insertText", text="7")
        await shows(browser, "!document.querySelector('#save').disabled", True)
        await browser.evaluate("document.querySelector('#save').click()")
        await shows(browser, "document.querySelector('[data-field=points]').defaultValue", "7")
        assert browser.problems == []
    assert (place / "sums" / "rubrics" / "judged.json").read_text() == JUDGED.replace('"points": 2', '"points": 7')
