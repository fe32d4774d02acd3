"""Steering a live run: by its page in a real Chromium, and by the commands, on a process of its own."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from drive.browser import open_browser, start, wait_until
from drive.command_line import started
from sandlot.core.errors import ConfigError
from sandlot.run.control import FILE, RunOrder, tell_run
from sandlot.run.results import Run
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link

pytestmark = pytest.mark.system

SLOW = """
import anyio
from pathlib import Path
from sandlot import Environment, Task

env = Environment("slow")

@env.tasks
def tasks(rng):
    for number in range(10_000):  # minutes: it must not end before it is told to
        yield Task(id=f"task-{number}", prompt="Wait.")

@env.setup
async def setup(world, task):
    await anyio.sleep(0.05)

@env.check(points=1)
def fine(evidence, task):
    if task.id == "task-3" and not Path("repaired").exists():
        raise ValueError("broken")
    return True
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def go(folder: Path, name: str):
    command = (sys.executable, "-m", "sandlot", "run", folder / "slow.py", "--model", "scripted:noop", "--at-once", 2)
    return start(*command, "--run", folder / "runs" / name)


async def is_listening(run: Path) -> bool:
    return (run / FILE).is_socket()


async def is_answering(run: Path) -> bool:
    with suppress(ConfigError):
        return bool(await anyio.to_thread.run_sync(tell_run, run, RunOrder(do="status")))
    return False


async def test_every_button_of_a_live_run(folder):
    run, process = folder / "runs" / "going", go(folder, "going")
    state = "document.querySelector('#control-state').textContent"
    press = "document.querySelector('[data-do={}]').click()"
    try:
        await wait_until(lambda: is_listening(run))
        async with serve_view(Site(run.parent, control=True)) as address, open_browser() as browser:
            for width in (420, 1600):
                await browser.open(address(link("going")), width)
                await wait_until(lambda: browser.is_at(state, "running"))
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
            await browser.evaluate(press.format("pause"))
            await wait_until(lambda: browser.is_at(state, "paused"))
            await browser.evaluate(
                "document.querySelector('#control input').value = 5, document.querySelector('#control form').requestSubmit()"
            )
            await browser.evaluate(press.format("requeue"))
            await wait_until(lambda: browser.is_at("document.body.textContent.includes('at most 5 · failed ones')", True))
            status = await anyio.to_thread.run_sync(tell_run, run, RunOrder(do="status"))
            assert (status.state, status.at_once, status.requeued) == ("paused", 5, True)
            (folder / "repaired").touch()
            await browser.evaluate(press.format("resume"))
            await wait_until(lambda: browser.is_at(state, "running"))
            await browser.evaluate(press.format("stop"))
            assert await browser.evaluate("document.querySelector('[data-do=stop]').textContent") == "Really stop?"
            await browser.evaluate(press.format("stop"))
            await wait_until(lambda: browser.is_at("document.querySelector('h1 .tag')?.textContent.trim()", "incomplete"))
            assert browser.problems == []
        assert await anyio.to_thread.run_sync(process.wait, 120) == 3
    finally:
        process.kill()
        process.wait()


async def test_a_page_that_only_reads_shows_the_state_and_no_button(folder):
    run, process = folder / "runs" / "going", go(folder, "going")
    try:
        await wait_until(lambda: is_listening(run))
        await anyio.to_thread.run_sync(tell_run, run, RunOrder(do="pause"))
        async with serve_view(Site(run.parent)) as address, open_browser() as browser:
            await browser.open(address(link("going")))
            await wait_until(lambda: browser.is_at("document.querySelector('#control-state').textContent", "paused"))
            assert await browser.evaluate("document.querySelectorAll('#control button, #control input').length") == 0
            assert browser.problems == []
    finally:
        process.kill()
        process.wait()


async def test_every_command_on_a_process_and_again_after_it_was_killed(folder):
    run, process = folder / "runs" / "going", go(folder, "going")

    async def said(*words: object):
        return await anyio.to_thread.run_sync(lambda: started(*words, cwd=folder))

    try:
        await wait_until(lambda: is_listening(run))
        (found,) = (await said("ps", "--json")).json
        assert (found["run"], found["pid"], found["state"], found["at_once"]) == ("going", process.pid, "running", 2)
        assert (await said("pause", "going", "--json")).json["state"] == "paused"
        assert (await said("set", "going", "--at-once", 9, "--json")).json["at_once"] == 9
        assert "paused" in (await said("ps")).out
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (run / FILE).is_socket()
        assert (await said("ps", "--json")).json == []
        refused = await said("resume", "going")
        assert (refused.code, "is not running" in refused.err) == (2, True)
        process = go(folder, "going")
        await wait_until(lambda: is_answering(run))  # the socket of the one that was killed is there all the time
        found = (await said("ps", "--json")).json
        assert (found[0]["state"], found[0]["at_once"]) == ("running", 2)
        os.kill(process.pid, signal.SIGSTOP)
        hung = await said("pause", "going")
        assert (hung.code, "did not answer in 5 s" in hung.err) == (2, True)
        os.kill(process.pid, signal.SIGCONT)
        assert (await said("stop", "going", "--json")).json["state"] == "stopping"
        assert await anyio.to_thread.run_sync(process.wait, 120) == 3
        assert Run(run).verdict == "incomplete"
    finally:
        process.kill()
        process.wait()


HELD = """
from sandlot import Environment, Task

ATTACK = "<img src=x onerror=document.title='owned'>"
env = Environment("held")
env.hold("pay", wait_s=600, safe="keep")

@env.tasks
def tasks(rng):
    for number in range(3):
        yield Task(id=f"t{number}", prompt="Pay.")

@env.tool
def pay(world, usd: int, to: str) -> str:
    "Pay."
    world.state["paid"] = usd
    return "paid"

@env.tool
def keep(world) -> str:
    "Keep it."
    world.state["paid"] = 0
    return "kept"

@env.check(points=1)
def paid(evidence, task):
    return True, str(evidence.state["paid"])

@env.solution
async def solve(agent, task):
    await agent.call("pay", usd=500, to=ATTACK)
    await agent.say("done")
"""


async def test_held_turns_are_approved_changed_and_refused_on_the_page(folder):
    (folder / "held.py").write_text(HELD)
    run = folder / "runs" / "held"
    command = (sys.executable, "-m", "sandlot", "run", folder / "held.py", "--model", "scripted:golden", "--approve")
    process = start(*command, "--run", run)
    waiting = "document.querySelectorAll('#held li').length"
    press = "document.querySelectorAll('#held li')[0].querySelectorAll('button')[{}].click()"
    try:
        await wait_until(lambda: is_listening(run))
        async with serve_view(Site(run.parent, control=True)) as address, open_browser() as browser:
            await browser.open(address(link("held")))
            await wait_until(lambda: browser.is_at(waiting, 3))
            assert await browser.evaluate("document.querySelector('#held textarea').value.includes('<img src=x')")
            assert await browser.evaluate("document.images.length") == 0
            await browser.evaluate(press.format(0))
            await wait_until(lambda: browser.is_at(waiting, 2))
            instead = '[{"name": "pay", "arguments": {"usd": 7, "to": "me"}}]'
            await browser.evaluate(f"document.querySelector('#held textarea').value = {instead!r}")
            await browser.evaluate(press.format(1))
            await wait_until(lambda: browser.is_at(waiting, 1))
            await browser.evaluate(press.format(2))
            assert await anyio.to_thread.run_sync(process.wait, 60) == 0
            assert browser.problems == []
            assert await browser.evaluate("document.title !== 'owned'")
    finally:
        process.kill()
        process.wait()
    paid = {trace.task: trace.outcome.score.checks[0].evidence for trace in Run(run)}
    assert sorted(paid.values()) == ["0", "500", "7"]
