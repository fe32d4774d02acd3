"""From findings to a verdict, with waivers on the way."""

import msgspec
import pytest

from sandlot.audit.audit import chosen_tasks
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import MANDATORY, Confidence, Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.reason import declared
from sandlot.audit.subject import Description
from sandlot.audit.verdict import AuditVerdict, LayerReport, State, apply_waivers, verdict_of
from sandlot.audit.waivers import Waiver, read_waivers
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.observe.events import ProbeBegan, ProbeEnded, RunEvent, ignore_event
from worlds.subjects import ToySubject

WITNESS = Witness(inputs={"answer": "42"}, expected="0", observed="1")
SOLVED = ToySubject(lambda _evidence, _task: 1.0, [Task("a", key={"golden": "1"})])
RAN = [LayerReport(layer=layer, state=State.RAN) for layer in MANDATORY]


def finding(severity: Severity = Severity.HIGH, standing: Confidence = Confidence.CONFIRMED, code: str = "D02.echo") -> Finding:
    witness = WITNESS if standing is Confidence.CONFIRMED else None
    return Finding(
        code=code,
        title="t",
        layer=Layer.GRADER,
        probe="hollow",
        severity=severity,
        standing=standing,
        witness=witness,
        task="a",
        reason=declared("an adversary"),
    )


def case_of(*, golden: bool = True, judge: bool = False) -> Case:
    about = Description(name="e", kind="environment", fingerprint="f", tasks=(Task("a"),), has_golden=golden, needs_judge=judge)
    return Case(subject=SOLVED, description=about, tasks=about.tasks)


async def nothing(_case: Case) -> list[Finding]:
    return []


PANEL = tuple(Probe(name=f"of-{layer}", layer=layer, codes=("D02",), look=nothing) for layer in MANDATORY)


def test_a_finding_without_a_witness_cannot_be_confirmed():
    with pytest.raises(ValueError, match="confirmed without a witness"):
        Finding(
            code="D02",
            title="t",
            layer=Layer.STATIC,
            probe="p",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            witness=None,
        )


def test_a_finding_that_a_wrong_answer_scores_is_confirmed_only_with_a_reason():
    assert make_finding("D02.echo", "t", WITNESS).standing is Confidence.LEAD
    assert make_finding("D02.echo", "t", WITNESS, reason=declared("an adversary")).standing is Confidence.CONFIRMED
    assert make_finding("D09.crash", "t", WITNESS).standing is Confidence.CONFIRMED
    with pytest.raises(ValueError, match="without a reason"):
        msgspec.structs.replace(finding(), reason=None)


def test_nothing_grave_and_every_layer_ran_is_ship():
    assert verdict_of(RAN, [finding(Severity.LOW), finding(standing=Confidence.LEAD)]) is AuditVerdict.SHIP


def test_one_confirmed_grave_finding_is_fix():
    assert verdict_of(RAN, [finding()]) is AuditVerdict.FIX


@pytest.mark.parametrize("missing", MANDATORY)
def test_a_mandatory_layer_that_did_not_run_is_incomplete(missing: Layer):
    layers = [LayerReport(layer=layer, state=State.COULD_NOT_RUN if layer is missing else State.RAN) for layer in MANDATORY]
    assert verdict_of(layers, []) is AuditVerdict.INCOMPLETE
    assert verdict_of([report for report in RAN if report.layer is not missing], []) is AuditVerdict.INCOMPLETE


def test_exit_codes_are_those_of_the_command_line():
    assert [verdict.exit_code for verdict in AuditVerdict] == [0, 1, 3]


async def test_a_probe_that_breaks_leaves_its_layer_unfinished_and_the_others_run():
    async def breaks(_case: Case) -> list[Finding]:
        raise KeyError("gone")

    panel = (*PANEL[:3], Probe(name="breaks", layer=Layer.DIFFERENTIAL, codes=("D05",), look=breaks))
    layers, _ = await run_probes(case_of(), panel, AuditSelection(), ignore_event)
    states = {report.layer: report.state for report in layers}
    assert states[Layer.DIFFERENTIAL] is State.COULD_NOT_RUN
    assert states[Layer.SCRIPTED] is State.RAN
    assert states[Layer.MODEL] is State.NOT_ASKED
    assert "KeyError" in layers[3].why


async def test_a_sink_hears_of_each_probe_when_it_begins_and_when_it_has_ended():
    async def breaks(_case: Case) -> list[Finding]:
        raise KeyError("gone")

    panel = (
        Probe(name="idle", layer=Layer.STATIC, codes=(), look=nothing, applies=lambda _case: "no sources"),
        Probe(name="breaks", layer=Layer.DIFFERENTIAL, codes=("D05",), look=breaks),
    )
    got: list[RunEvent] = []
    await run_probes(case_of(), panel, AuditSelection(), got.append)
    assert [(type(event), event.layer, event.probe) for event in got if isinstance(event, ProbeBegan | ProbeEnded)] == [
        (ProbeBegan, "static", "idle"),
        (ProbeEnded, "static", "idle"),
        (ProbeBegan, "differential", "breaks"),
        (ProbeEnded, "differential", "breaks"),
    ]
    idle, broken = (event for event in got if isinstance(event, ProbeEnded))
    assert (idle.state, idle.why) == ("does not apply", "no sources")
    assert broken.state == "could not run"
    assert "KeyError" in broken.why


async def test_without_a_golden_solution_or_a_judge_it_is_incomplete():
    for case, word in ((case_of(golden=False), "golden"), (case_of(judge=True), "judge")):
        layers, findings = await run_probes(case, PANEL, AuditSelection(), ignore_event)
        assert verdict_of(layers, findings) is AuditVerdict.INCOMPLETE
        assert word in layers[1].why
        assert layers[0].state is State.RAN


async def test_a_layer_that_no_subject_of_the_kind_can_have_is_told_and_does_not_stand_in_the_way():
    about = msgspec.structs.replace(case_of().description, inapplicable={Layer.GRADER: "there is no grader"})
    case = Case(subject=SOLVED, description=about, tasks=about.tasks)
    panel = tuple(probe for probe in PANEL if probe.layer is not Layer.GRADER)
    layers, findings = await run_probes(case, panel, AuditSelection(), ignore_event)
    assert (layers[1].state, layers[1].why) == (State.DOES_NOT_APPLY, "there is no grader")
    assert verdict_of(layers, findings) is AuditVerdict.SHIP
    layers, findings = await run_probes(case, panel[1:], AuditSelection(), ignore_event)
    assert verdict_of(layers, findings) is AuditVerdict.INCOMPLETE


async def test_a_layer_of_which_no_probe_applies_was_not_looked_at():
    idle = Probe(name="idle", layer=Layer.STATIC, codes=(), look=nothing, applies=lambda _case: "no sources were given")
    layers, findings = await run_probes(case_of(), (idle, *PANEL[1:]), AuditSelection(), ignore_event)
    assert (layers[0].state, layers[0].why) == (State.COULD_NOT_RUN, "none of its probes applies: no sources were given")
    assert verdict_of(layers, findings) is AuditVerdict.INCOMPLETE


def test_a_waiver_covers_a_finding_by_id_or_code_until_its_day():
    found = finding()
    for named in (found.id, "D02.echo", "D02"):
        waiver = Waiver(finding=named, reason="known", owner="Ann", expires="2027-01-31")
        standing, waived, expired = apply_waivers([found], [waiver], "2027-01-31")
        assert (standing, [each.finding for each in waived], expired) == ([], [found], [])
        standing, waived, expired = apply_waivers([found], [waiver], "2027-02-01")
        assert (standing, waived, expired) == ([found], [], [waiver])


def test_a_waiver_for_another_code_waives_nothing():
    waiver = Waiver(finding="D02.exit", reason="known", owner="Ann", expires="2999-01-01")
    assert apply_waivers([finding()], [waiver], "2027-01-01")[0] == [finding()]


@pytest.mark.parametrize(
    "text",
    [
        '[[waiver]]\nfinding = "D02"\nreason = "r"\nowner = "o"',
        '[[waiver]]\nfinding = "D02"\nreason = " "\nowner = "o"\nexpires = "2027-01-01"',
        '[[waiver]]\nfinding = "D02"\nreason = "r"\nowner = "o"\nexpires = "soon"',
        '[[waiver]]\nfinding = "D02"\nreason = "r"\nowner = "o"\nexpires = "2027-02-31"',
        '[[waiver]]\nfinding = "D02"\nreason = "r"\nowner = "o"\nexpires = "2027-01-01"\nforever = true',
        "waiver = 3",
        "[[waiver]",
    ],
)
def test_a_waiver_that_does_not_say_everything_is_refused_with_the_file(tmp_path, text: str):
    place = tmp_path / "audit.toml"
    place.write_text(text)
    with pytest.raises(ConfigError, match=r"audit\.toml"):
        read_waivers(place)


def test_waivers_are_read_with_a_day_as_toml_writes_it(tmp_path):
    place = tmp_path / "audit.toml"
    place.write_text('[[waiver]]\nfinding = "D02"\nreason = "r"\nowner = "o"\nexpires = 2027-01-01\n')
    assert read_waivers(place) == [Waiver(finding="D02", reason="r", owner="o", expires="2027-01-01")]
    assert read_waivers(tmp_path / "none.toml") == []


def test_chosen_tasks_are_the_same_for_the_same_seed_and_keep_their_order():
    tasks = [Task(f"t{number}") for number in range(50)]
    chosen = chosen_tasks(tasks, 10, 3)
    assert len(chosen) == 10
    assert chosen == chosen_tasks(tasks, 10, 3)
    assert chosen != chosen_tasks(tasks, 10, 4)
    assert list(chosen) == sorted(chosen, key=tasks.index)
    assert chosen_tasks(tasks, 50, 3) == tuple(tasks)


def test_chosen_tasks_have_one_of_every_rubric_if_there_is_room():
    tasks = [Task(str(number), rubric="rare" if number == 17 else "usual") for number in range(40)]
    assert all({task.rubric for task in chosen_tasks(tasks, 2, seed)} == {"rare", "usual"} for seed in range(5))
    assert len(chosen_tasks(tasks, 1, 0)) == 1
