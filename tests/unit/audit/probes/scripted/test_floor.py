from functools import partial
from random import Random

import pytest

from drive.in_process import NOTHING, case_of, codes
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.audit.case import Probe
from sandlot.audit.probes.scripted import floor
from sandlot.audit.subject import Declared
from worlds.audited import desk, files


async def found(make, *, declared: Declared = NOTHING) -> set[str]:
    case = await case_of(make, declared)
    return {code for probe in floor.PROBES if probe.applies(case) is None for code in codes(await probe.look(case))}


@pytest.mark.parametrize("make", [desk, files])
async def test_a_sound_environment_pays_no_agent_that_skips_the_task(make):
    assert await found(make) == set()


@pytest.mark.parametrize(
    ("make", "flaw", "code"),
    [
        (desk, "status", "D02.false-resolve"),
        (desk, "claim", "D02.claim"),
        (desk, "noop", "D02.noop"),
        (files, "report", "D02.forged-report"),
        (files, "expected", "D02.edit-expected"),
    ],
)
async def test_each_shortcut_that_pays_is_found_with_a_witness(make, flaw, code):
    assert code in await found(partial(make, flaw))


async def test_a_declared_floor_is_no_finding():
    assert await found(partial(desk, "noop"), declared=Declared(floor=0.25)) == set()


async def test_the_witness_of_a_finding_reproduces_it():
    case = await case_of(partial(desk, "status"))
    (finding,) = await floor._look_at_shortcuts(case)
    assert finding.witness is not None
    assert finding.witness.inputs["task"] in {task.id for task in case.tasks}
    assert {act["tool"] for turn in finding.witness.inputs["play"]["turns"] for act in turn if act["do"] == "call"} == {"resolve"}


def test_probes_have_distinct_kebab_names():
    names = [probe.name for probe in floor.PROBES]
    assert len(set(names)) == len(names)
    assert all(isinstance(probe, Probe) and probe.name == probe.name.lower() and "_" not in probe.name for probe in floor.PROBES)


def alerts(*, says_so: bool, always: bool = False) -> Environment:
    """Alerts, half of which must be left alone; if `says_so`, the agent must say so too."""
    env = Environment("alerts", system="Reset what is above 90; else leave it alone. Say `acted` or `noise`.", state=dict)

    @env.tasks
    def tasks(rng: Random):
        for number in range(10):
            level = 95 if number % 2 or always else 50
            yield Task(f"alert-{number}", prompt=f"Host {number} is at {level}.", key={"due": level > 90})

    @env.tool
    async def reset(world: World, host: int) -> str:
        """Reset a host."""
        world.state["reset"] = host
        return f"{host} is reset."

    @env.check(points=1, gate=True)
    def did_what_was_due(evidence: Evidence, task: Task) -> bool:
        return ("reset" in evidence.state) == task.key["due"]

    @env.check(points=1)
    def said_so(evidence: Evidence, task: Task) -> bool:
        return not says_so or evidence.answer.strip() == ("acted" if task.key["due"] else "noise")

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        if task.key["due"]:
            await agent.call("reset", host=int(task.id.rpartition("-")[2]))
        await agent.say("acted" if task.key["due"] else "noise")

    return env


async def test_doing_nothing_where_golden_changes_nothing_is_a_minor_lead():
    (lead,) = await floor._look_at_idling(await case_of(partial(alerts, says_so=True)))
    assert (lead.code, lead.standing, lead.count) == ("D02.noop", "lead", 5)


async def test_full_marks_for_doing_nothing_are_confirmed_even_there():
    assert codes(await floor._look_at_idling(await case_of(partial(alerts, says_so=False)))) == {"D02.noop"}


def dishes(points: float) -> Environment:
    """Prompts that contain part of the answer: repeating them earns `points`."""
    env = Environment("dishes")

    @env.tasks
    def tasks(rng: Random):
        for number in range(8):
            yield Task(f"dish-{number}", prompt=f"Dish {number} is made of celery.", key={"golden": f"celery, milk {number}"})

    @env.check(points=1)
    def share(evidence: Evidence, task: Task) -> float:
        return 1.0 if evidence.answer == task.key["golden"] else points * ("celery" in evidence.answer)

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say(task.key["golden"])

    return env


@pytest.mark.parametrize(("points", "found_here"), [(0.4, set()), (0.6, {"D02.echo"})])
async def test_an_echo_with_part_of_the_answer_may_earn_part_of_the_points(points, found_here):
    assert codes(await floor._look_at_words(await case_of(partial(dishes, points)))) == found_here
