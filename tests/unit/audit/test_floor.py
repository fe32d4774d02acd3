from functools import partial

import pytest

from audited import desk, files
from in_process import NOTHING, case_of, codes
from sandlot.audit.case import Probe
from sandlot.audit.scripted import floor
from sandlot.audit.subject import Declared


async def found(make, *, declared: Declared = NOTHING) -> set[str]:
    case = await case_of(make, declared)
    return {code for probe in floor.PROBES if probe.applies(case) is None for code in codes(await probe.look(case))}


@pytest.mark.parametrize("make", [desk, files])
async def test_a_sound_environment_pays_nobody_who_does_not_do_the_task(make):
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


async def test_the_witness_of_a_finding_plays_again():
    case = await case_of(partial(desk, "status"))
    (finding,) = await floor.look_at_shortcuts(case)
    assert finding.witness is not None
    assert finding.witness.inputs["task"] in {task.id for task in case.tasks}
    assert {act["tool"] for turn in finding.witness.inputs["play"]["turns"] for act in turn if act["do"] == "call"} == {"resolve"}


def test_probes_have_distinct_kebab_names():
    names = [probe.name for probe in floor.PROBES]
    assert len(set(names)) == len(names)
    assert all(isinstance(probe, Probe) and probe.name == probe.name.lower() and "_" not in probe.name for probe in floor.PROBES)
