"""What a time budget buys, and what an audit says that it did not reach."""

import anyio
import pytest

from sandlot.audit.budget import TimeBudget, most_telling_first, parse_budget, tasks_within
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import MANDATORY, Finding, Layer, make_finding
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.probes.panel import DIFFERENTIAL, GRADER, SCRIPTED
from sandlot.audit.subject import Description
from sandlot.audit.verdict import AuditVerdict, State, verdict_of
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.observe.events import ignore_event
from worlds.subjects import ToySubject


async def finds(_case: Case) -> list[Finding]:
    return [make_finding("D09.crash", "t")]


async def never_ends(_case: Case) -> list[Finding]:
    await anyio.sleep_forever()
    return []


def case_of() -> Case:
    subject = ToySubject(lambda _evidence, _task: 1.0, [Task("a", key={"golden": "1"})])
    about = Description(name="e", kind="environment", fingerprint="f", tasks=(Task("a"),), has_golden=True)
    return Case(subject=subject, description=about, tasks=about.tasks)


def probe(name: str, look=finds, layer: Layer = Layer.GRADER) -> Probe:
    return Probe(name=name, layer=layer, codes=("D09",), look=look)


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("5m", 300), ("1.5h", 5400), ("90", 90), ("2 min", 120)])
def test_a_budget_is_a_time(text: str, seconds: float):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "soon", "-5", "5 days"])
def test_anything_else_is_refused_with_the_way_to_write_it(text: str):
    with pytest.raises(ConfigError, match="such as `60s`"):
        parse_budget(text)


def test_the_number_of_tasks_follows_from_the_budget_alone():
    assert [tasks_within(given, 100) for given in (None, 1.0, 60.0, 3600.0)] == [100, 6, 20, 100]
    assert tasks_within(60.0, 4) == 4


def test_the_most_telling_probes_come_first_and_none_is_lost():
    every = [*GRADER, *SCRIPTED, *DIFFERENTIAL]
    ordered = most_telling_first(every)
    assert {each.name for each in ordered} == {each.name for each in every}
    assert [each.name for each in ordered[:3]] == ["golden-passes", "hollow-answers", "near-misses"]


async def test_what_a_spent_budget_did_not_reach_is_named_and_the_audit_is_incomplete():
    panel = tuple(probe(f"of-{layer}", layer=layer) for layer in MANDATORY)
    layers, findings = await run_probes(case_of(), panel, AuditSelection(), ignore_event, budget=TimeBudget(0.0))
    assert [report.state for report in layers[:4]] == [State.RAN, *[State.NOT_REACHED] * 3]
    assert "the budget of 0 s was spent" in layers[1].why
    assert verdict_of(layers, findings) is AuditVerdict.INCOMPLETE


async def test_a_probe_that_never_ends_costs_its_share_and_loses_nothing_that_others_found():
    panel = (probe("hollow-answers"), probe("odd-answers", never_ends), probe("later", layer=Layer.SCRIPTED))
    wanted = AuditSelection(layers=frozenset({Layer.GRADER, Layer.SCRIPTED}))
    layers, findings = await run_probes(case_of(), panel, wanted, ignore_event, budget=TimeBudget(0.3))
    grader = next(report for report in layers if report.layer is Layer.GRADER)
    assert {each.name: each.state for each in grader.probes} == {
        "hollow-answers": State.RAN,
        "odd-answers": State.NOT_REACHED,
    }
    assert "`odd-answers`" in grader.why
    assert "hollow-answers" in {finding.probe for finding in findings}


async def test_with_time_enough_a_budget_changes_nothing():
    panel = tuple(probe(f"of-{layer}", layer=layer) for layer in MANDATORY)
    with_budget = await run_probes(case_of(), panel, AuditSelection(), ignore_event, budget=TimeBudget(1000.0))
    without = await run_probes(case_of(), panel, AuditSelection(), ignore_event)
    assert with_budget[1] == without[1]
    assert [report.state for report in with_budget[0]] == [report.state for report in without[0]]
