"""The page of a run: filters, failures, findings, tools, calibration; live numbers that count every rollout once."""

import json
import re
from html import unescape

import anyio
import msgspec
import pytest
from yarl import URL

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from drive.view import open_pages
from sandlot.observe.event_log import open_event_log
from sandlot.observe.events import RolloutBegan, RolloutEnded, RunBegan, ToolCalled
from sandlot.run.follow import Follower, Followers
from sandlot.store.lock import write_lock
from sandlot.web.site import link

ATTACK = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"
HOSTILE = f"""
from sandlot import Environment, Task

env = Environment("hostile", system="")

@env.tasks
def tasks(rng):
    yield Task(id="bad", prompt="")
    yield Task(id="fine", prompt="")

@env.check(points=1)
def said(evidence, task):
    if task.id != "fine":
        raise ValueError({ATTACK!r})
    return True

@env.solution
async def solve(agent, task):
    await agent.say("done")
"""


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path_factory.mktemp("one")).path / "manifest.json"


@pytest.fixture
def folder(manifest, tmp_path):
    made = [
        *(rows.scored(f"easy-{n}", r, 1.0) for n in range(5) for r in range(2)),
        *(rows.scored(f"hard-{n}", r, 0.0) for n in range(5) for r in range(2)),
        *(rows.failed(ATTACK, r, side="sandbox", kind=ATTACK, message=ATTACK) for r in range(5)),
        rows.failed("grim", 0, side="grader", kind="crash"),
    ]
    place = store_rows(tmp_path / "runs" / "made", manifest, made)
    with open_event_log(place) as sink:
        sink(ToolCalled(run="made", task="easy-0", rollout=0, turn=1, name=ATTACK, seconds=2.0, error=True))
        sink(ToolCalled(run="made", task="easy-0", rollout=0, turn=1, name="look", seconds=1.0, error=False))
    return tmp_path / "runs"


def tasks_on(text: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'<li><a href="[^"]*" title="([^"]*)"', text)]


async def test_tasks_are_filtered_by_the_address(folder):
    async with open_pages(folder) as pages:
        assert len(tasks_on(await pages.get(link("made")))) == 12
        for query, expected in {
            "task=EASY": [f"easy-{n}" for n in range(5)],
            "low=0&high=0.4": [f"hard-{n}" for n in range(5)],
            "outcome=failed": [ATTACK, "grim"],
            "outcome=lost+points&task=3": ["hard-3"],
            "low=nonsense&outcome=nonsense&from=-7&task=grim": ["grim"],
            "low=nan": [f"{kind}-{n}" for kind in ("easy", "hard") for n in range(5)],
            "task=none+such": [],
        }.items():
            if query != "low=nan":
                assert tasks_on(await pages.get(f"{link('made')}?{query}")) == expected, query
        assert "No task matches" in await pages.get(f"{link('made')}?task=none+such")
        assert len(tasks_on(await pages.get(f"{link('made')}?low=nan&high=inf"))) == 12, "no bounds"


async def test_failures_have_their_side_three_examples_and_no_markup(folder):
    async with open_pages(folder) as pages:
        text = await pages.get(link("made"))
        assert "<img" not in text
        assert text.count("<script") == 1
        failures = text[text.index("Failures by side") :]
        failures = failures[: failures.index("</table>")]
        assert failures.index("sandbox") < failures.index("grader"), "most frequent first"
        assert failures.count("/trace?") == 3 + 1
        assert link("made", "trace", task="grim", rollout=0).replace("&", "&amp;") in failures
        tools = text[text.index("Slowest tools") :]
        assert tools.index("&lt;script&gt;") < tools.index(">look<")


async def test_findings_link_to_rollouts_and_triage_is_made_only_on_request(tmp_path):
    (tmp_path / "hostile.py").write_text(HOSTILE)
    run = sandlot.run(tmp_path / "hostile.py", "scripted:golden", group=2, runs=tmp_path / "runs").path
    async with open_pages(tmp_path / "runs") as pages:
        text = await pages.get(link(run.name, "findings"))
        assert "survivors" in text
        assert "look at" not in text
        text = await pages.get(link(run.name, "findings", triage=1))
        assert "4 of 4 rollouts read" in text
        assert link(run.name, "trace", task="bad", rollout=0).replace("&", "&amp;") in text
        assert "<img" not in text
        assert text.count("<script") == 1
        assert "&lt;script&gt;document.title" in text


async def test_the_calibration_of_the_same_setting_is_found_and_a_damaged_one_is_no_problem(manifest, tmp_path):
    place = tmp_path / "runs"
    found = sandlot.calibrate("arithmetic", "scripted:mixed:0.5", tasks=("arithmetic-0", "arithmetic-1"), budget=20, runs=place)
    (place / found.run).rename(place / "placed")
    sandlot.run("arithmetic", "scripted:mixed:0.5", rollouts=4, runs=place).path.rename(place / "same")
    store_rows(place / "other", manifest, [rows.scored()])
    (store_rows(place / "damaged", manifest, [rows.scored()]) / "calibration.json").write_text("{")
    async with open_pages(place) as pages:
        assert "Difficulty" in await pages.get(link("placed"))
        same = await pages.get(link("same"))
        assert "Difficulty" in same
        assert f'<a href="{link("placed")}">placed</a>' in same
        for name in ("other", "damaged"):
            assert "Difficulty" not in await pages.get(link(name))


async def test_charts_of_the_page_are_json_with_the_summary_numbers(folder):
    async with open_pages(folder) as pages:
        text = await pages.get(link("made"))
        charts = [json.loads(unescape(found)) for found in re.findall(r'data-chart="([^"]*)"', text)]
        scores, pass_at, phases = charts
        assert [y for _, y in scores["series"][0]["points"]] == [10, 0, 0, 0, 0, 0, 0, 0, 0, 10]
        assert pass_at["series"][0]["points"] == [[1, 0.5], [2, 0.5]]
        assert phases["labels"] == ["model", "tools"]


def rollout_ended(task: str, rollout: int, run: str = "made") -> RolloutEnded:
    return RolloutEnded(run=run, task=task, rollout=rollout, row=rows.scored(task, rollout, 0.0))


def test_a_live_run_is_followed_by_its_events_and_every_rollout_counts_once(manifest, tmp_path):
    place = store_rows(tmp_path / "made", manifest, [rows.scored("t", n, 1.0) for n in range(4)])
    with write_lock(place), open_event_log(place) as sink:
        sink(RunBegan(run="made", path="", environment="e", model="m", num_tasks=1, num_planned=4, num_done=0))
        follower = Follower(place, fresh_s=0)
        first = follower.look()
        assert (first.live, first.rollouts, first.score, first.planned) == (True, 4, 1.0, 4)
        sink(rollout_ended("t", 3))  # it was stored before its event was written
        sink(rollout_ended("t", 4))
        sink(RolloutBegan(run="made", task="t", rollout=5))
    state = follower.look()
    assert (state.live, state.rollouts, state.score) == (False, 5, 0.8)
    assert [each.rollout for each in state.now.in_flight] == [5]


def test_evaluations_of_a_training_are_not_counted_as_its_rollouts(manifest, tmp_path):
    place = store_rows(tmp_path / "made", manifest, [rows.scored("t", 0)])
    (place / "recipe.json").write_text("{}")
    follower = Follower(place, fresh_s=0)
    with open_event_log(place) as sink:
        sink(rollout_ended("held", 0, "made/0/evaluation"))
        sink(rollout_ended("t", 1, "made/0"))
    assert follower.look().rollouts == 2


async def test_five_readers_of_a_live_run_share_one_look(manifest, tmp_path):
    place = store_rows(tmp_path / "made", manifest, [rows.scored()])
    followers, seen = Followers(), []
    with write_lock(place):
        async with anyio.create_task_group() as readers:
            for _ in range(5):
                readers.start_soon(lambda: anyio.to_thread.run_sync(lambda: seen.append(followers.state_of(place))))
    assert len(seen) == 5
    assert len({id(state) for state in seen}) == 1


async def test_the_stream_ends_when_the_run_is_removed(manifest, tmp_path):
    place = store_rows(tmp_path / "made", manifest, [rows.scored()])
    async with open_pages(tmp_path) as pages:
        with write_lock(place):
            answer = await pages.session.get(URL(pages.address(link("made", "live")), encoded=True))
            state = msgspec.json.decode((await answer.content.readline()).removeprefix(b"data: "))
            assert state["live"]
            place.rename(tmp_path.parent / "elsewhere")
            with anyio.fail_after(15):
                await answer.content.read()
