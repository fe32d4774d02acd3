import random
from functools import partial
from random import Random

import msgspec
import pytest

from drive.in_process import case_of, codes
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.audit.probes.differential import neighbours, regrading, resets, surroundings
from sandlot.audit.probes.likeness import changes_between, first_difference, left_behind, mask_volatile
from sandlot.audit.probes.panel import DIFFERENTIAL
from sandlot.audit.subject import Conditions, Trial
from sandlot.core.trace import AppsRecord, EvidenceRecord, Trace
from sandlot.core.types import digest
from worlds.audited import desk, files

SHARED: dict[str, int] = {}


def basket(flaw: str = "") -> Environment:
    """Put things in. Flaws: `chance`, `neighbours`, `flaky`."""
    env = Environment("basket")

    @env.tasks
    def tasks(rng: Random):
        for number in range(5):
            yield Task(f"fill-{number}", prompt=f"Put {number + 1} in.", key={"count": number + 1})

    @env.setup
    def empty(world: World, task: Task) -> None:
        global SHARED  # noqa: PLW0603 - the flaw
        world.state = {"in": {}, "number": random.randrange(10**9) if flaw == "chance" else 0}
        if flaw == "neighbours":
            SHARED = world.state["in"]

    @env.tool
    async def put(world: World, count: int) -> str:
        """Put some in."""
        place = SHARED if flaw == "neighbours" else world.state["in"]
        place["count"] = place.get("count", 0) + count
        return f"There are {place['count']}."

    @env.check(points=1)
    def right(evidence: Evidence, task: Task) -> float:
        fine = evidence.state["in"].get("count") == task.key["count"]
        return fine * (random.random() if flaw == "flaky" else 1.0)

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        for _ in range(task.key["count"]):
            await agent.call("put", count=1)
        await agent.say("done")

    return env


@pytest.mark.parametrize("make", [desk, files, basket])
async def test_a_sound_environment_is_the_same_under_all_conditions(make):
    case = await case_of(make)
    case.tasks = case.tasks[:3]
    assert [finding for probe in DIFFERENTIAL for finding in await probe.look(case)] == []


async def test_what_another_rollout_wrote_is_found_by_its_canary():
    case = await case_of(partial(desk, "shared"))
    (finding,) = await resets._look_at_history(case)
    assert finding.code == "D05.leak"
    assert finding.witness is not None
    assert "canary" in finding.witness.observed


async def test_a_world_drawn_from_the_global_generator_is_no_reset_leak_but_outside_dependence():
    case = await case_of(partial(basket, "chance"))
    assert codes(await surroundings._look_at_surroundings(case)) == {"D17.random"}
    assert await resets._look_at_order(case) == []


async def test_a_grade_that_depends_on_the_clock_is_found_although_idle_trials_are_equal():
    later: list[bool] = [False]

    def dated() -> Environment:
        env = Environment("dated")

        @env.tasks
        def tasks(rng: random.Random):
            for number in range(6):
                yield Task(f"t{number}", prompt=f"Say {number}.", key={"word": str(number)})

        @env.check(points=1)
        def right(evidence: Evidence, task: Task) -> bool:
            return evidence.answer == task.key["word"] and not later[0]

        @env.solution
        async def solve(agent: Agent, task: Task) -> None:
            await agent.say(task.key["word"])

        return env

    def pass_time(conditions: Conditions) -> None:
        later[0] = conditions.clock_shift_s > 0

    case = await case_of(dated, change=pass_time)
    assert codes(await surroundings._look_at_surroundings(case)) == {"D17.clock"}


async def test_a_result_cached_by_its_arguments_alone_is_found():
    kept: dict[str, str] = {}

    def shelf() -> Environment:
        env = Environment("shelf")
        kept.clear()

        @env.tasks
        def tasks(rng: random.Random):
            for number in range(4):
                yield Task(
                    f"t{number}", prompt=f"How many of part {number}?", data={"count": number * 7}, key={"part": f"p{number}"}
                )

        @env.tool
        async def count(world: World, part: str) -> str:
            """How many there are."""
            return kept.setdefault(part, str(world.task.data["count"]))

        @env.check(points=1)
        def right(evidence: Evidence, task: Task) -> bool:
            return evidence.answer == str(task.data["count"])

        @env.solution
        async def solve(agent: Agent, task: Task) -> None:
            await agent.call("count", part=task.key["part"])
            await agent.say(str(task.data["count"]))

        return env

    assert codes(await resets._look_at_history(await case_of(shelf))) == {"D05.history"}


async def test_rollouts_that_share_a_variable_disturb_each_other():
    case = await case_of(partial(basket, "neighbours"))
    assert codes(await neighbours._look_at_neighbours(case)) == {"D18.neighbours"}
    assert await resets._look_at_order(case) == []


async def test_a_random_grader_is_found_by_grading_again():
    case = await case_of(partial(basket, "flaky"))
    assert codes(await regrading._look_at_regrading(case)) == {"D10.regrade"}


def test_the_first_difference_of_two_records_is_given_by_path():
    one, other = {"a": [1, {"b": "x"}], "c": 1}, {"a": [1, {"b": "y"}], "c": 1}
    assert str(first_difference(one, other)) == "a.1.b: 'x' | 'y'"
    assert first_difference(one, one) is None
    assert first_difference({"a": 1}, {"a": True}) is not None


def test_volatile_fields_are_masked_in_records_and_in_text():
    assert mask_volatile({"at": 5, "n": [{"at": 6}]}, ("at",)) == mask_volatile({"at": 7, "n": [{"at": 8}]}, ("at",))
    assert mask_volatile('{"at": "2024", "n": 1}', ("at",)) == mask_volatile('{"at": "2025", "n": 1}', ("at",))
    assert mask_volatile("at: 12 n: 1", ("at",)) != mask_volatile("at: 12 n: 2", ("at",))


def test_what_changed_in_apps_is_part_of_what_a_trial_left():
    """So that resets, neighbours and gradings are compared on it, as on state and files."""
    changes = [{"app": "mail", "table": "message", "before": None, "after": {"id": "1"}}]
    journal = msgspec.msgpack.encode(changes)
    record = AppsRecord(now="2026-01-05T09:00:00Z", bases={"mail": "b"}, journal=digest(journal), num_changes=1)
    left = Trace(run="r", task="t", rollout=0, seed=0, evidence=EvidenceRecord(apps=record))
    trial, idle = Trial(trace=left, files={digest(journal): journal}), Trial(trace=left)
    assert left_behind(trial)["apps"] == {"bases": {"mail": "b"}, "changes": {"0.mail": changes[0]}}
    assert changes_between(idle, trial)["apps.changes.0.mail.after.id"] == "1"


def test_the_moment_of_a_change_can_be_left_out_of_a_comparison_and_nothing_else():
    def left(at: str, text: str = "ok", stamp: str = "1767603600.000100") -> Trial:
        after = {"id": "1", "text": text, "sent": at.replace("Z", ".000+0000"), "ts": stamp, "due": "2026-03-01T10:00:00Z"}
        journal = msgspec.msgpack.encode([{"app": "mail", "table": "message", "before": None, "after": after, "at": at}])
        record = AppsRecord(now=at, bases={"mail": "b"}, journal=digest(journal), num_changes=1)
        trace = Trace(run="r", task="t", rollout=0, seed=0, evidence=EvidenceRecord(apps=record))
        return Trial(trace=trace, files={digest(journal): journal})

    first, later = left("2026-01-05T09:00:00Z"), left("2026-01-05T09:00:20Z", stamp="1767603620.000100")
    assert set(changes_between(first, later)) > {"apps.changes.0.mail.at"}
    assert changes_between(first, later, timeless=True) == {}
    other = left("2026-01-05T09:00:20Z", "no", stamp="1767600000.000100")
    assert set(changes_between(first, other, timeless=True)) == {"apps.changes.0.mail.after.text", "apps.changes.0.mail.after.ts"}
