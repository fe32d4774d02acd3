"""RFC 008's report: every id once, no pass without a probe that ran, and the verdict is the policy's."""

import json

import pytest

from sandlot import Environment, Limits, Task
from sandlot.audit.audit import ALL_PROBES
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.reason import declared
from sandlot.audit.standard.checks import DROPPED, STANDARD_CHECKS, StandardLevel
from sandlot.audit.standard.facts import StandardAnswer, declared_answers, measured_answers
from sandlot.audit.standard.report import CheckStatus, StandardPolicy, StandardVerdict, read_policy, standard_report
from sandlot.audit.standard.validate import UnsupportedError, validate
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, ProbeReport, State
from sandlot.core.errors import ConfigError

FLOOR = Finding(
    code="D02.idle",
    title="an agent that does nothing scores",
    layer=Layer.SCRIPTED,
    probe="does-nothing",
    severity=Severity.HIGH,
    standing=Confidence.CONFIRMED,
    witness=Witness(inputs={}, expected="0", observed="1"),
    reason=declared("the floor is 0"),
)


def audited(*findings: Finding, without: str = "", state: State = State.RAN, golden: bool = True) -> Audit:
    """An audit in which every probe ran but one."""
    layers = []
    for layer in Layer:
        if layer is not Layer.STATIC and not golden:
            layers.append(LayerReport(layer=layer, state=State.COULD_NOT_RUN, why="it has no golden solution"))
            continue
        probes = tuple(
            ProbeReport(name=each.name, state=state if each.name == without else State.RAN, codes=each.codes, why="so", trials=2)
            for each in ALL_PROBES
            if each.layer is layer
        )
        layers.append(LayerReport(layer=layer, state=State.RAN, probes=probes))
    return Audit(
        subject="env.py", name="env", kind="environment", fingerprint="sha256:aa", sandlot="1", started=0, seconds=1, seed=0,
        tasks=1, of_tasks=1, trials=2, verdict=AuditVerdict.SHIP, layers=tuple(layers), findings=findings,
    )  # fmt: skip


def reported(audit: Audit, answers: dict[str, StandardAnswer] | None = None, policy: StandardPolicy | None = None, **options):
    report = standard_report(audit, answers or {}, manifest={}, policy=policy or StandardPolicy(), **options)
    return report, {result.check_id: result for result in report.results}


def small(**options) -> Environment:
    env = Environment("small", **options)

    @env.tasks
    def tasks(rng):
        yield Task("one", prompt="Say yes.")

    @env.check(points=1)
    def right(evidence, task):
        return evidence.answer == "yes"

    return env


def test_every_acceptance_test_has_an_id_or_was_dropped():
    assert len({check.id for check in STANDARD_CHECKS}) == len(STANDARD_CHECKS) == 45
    assert {check.number for check in STANDARD_CHECKS} - {None} == set(range(1, 45)) - set(DROPPED)


def test_checks_name_probes_that_there_are_and_classes_that_those_find():
    classes = {probe.name: set(probe.codes) for probe in ALL_PROBES}
    for check in STANDARD_CHECKS:
        found = set().union(*(classes[name] for name in check.probes))
        assert set(check.codes) <= found, check.id


def test_a_local_report_has_the_local_ids_and_an_operators_all():
    assert {each.lane for each in reported(audited())[0].results} == {"local"}
    assert len(reported(audited(), operator=True)[0].results) == 45
    levels = {each.level for each in reported(audited(), level=StandardLevel.STATIC)[0].results}
    assert levels == {StandardLevel.STATIC}


def test_a_confirmed_finding_fails_its_check_and_the_report():
    report, results = reported(audited(FLOOR))
    assert results["semantic.floor_gap"].status is CheckStatus.FAIL
    assert "does nothing" in results["semantic.floor_gap"].evidence[0]
    assert results["semantic.floor_gap"].remediation
    assert (report.verdict, report.verdict.exit_code) == (StandardVerdict.FAIL, 1)


def test_a_finding_that_is_only_a_lead_fails_nothing():
    lead = Finding(code="D02.idle", title="maybe", layer=Layer.SCRIPTED, probe="does-nothing", severity=Severity.HIGH)
    assert reported(audited(lead))[1]["semantic.floor_gap"].status is CheckStatus.PASS


@pytest.mark.parametrize(
    ("state", "status"), [(State.DOES_NOT_APPLY, CheckStatus.SKIP), (State.COULD_NOT_RUN, CheckStatus.ERROR)]
)
def test_a_check_whose_probe_did_not_run_never_passes(state, status):
    result = reported(audited(without="margins", state=state))[1]["semantic.resource_envelope"]
    assert (result.status, "so" in result.evidence[0]) == (status, True)


def test_without_a_golden_solution_the_report_fails():
    report, results = reported(audited(golden=False))
    assert results["semantic.oracle_max"].status is CheckStatus.FAIL
    assert "golden" in results["semantic.oracle_max"].evidence[0]
    assert report.verdict is StandardVerdict.FAIL


def test_semantic_checks_of_a_world_that_is_not_deterministic_are_skipped():
    leak = Finding(
        code="D05.left", title="a rollout sees what another left", layer=Layer.DIFFERENTIAL, probe="after-others",
        severity=Severity.HIGH, standing=Confidence.CONFIRMED, witness=Witness(inputs={}, expected="a", observed="b"),
    )  # fmt: skip
    results = reported(audited(leak, FLOOR))[1]
    assert results["runtime.episode_determinism"].status is CheckStatus.FAIL
    assert {each.status for each in results.values() if each.level is StandardLevel.SEMANTIC} == {CheckStatus.SKIP}


def test_a_policy_decides_what_a_failure_means(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"version": "ours", "severities": {"semantic.floor_gap": "warn"}}))
    report = reported(audited(FLOOR), policy=read_policy(file))[0]
    assert (report.verdict, report.verdict.exit_code, report.policy_version) == (StandardVerdict.WARN, 0, "ours")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"severities": {"nope.x": "fail"}}', "no check id"),
        ('{"severities": {"semantic.floor_gap": "loud"}}', "severity `loud`"),
        ("{", "write {"),
        ('{"sevreities": {}}', "sevreities"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_word_that_is_wrong(tmp_path, text, named):
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ConfigError, match=named):
        read_policy(tmp_path / "policy.json")


def test_what_an_environment_declares():
    answers = declared_answers(small(), {})
    assert answers["static.timeout_ceiling"].holds
    assert answers["runtime.rubric_introspectable"].holds
    assert answers["runtime.host_containment"].holds, "there is no sandbox to leave"
    boxed = declared_answers(small(image="host", limits=Limits(turns=3)), {"files": "own", "users": "no: x"})
    assert boxed["runtime.host_containment"].holds is False
    assert "users" in boxed["runtime.host_containment"].evidence
    assert boxed["static.dependency_pinning"].holds is None, "nothing reads what an image installs"
    assert {check.id for check in STANDARD_CHECKS} >= set(answers)


class Row:
    def __init__(self, task: str, score: float | None):
        self.task, self.score = task, score


def test_runs_of_models_answer_the_statistical_checks():
    weak = [Row("a", 0.0), Row("a", 0.0), Row("b", 0.0), Row("b", None)]
    strong = [Row("a", 1.0), Row("a", 0.0), Row("b", 1.0), Row("b", 1.0)]
    answers = measured_answers({"weak": weak, "strong": strong})
    holds = {name.partition(".")[2]: answer.holds for name, answer in answers.items()}
    assert holds == {
        "reward_reachability": True,
        "headroom": True,
        "variance_bound": True,
        "difficulty_separation": True,
        "training_signal": None,
    }
    assert answers["statistical.variance_bound"].measured == {"informative": 1, "groups": 2}
    assert measured_answers({"strong": strong, "weak": weak})["statistical.difficulty_separation"].holds is False
    for nothing in ({}, {"unscored": [Row("a", None)]}):
        assert {answer.holds for answer in measured_answers(nothing).values()} == {None}
    assert set(answers) <= {check.id for check in STANDARD_CHECKS}


def test_environments_that_the_standard_does_not_support_are_refused_with_the_category(tmp_path):
    file = tmp_path / "duel.py"
    file.write_text(
        "from sandlot import Environment, Seat, Task\n"
        "env = Environment('duel', seats=[Seat('a'), Seat('b')])\n"
        "@env.tasks\ndef tasks(rng):\n    yield Task('one', prompt='Play.')\n"
        "@env.check(points=1)\ndef right(evidence, task):\n    return True\n"
    )
    with pytest.raises(UnsupportedError, match="multi-agent"):
        validate(file, runs=tmp_path)


def test_a_static_level_validates_a_file_without_playing(tmp_path):
    file = tmp_path / "small.py"
    file.write_text(
        "from sandlot import Environment, Task\n"
        "env = Environment('small')\n"
        "@env.tasks\ndef tasks(rng):\n    yield Task('one', prompt='Say yes.')\n"
        "@env.check(points=1)\ndef right(evidence, task):\n    return evidence.answer == 'yes'\n"
    )
    report = validate(file, level="static", runs=tmp_path / "runs")
    assert {each.level for each in report.results} == {StandardLevel.STATIC}
    assert report.verdict is StandardVerdict.PASS
