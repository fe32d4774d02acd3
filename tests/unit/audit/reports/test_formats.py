"""An audit for machines: SARIF and JUnit files that parse whatever a subject said, and say what the verdict says."""

import json
import re
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.audit.coverage import Coverage, CoveredPart, Standing
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.reason import declared
from sandlot.audit.reports.folder import as_json
from sandlot.audit.reports.formats import FORMATS, format_for, require_writable, write_report
from sandlot.audit.reports.html import as_page
from sandlot.audit.reports.junit import as_junit
from sandlot.audit.reports.markdown import as_markdown
from sandlot.audit.reports.sarif import as_sarif
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, ProbeReport, State, Waived
from sandlot.audit.waivers import Waiver
from sandlot.core.errors import ConfigError

HOSTILE = "]]></failure><script>&amp;\x00\x1b[31m\ud800\ufffe\u202e\r\n<!--"


def finding(text: str = "plain", **changed: object) -> Finding:
    plain = Finding(
        code="D02.echo",
        title=f"title {text}",
        layer=Layer.GRADER,
        probe="hollow-answers",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        task="task-1",
        count=3,
        witness=Witness(inputs={"answer": text}, expected=text, observed=text),
        reason=declared(text),
    )
    return msgspec.structs.replace(plain, **changed)


LEAD = finding(
    code="D01.kept", layer=Layer.STATIC, probe="cached-state", standing=Confidence.LEAD, where="tools dir/x.py:12", task=None
)
SMALL = finding(code="D08.outside", probe="odd", severity=Severity.LOW)


def report(layer: Layer, *states: State, text: str = "why", state: State = State.RAN, findings: int = 0) -> LayerReport:
    probes = tuple(
        ProbeReport(name=f"{layer}-{number}", state=each, codes=(), why=text, findings=findings)
        for number, each in enumerate(states)
    )
    return LayerReport(layer=layer, state=state, why=text if state is not State.RAN else "", probes=probes)


def an_audit(text: str = "plain", **changed: object) -> Audit:
    waiver = Waiver(finding="D08", reason=f"reason {text}", owner="Ann", expires="2027-01-01")
    audit = Audit(
        subject="'environments/x y/env.py'",
        name="x",
        kind="environment",
        fingerprint="sha256:aa",
        sandlot="1.0",
        started=0.0,
        seconds=1.5,
        seed=7,
        tasks=1,
        of_tasks=2,
        trials=3,
        verdict=AuditVerdict.FIX,
        layers=(
            report(Layer.STATIC, State.RAN, State.DOES_NOT_APPLY, text=text),
            report(Layer.GRADER, State.RAN, State.RAN, text=text),
            report(Layer.SCRIPTED, State.COULD_NOT_RUN, State.RAN, text=text, state=State.COULD_NOT_RUN),
            report(Layer.DIFFERENTIAL, text=text, state=State.DOES_NOT_APPLY),
            report(Layer.MODEL, state=State.NOT_ASKED),
        ),
        findings=(finding(text), LEAD),
        waived=(Waived(finding=SMALL, waiver=waiver),),
        expired=(waiver,),
    )
    return msgspec.structs.replace(audit, **changed)


def sarif(audit: Audit) -> dict:
    """The run of the log, after what SARIF 2.1.0 demands of every log."""
    log = json.loads(as_sarif(audit))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
        assert result["occurrenceCount"] >= 1
        assert all(each["kind"] in {"inSource", "external"} for each in result["suppressions"])
        (location,) = result["locations"]
        assert re.fullmatch(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+", location["physicalLocation"]["artifactLocation"]["uri"])
        assert location["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
    (invocation,) = run["invocations"]
    assert isinstance(invocation["executionSuccessful"], bool)
    for name in ("startTimeUtc", "endTimeUtc"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", invocation[name])
    assert all(each["level"] in {"note", "warning", "error"} for each in invocation["toolExecutionNotifications"])
    return run


def test_sarif_says_what_was_found_where_and_how_grave_it_is():
    run = sarif(an_audit())
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("D02.echo", "error"),
        ("D01.kept", "warning"),
        ("D08.outside", "warning"),
    ]
    whole, line = (each["locations"][0] for each in run["results"][:2])
    assert whole["physicalLocation"]["artifactLocation"]["uri"] == "environments/x%20y/env.py"
    assert whole["logicalLocations"] == [{"name": "task-1", "kind": "task"}]
    assert line["physicalLocation"]["artifactLocation"]["uri"] == "environments/x%20y/tools%20dir/x.py"
    assert line["physicalLocation"]["region"] == {"startLine": 12}
    assert run["results"][0]["partialFingerprints"] == {"sandlotFinding/v1": finding().id}
    assert "sandlot audit 'environments/x y/env.py' --probe hollow-answers" in run["results"][0]["message"]["text"]


def test_sarif_suppresses_what_is_waived_with_its_justification_and_nothing_else():
    suppressed = [each["suppressions"] for each in sarif(an_audit())["results"]]
    justified = {"kind": "external", "status": "accepted", "justification": "reason plain (Ann, until 2027-01-01)"}
    assert suppressed == [[], [], [justified]]


@pytest.mark.parametrize(
    ("verdict", "succeeded"), [(AuditVerdict.SHIP, True), (AuditVerdict.FIX, True), (AuditVerdict.INCOMPLETE, False)]
)
def test_sarif_of_an_incomplete_audit_is_of_an_execution_that_did_not_succeed(verdict: AuditVerdict, succeeded: bool):
    (invocation,) = sarif(an_audit(verdict=verdict, layers=()))["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (succeeded, verdict.exit_code)


def test_sarif_notifies_of_what_was_not_looked_at():
    (invocation,) = sarif(an_audit("why"))["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [(each["level"], each["message"]["text"]) for each in invocation["toolExecutionNotifications"]] == [
        ("error", "scripted: could not run: why"),
        ("note", "differential: does not apply: why"),
        ("warning", "the waiver of D08 expired on 2027-01-01 and no longer counts"),
    ]


@pytest.mark.parametrize(
    ("changed", "uri"),
    [
        ({"subject": "environments/helpdesk"}, "environments/helpdesk"),
        ({"subject": "/abs/env.py"}, "file:///abs/env.py"),
        ({"subject": "--grader a.b:score --tasks t.jsonl", "kind": "grader", "name": "a.b:score"}, "a/b.py"),
        ({"subject": "--gym CartPole-v1", "kind": "gymnasium", "name": "CartPole-v1"}, "CartPole-v1"),
    ],
)
def test_sarif_names_what_was_audited_where_no_line_is_known(changed: dict, uri: str):
    assert sarif(an_audit(**changed))["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def cases(text: str) -> dict[str, dict[str, str | None]]:
    """Suite -> case -> what became of it, counts checked."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in (root, *root):
        for name, tag in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            inside = [case for case in element.iter("testcase") if tag is None or case.find(tag) is not None]
            assert int(element.get(name)) == len(inside)
    fates = ("failure", "error", "skipped")
    return {
        suite.get("name"): {
            case.get("name"): next((tag for tag in fates if case.find(tag) is not None), None) for case in suite.iter("testcase")
        }
        for suite in root
    }


def test_junit_fails_what_is_grave_errs_for_what_could_not_run_and_skips_the_rest():
    found = cases(as_junit(an_audit()))
    assert found == {
        "static": {"static-0": None, "static-1": "skipped", f"cached-state: {LEAD.id}": None},
        "grader": {
            "grader-0": None,
            "grader-1": None,
            f"hollow-answers: {finding().id}": "failure",
            f"odd: {SMALL.id}": "skipped",
        },
        "scripted": {"scripted-0": "error", "scripted-1": None},
        "differential": {"the layer": "skipped"},
    }


def test_a_layer_of_which_no_probe_applies_is_an_error_in_junit():
    none = report(Layer.STATIC, State.DOES_NOT_APPLY, state=State.COULD_NOT_RUN)
    assert cases(as_junit(an_audit(layers=(none,))))["static"]["the layer"] == "error"


def test_a_probe_that_found_something_is_told_by_its_findings():
    layers = (report(Layer.GRADER, State.RAN, findings=1),)
    assert set(cases(as_junit(an_audit(layers=layers)))["grader"].values()) == {"failure", "skipped"}
    assert "grader-0" not in cases(as_junit(an_audit(layers=layers)))["grader"]


@given(st.text(st.characters(), max_size=60) | st.just(HOSTILE))
def test_nothing_a_subject_says_breaks_a_file_or_becomes_markup(text: str):
    audit = an_audit(text)
    sarif(audit)
    root = ET.fromstring(as_junit(audit))
    tags = {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}
    assert {element.tag for element in root.iter()} <= tags
    assert cases(as_junit(audit)) == cases(as_junit(an_audit()))


def test_the_shares_of_the_points_and_why_an_answer_is_wrong_stand_in_every_report():
    parts = (
        CoveredPart(kind="check", name="total", share=0.75, standing=Standing.CONFIRMED, tried=9, lost=3),
        CoveredPart(kind="check", name="<rare>", share=0.25, standing=Standing.UNTESTED, why="no task was played"),
    )
    audit = an_audit(coverage=Coverage(parts=parts))
    line = "points: 75% defective (confirmed), 0% under a lead, 0% attacked without a finding, 25% untested"
    for written in (as_markdown(audit), as_page(audit)):
        assert written.index(line) < written.index("title plain")
        assert "is declared wrong by the author: plain" in written
    assert "&lt;rare&gt;" in as_page(audit)
    assert list(json.loads(as_json(audit)))[:2] == ["verdict", "points"]
    assert json.loads(as_json(audit))["points"] == {"confirmed": 0.75, "lead": 0.0, "attacked": 0.0, "untested": 0.25}


def test_the_ending_of_a_file_says_how_it_is_written(tmp_path):
    audit = an_audit()
    for ending, face in FORMATS.items():
        write_report(audit, tmp_path / "new" / f"Report{ending.upper()}")
        assert (tmp_path / "new" / f"Report{ending.upper()}").read_text() == face(audit)
    assert format_for(tmp_path / "a.sarif.json") is as_sarif
    with pytest.raises(ConfigError, match=r"unknown extension; known: \.sarif"):
        format_for(tmp_path / "report.pdf")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_report(audit, tmp_path / "new" / "Report.XML" / "report.md")


def test_a_file_that_cannot_be_written_is_told_before_there_is_an_audit(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.md").mkdir()
    require_writable(tmp_path / "new" / "report.md")
    assert (tmp_path / "new").is_dir()
    for name, why in (
        ("file/report.md", "File exists|Not a directory"),
        ("folder.md", "it is a folder"),
        ("a.pdf", "unknown extension"),
    ):
        with pytest.raises(ConfigError, match=why):
            require_writable(tmp_path / name)


def test_the_folders_of_a_report_are_made_before_the_audit(tmp_path):
    require_writable(tmp_path / "a" / "b" / "report.md")
    assert (tmp_path / "a" / "b").is_dir()
