"""What was attacked, counted from trials, and what nothing attacked."""

from typing import Any

import msgspec
import pytest

from sandlot.audit.attacked import Attempts, GoldenRecord, attempts_of, plays_of
from sandlot.audit.case import regrade_with_answer, script_of
from sandlot.audit.coverage import Coverage, Standing, coverage_of, shares_line, untested_line
from sandlot.audit.finding import MANDATORY, Witness, make_finding
from sandlot.audit.reason import declared
from sandlot.audit.subject import Call, Conditions, Description, NamedPlay, Say, Script, Take, Trial
from sandlot.audit.verdict import AuditVerdict, LayerReport, State, verdict_of
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import CheckResult, CheckVerdict, PythonCheck, Rubric, RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Message, Node, Scored, Text, ToolCall, Trace
from sandlot.core.types import Role

RUBRIC = Rubric(checks=(PythonCheck(id="total", ref="c:total", points=3), PythonCheck(id="note", ref="c:note", points=1)))
OTHER = Rubric(checks=(PythonCheck(id="rare", ref="c:rare"),))
TASKS = (Task("a"), Task("b"), Task("c"), Task("d", rubric="other"))
RAN = [LayerReport(layer=layer, state=State.RAN) for layer in MANDATORY]


def score(**values: float) -> RubricScore:
    worth = {"total": 3.0, "note": 1.0}
    checks = tuple(
        CheckResult(id=name, verdict=CheckVerdict.MET, value=value, points=worth[name] * value, worth=worth[name])
        for name, value in values.items()
    )
    points = sum(check.points for check in checks)
    return RubricScore(points=points, possible=4, value=points / 4, checks=checks)


def played(*acts: Say | Call, state: Any = None, files: Any = None, **values: float) -> Trial:
    nodes = []
    for number, act in enumerate(acts):
        part = Text(act.text) if isinstance(act, Say) else ToolCall(str(number), act.tool, act.arguments)
        nodes.append(Node(message=Message(role=Role.ASSISTANT, parts=(part,)), sampled=True))
    answer = next((act.text for act in reversed(acts) if isinstance(act, Say)), "")
    evidence = EvidenceRecord(answer=answer, state=state, files=files or {})
    scored = Scored(score(**values) if values else RubricScore(points=1, possible=1, value=1))
    return Trial(
        trace=Trace(run="r", task="a", rollout=0, seed=0, nodes=nodes, evidence=evidence, outcome=scored), scores=(scored,)
    )


GOLDEN = played(Say("one"), Call("write", {"n": 1}), Say("two"), state={"n": 1}, total=1, note=1)
IDLE = played(state={"n": 0}, total=0, note=0)
KNOWN = {"a": GoldenRecord("default", GOLDEN, script_of(GOLDEN, "golden").turns, IDLE)}


def take(*acts: Say | Call, name: str = "attack") -> Take:
    return Take(task="a", play=Script(name=name, turns=tuple((act,) for act in acts)))


def test_wrong_work_counts_for_the_checks_that_graded_it_and_for_what_it_varied():
    trial = played(Say("one"), Call("write", {"n": 2}), Say("two"), state={"n": 2}, total=0, note=1)
    found = attempts_of([take(Say("one"), Call("write", {"n": 2}), Say("two"))], [trial], KNOWN)
    assert found == {
        "check default/total": Attempts(1, 1),
        "check default/note": Attempts(1, 0),
        "artifact state": Attempts(1, 1),
        "tool write": Attempts(1, 1),
    }


@pytest.mark.parametrize(
    "request_",
    [
        Take(task="a", play=NamedPlay(name="golden")),
        Take(task="a", play=Script(name="nop")),
        Take(task="a", play=script_of(GOLDEN, "golden")),
        take(Call("write", {"n": 1}), Say("one"), Say("two"), name="golden-in-another-order"),
        regrade_with_answer(GOLDEN, "two"),
        regrade_with_answer(IDLE, ""),
        Take(task="unknown", play=NamedPlay(name="random")),
    ],
)
def test_golden_nothing_and_tasks_without_golden_are_no_attacks(request_):
    assert attempts_of([request_], [GOLDEN], KNOWN) == {}


def test_a_turn_is_varied_only_where_the_others_are_goldens():
    first = take(Say("other"), Call("write", {"n": 1}), Say("two"))
    both = take(Say("x"), Call("write", {"n": 1}), Say("x"))
    assert "turn 1" in attempts_of([first], [GOLDEN], KNOWN)
    assert not any(part.startswith("turn") for part in attempts_of([both], [GOLDEN], KNOWN))
    assert "turn 2" in attempts_of([regrade_with_answer(GOLDEN, "x")], [GOLDEN], KNOWN)


def about(**fields: Any) -> Description:
    tools = (ToolSpec(name="write", description="", parameters={}), ToolSpec(name="read", description="", parameters={}))
    given = {"rubrics": {"default": RUBRIC, "other": OTHER}, "tasks": TASKS, "tools": tools} | fields
    return Description(name="e", kind="environment", fingerprint="f", has_golden=True, **given)


ATTEMPTS = {"check default/total": Attempts(9, 8), "check default/note": Attempts(9, 2), "tool write": Attempts(3, 3)}


def test_points_that_no_task_played_reaches_are_untested_and_leave_the_audit_incomplete():
    found = coverage_of(about(), KNOWN, ATTEMPTS, [])
    assert {part.name: (part.share, part.standing) for part in found.parts if part.kind == "check"} == {
        "default/total": (0.5625, Standing.ATTACKED),
        "default/note": (0.1875, Standing.ATTACKED),
        "other/rare": (0.25, Standing.UNTESTED),
    }
    assert shares_line(found) == "points: 0% defective (confirmed), 0% under a lead, 75% attacked without a finding, 25% untested"
    assert "check `other/rare` (no task with this rubric was played; `--limit 2` or more plays all rubrics)" in untested_line(
        found
    )
    assert verdict_of(RAN, [], found) is AuditVerdict.INCOMPLETE


def test_tools_turns_and_artifacts_that_nothing_attacked_are_named_and_do_not_decide():
    found = coverage_of(about(tasks=TASKS[:3], rubrics={"default": RUBRIC}), KNOWN, ATTEMPTS, [])
    assert {(part.kind, part.name) for part in found.untested} == {
        ("turn", "1"), ("turn", "2"), ("tool", "read"), ("artifact", "answer"), ("artifact", "state"),
    }  # fmt: skip
    assert verdict_of(RAN, [], found) is AuditVerdict.SHIP


def test_turns_share_the_points_of_an_environment_that_grades_itself():
    attempts = {"check default/total": Attempts(5, 5), "turn 2": Attempts(5, 5)}
    found = coverage_of(about(tasks=TASKS[:3], rubrics={}), KNOWN, attempts, [])
    assert found.share(Standing.UNTESTED) == found.share(Standing.ATTACKED) == 0.5
    assert "turn `1` (no probe varied it with the other turns as golden's)" in untested_line(found)
    assert verdict_of(RAN, [], found) is AuditVerdict.INCOMPLETE


def test_findings_lie_on_the_points_that_their_witness_got():
    witness = Witness(inputs={}, expected="", observed="")
    wrong = make_finding("D02.words", "t", witness, task="a", reason=declared("x"), paid=("note",))
    lead = make_finding("D22.near", "t", witness, task="b", paid=("total",))
    elsewhere = make_finding("D01.stale", "t", witness, task="a")
    found = coverage_of(about(), KNOWN, ATTEMPTS, [wrong, lead, elsewhere])
    assert {part.name: part.standing for part in found.parts if part.kind == "check"} == {
        "default/total": Standing.LEAD,
        "default/note": Standing.CONFIRMED,
        "other/rare": Standing.UNTESTED,
    }


def test_a_coverage_is_written_and_read_back():
    found = coverage_of(about(), KNOWN, ATTEMPTS, [])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Coverage) == found


def test_the_return_of_a_gymnasium_environment_is_attacked_only_beside_a_solution():
    about = Description(name="walk", kind="gymnasium", fingerprint="f", tasks=(Task("seed-0"),), has_golden=True)
    alone = coverage_of(about, {}, {"play random": Attempts(8, 0)}, [])
    assert not alone.complete
    assert "no solution was played" in untested_line(alone)
    beside = coverage_of(about, {}, {"play random": Attempts(8, 0), "play golden": Attempts(8, 0)}, [])
    assert beside.complete
    assert "surroundings `another clock`" in untested_line(beside).replace("`another hash seed`, ", "")


def test_plays_and_changed_surroundings_of_a_gymnasium_environment_are_counted():
    requests = [Take(task="a", play=NamedPlay(name=name)) for name in ("constant-3", "random")]
    counted = plays_of(requests, [played(), Trial()], Conditions(clock_shift_s=5).changed)
    assert counted == {"play constant": Attempts(1, 0), "surroundings clock": Attempts(1, 0)}
