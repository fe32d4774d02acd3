"""Runs, comparisons and trainings in a real Chromium: charts that grow, values by keys, picking, filtering, a large run."""

import json
import signal
import sys
import time
from pathlib import Path

import pytest

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from drive.browser import Browser, NavigatedError, has_text, open_browser, start, wait_until
from sandlot.analysis.training_log import read_lines
from sandlot.observe.event_log import open_event_log
from sandlot.observe.events import RolloutBegan, ToolCalled
from sandlot.observe.training_records import Learned
from sandlot.store.lock import write_lock
from sandlot.web.app import serve_view
from sandlot.web.site import Site, compare_link, link

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

RECIPE = """
from sandlot.train import Evaluation, Optimisation, PolicyGradient, Recipe, Sampling

def recipe():
    return Recipe(
        name="sums", env="arithmetic", model="rookie", steps=12, tasks=2, group=4,
        algorithm=PolicyGradient(baseline="grpo"), optimisation=Optimisation(learning_rate=5e-4, tokens=1024),
        sampling=Sampling(max_tokens=16), evaluation=Evaluation(every=4, tasks=8, group=2), threads=1,
    )
"""
SLOW = """
import time
from sandlot import Environment, Task

env = Environment("slow", system="")

@env.tasks
def tasks(rng):
    for number in range(4):
        yield Task(id=f"task-{number}", prompt="")

@env.tool
def dawdle(world) -> str:
    "Take long."
    time.sleep(0.4)
    return "done"

@env.check(points=1)
def said(evidence, task):
    return bool(evidence.answer)

@env.solution
async def solve(agent, task):
    await agent.call("dawdle")
    await agent.say("done")
"""


async def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        await browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


async def wait_for(browser: Browser, script: str) -> None:
    async def is_so() -> bool:
        try:
            return bool(await browser.evaluate(script))
        except NavigatedError:  # a link was followed meanwhile
            return False

    await wait_until(is_so)


def learned_of(run: Path) -> list[Learned]:
    return [line for line in read_lines(run) if isinstance(line, Learned)]


async def check_widths(browser: Browser, address: str) -> None:
    """The page never scrolls sideways, and has one script: ours."""
    for width in (420, 1600):
        await browser.open(address, width)
        assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (address, width)
        assert await browser.evaluate("document.scripts.length") == 1


async def test_the_curves_of_a_live_training_grow_and_its_steps_show_their_rollouts(tmp_path):
    (tmp_path / "learn.py").write_text(RECIPE)
    runs = tmp_path / "runs"
    process = start(sys.executable, "-m", "sandlot", "train", tmp_path / "learn.py", "--run", runs / "sums")
    reward = "#charts figure:nth-of-type(2)"
    seen: set[int] = set()
    try:
        await wait_until(lambda: has_text(runs / "sums" / "progress.jsonl"))
        async with serve_view(Site(runs)) as address, open_browser() as browser:

            async def has_learned() -> bool:
                return bool(learned_of(runs / "sums"))

            async def is_shown() -> bool:
                await is_complete()
                return len(learned_of(runs / "sums")) in seen

            async def is_complete() -> bool:
                script = (
                    f"[document.querySelector('h1 .tag')?.textContent, document.querySelectorAll('{reward} circle.k0').length]"
                )
                state, points = await browser.evaluate(script) or (None, 0)
                seen.add(points)
                return (state, points) == ("complete", 12)

            await wait_until(has_learned)
            process.send_signal(signal.SIGSTOP)  # so that the page is seen in the middle, however fast the training is
            await browser.open(address(link("sums", "training")))
            await wait_until(is_shown)
            process.send_signal(signal.SIGCONT)
            await wait_until(is_complete)
            assert any(0 < points < 12 for points in seen), seen
            # Values by keys, and the same numbers as a table.
            steps = learned_of(runs / "sums")
            await browser.evaluate(f"document.querySelector('{reward} svg.chart').focus()")
            for key in ("Home", "ArrowRight"):
                await press(browser, key)
            said = await browser.evaluate(f"document.querySelector('{reward} .readout').textContent")
            assert said.startswith(f"step 2: reward {float(f'{steps[1].reward:.4g}'):g} (")
            await browser.evaluate(f"document.querySelector('{reward} details').open = true")
            await wait_for(browser, f"document.querySelectorAll('{reward} tbody tr').length === 12")
            # Every step's squares are the rollouts it learned from.
            for step in (steps[0], steps[6], steps[-1]):
                await browser.open(address(link("sums", "training", step=step.version)))
                said = await browser.evaluate("[...document.querySelectorAll('#steps .cell')].map((cell) => cell.title)")
                scores = [float(each.split("score ")[1].split(",")[0]) for each in said]
                assert len(scores) == step.rollouts
                assert sum(scores) / len(scores) == pytest.approx(step.reward)
            await browser.evaluate("document.querySelector('#steps .cell').click()")
            await wait_for(browser, "location.pathname.endsWith('/trace')")
            # Before and after, the evaluations as runs of their own, and their comparison.
            await browser.open(address(link("sums", "training")))
            assert await browser.evaluate("document.querySelectorAll('#change figure pre').length") == 2
            await browser.evaluate("document.querySelector('#evaluations tbody a').click()")
            await wait_for(
                browser, "location.pathname.endsWith('/run/sums%40000000') && document.querySelectorAll('.cell').length === 16"
            )
            await check_widths(browser, address(link("sums", "training")))
            assert browser.problems == []
    finally:
        process.kill()
        process.wait()


async def test_runs_are_picked_in_the_list_and_compared(tmp_path):
    for name, model in (("good", "scripted:golden"), ("bad", "scripted:noop")):
        sandlot.run("arithmetic", model, rollouts=12, runs=tmp_path / "made").path.rename(tmp_path / "made" / name)
    async with serve_view(Site(tmp_path / "made")) as address, open_browser() as browser:
        await browser.open(address("/"))
        assert await browser.evaluate("document.querySelector('#compare').disabled")
        await browser.evaluate("document.querySelectorAll('input[name=run]').forEach((box) => box.click())")
        assert await browser.evaluate("document.querySelector('#compare').textContent") == "compare 2"
        await browser.evaluate("document.querySelector('#compare').click()")
        await wait_for(browser, "location.pathname.endsWith('/compare') && document.querySelectorAll('svg.chart').length === 2")
        assert await browser.evaluate("document.querySelectorAll('.tag.met, .tag.failed').length") == 12, "every task flipped"
        await browser.evaluate("(f = document.querySelector('.filters'), f.show.value = 'worse', f.requestSubmit())")
        await wait_for(browser, "location.search.includes('show=worse') && document.readyState === 'complete'")
        await check_widths(browser, address("/compare?run=good&run=bad"))
        assert browser.problems == []


async def test_hostile_names_of_runs_and_tools_stay_text_in_charts_tables_and_live_numbers(tmp_path):
    attack = "<img src=x onerror=document.title='owned'>"
    one = sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path / "one").path / "manifest.json"
    for name in (attack, "plain"):
        store_rows(tmp_path / "runs" / name, one, [rows.scored(f"{attack}{n}", 0, float(name == attack)) for n in range(3)])
    place = tmp_path / "runs" / attack
    with write_lock(place), open_event_log(place) as sink:
        now = time.time()
        sink(RolloutBegan(at=now, run="r", task=attack, rollout=0))
        sink(ToolCalled(at=now + 1, run="r", task=attack, rollout=0, turn=1, name=attack, seconds=1.0, error=False))
        async with serve_view(Site(tmp_path / "runs")) as address, open_browser() as browser:
            await browser.open(address(link(attack)))
            await wait_for(browser, "document.querySelectorAll('#flights tbody tr').length === 1")
            assert await browser.evaluate("document.querySelector('#tools td').textContent") == attack
            await browser.open(address(compare_link([attack, "plain"], show="all")))
            await wait_for(browser, "document.querySelectorAll('svg.chart').length === 2")
            await browser.evaluate("document.querySelector('figure details').open = true")
            await wait_for(browser, "document.querySelectorAll('figure tbody tr').length === 2")
            assert await browser.evaluate("document.querySelector('figure tbody td').textContent") == attack[:40]
            assert await browser.evaluate("document.images.length") == 0
            assert await browser.evaluate("document.title") == "compare · sandlot"
            assert browser.problems == []


async def test_ticks_are_round_and_numbers_are_short(tmp_path):
    async with serve_view(Site(tmp_path)) as address, open_browser() as browser:
        await browser.open(address("/"))

        async def found(script: str):
            return await browser.evaluate(f"import('{address('/static/chart.js')}').then((chart) => chart.{script})")

        assert await found("ticks(0, 1)") == [0, 0.5, 1]
        assert await found("ticks(0, 24, 5)") == [0, 5, 10, 15, 20]
        assert await found("ticks(-0.2, 0.2).map((each) => each.toFixed(1))") == ["-0.2", "-0.1", "0.0", "0.1", "0.2"]
        assert await found("ticks(3, 3)") == [3]
        shown = {
            "0.1 + 0.2": "0.3",
            "1234567": "1,234,567",
            "0.00000123": "1.23e-6",
            "null": "-",
            "NaN": "-",
            "0": "0",
            "-2.5": "-2.5",
        }
        for number, text in shown.items():
            assert await found(f"shown({number})") == text
        assert await found("shown(0.12345, true)") == "12.3 %"


async def test_the_list_follows_live_runs_and_keeps_what_was_picked(tmp_path):
    one = sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path / "one").path / "manifest.json"
    place = store_rows(tmp_path / "runs" / "going", one, [rows.scored("t", 0)])
    cell = "document.querySelector('#rows tbody tr:has(input[value=going]) td:nth-child(8)')?.textContent.trim()"
    async with serve_view(Site(tmp_path / "runs")) as address, open_browser() as browser:
        with write_lock(place):
            await browser.open(address("/"))
            assert (await browser.evaluate(cell)).split()[0] == "1"
            await browser.evaluate("document.querySelector('input[value=going]').click()")
            store_rows(tmp_path / "more", one, [rows.scored("t", n) for n in range(1, 4)])
            (tmp_path / "more" / "segments" / "000001.parquet").rename(place / "segments" / "000002.parquet")
            store_rows(tmp_path / "runs" / "new", one, [rows.scored("t", 0)])
            await wait_for(browser, f"{cell}.startsWith('4 of')")
            assert await browser.evaluate("document.querySelector('input[value=going]').checked")
            assert await browser.evaluate("document.querySelectorAll('#rows tbody tr').length") == 2
        assert browser.problems == []


async def test_a_live_run_says_how_fast_it_is_and_what_is_in_flight(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    command = (sys.executable, "-m", "sandlot", "run", tmp_path / "slow.py", "--model", "scripted:golden", "--group", 12)
    process = start(*command, "--at-once", 2, "--run", tmp_path / "runs" / "going")
    try:
        await wait_until(lambda: has_text(tmp_path / "runs" / "going" / "manifest.json"))
        async with serve_view(Site(tmp_path / "runs")) as address, open_browser() as browser:
            await browser.open(address(link("going")))
            await wait_for(browser, "document.querySelector('#flying')?.textContent === '2'")
            await wait_for(browser, "document.querySelectorAll('#flights tbody tr').length === 2")
            await wait_for(browser, "Number(document.querySelector('#rate')?.textContent) > 0")
            await wait_for(browser, "/ s$/.test(document.querySelector('#left')?.textContent)")
            await wait_for(browser, "document.querySelector('#tools td')?.textContent === 'dawdle'")
            await wait_for(browser, "document.querySelector('h1 .tag')?.textContent === 'complete'")
            await wait_for(browser, "document.querySelectorAll('.cell').length === 48")
            await wait_for(browser, "document.querySelector('#findings table') !== null")
            await check_widths(browser, address(link("going")))
            assert browser.problems == []
    finally:
        process.kill()
        process.wait()


def large_run(place: Path) -> None:
    one = sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=place.parent / "one").path
    made = (
        rows.failed(f"task-{task}", rollout, side="sandbox", kind="timeout")
        if task % 1000 == 7
        else rows.scored(f"task-{task}", rollout, float((task + rollout) % 3 == 0))
        for task in range(12_500)
        for rollout in range(8)
    )
    store_rows(place, one / "manifest.json", made)


async def test_a_run_of_a_hundred_thousand_rollouts_is_opened_filtered_and_paged(tmp_path):
    large_run(tmp_path / "runs" / "large")
    async with serve_view(Site(tmp_path / "runs")) as address, open_browser() as browser:
        await browser.open(address(link("large")))
        assert await browser.evaluate("document.querySelector('#rollouts').textContent") == "100,000"
        assert await browser.evaluate("document.querySelectorAll('.cell').length") == 1600
        await wait_for(browser, "document.querySelector('#findings table') !== null")
        form = "f = document.querySelector('.filters')"
        await browser.evaluate(f"({form}, f.outcome.value = 'failed', f.requestSubmit())")
        await wait_for(browser, "document.querySelectorAll('.cell.failed').length === 13 * 8")
        await browser.evaluate(f"({form}, f.outcome.value = '', f.low.value = '0.3', f.task.value = '99', f.requestSubmit())")
        await wait_for(browser, "location.search.includes('low=0.3') && document.querySelector('a[rel=next]') !== null")
        await browser.evaluate("document.querySelector('a[rel=next]').click()")
        await wait_for(browser, "document.querySelector('#tasks')?.textContent.startsWith('Tasks 201 to')")
        asked = json.loads(await browser.evaluate("JSON.stringify(Object.fromEntries(new URLSearchParams(location.search)))"))
        assert asked == {"task": "99", "low": "0.3", "from": "200"}
        assert browser.problems == []
