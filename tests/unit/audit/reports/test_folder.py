"""Audits on disk, and what they are good for; reports that hostile words cannot break."""

import shlex
from html.parser import HTMLParser

import msgspec
import pytest

from sandlot.audit.finding import MANDATORY, Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.reason import declared
from sandlot.audit.reports.folder import as_json, find_shipped, folder_of, place_of, read_audit, require_audit
from sandlot.audit.reports.formats import write_audit
from sandlot.audit.reports.html import as_page
from sandlot.audit.reports.markdown import as_markdown
from sandlot.audit.reports.wording import reproduce_command
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, State, Waived
from sandlot.audit.waivers import Waiver
from sandlot.core.disk import DRAFT
from sandlot.core.errors import ConfigError, StoreError
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.module import forget_modules

PLACE = "/environments/x y"
ADD = """
from sandlot import Ask, Score, environment

@environment("add", tasks=1)
def add(rng):
    answer = yield Ask("What is 1 + 1?", golden="2")
    yield Score(answer == "2")
"""
HOSTILE = "</pre><script>alert(1)</script>\x1b[31m\n```\n# owned | cell\u202e\x00"


def an_audit(verdict: AuditVerdict = AuditVerdict.SHIP, text: str = "plain", **changed: object) -> Audit:
    found = Finding(
        code="D02.echo",
        title=f"title {text}",
        layer=Layer.GRADER,
        probe="hollow-answers",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        task="task-1",
        where=f"file {text}",
        witness=Witness(inputs={"answer": text}, expected=text, observed=text),
        reason=declared(text),
    )
    waiver = Waiver(finding="D02", reason=text, owner=text, expires="2027-01-01")
    audit = Audit(
        subject="'environments/x y'",
        name="x",
        place=PLACE,
        kind="environment",
        fingerprint="sha256:aa",
        sandlot="1",
        started=0.0,
        seconds=1.0,
        seed=7,
        tasks=1,
        of_tasks=2,
        trials=3,
        verdict=verdict,
        layers=tuple(LayerReport(layer=layer, state=State.RAN, why=text) for layer in MANDATORY),
        findings=(found,),
        waived=(Waived(finding=found, waiver=waiver),),
        expired=(waiver,),
    )
    return msgspec.structs.replace(audit, **changed)


def test_an_audit_is_read_back_as_it_was(tmp_path):
    audit = an_audit()
    folder = write_audit(audit, tmp_path)
    assert read_audit("x", PLACE, tmp_path) == audit
    assert sorted(path.name for path in folder.iterdir()) == ["audit.json", "report.html", "report.md"]
    assert msgspec.json.decode(as_json(audit))["findings"][0]["id"] == audit.findings[0].id


def test_training_may_demand_an_audit_of_exactly_these_bytes(tmp_path):
    with pytest.raises(ConfigError, match="has no audit"):
        find_shipped("x", PLACE, "sha256:aa", tmp_path)
    write_audit(an_audit(), tmp_path)
    assert find_shipped("x", PLACE, "sha256:aa", tmp_path).verdict is AuditVerdict.SHIP
    with pytest.raises(ConfigError, match="has changed since it was audited"):
        find_shipped("x", PLACE, "sha256:bb", tmp_path)
    write_audit(an_audit(AuditVerdict.INCOMPLETE), tmp_path)
    with pytest.raises(ConfigError, match="says INCOMPLETE"):
        find_shipped("x", PLACE, "sha256:aa", tmp_path)


def test_an_environment_is_found_by_path_or_object_and_refused_once_it_has_changed(tmp_path):
    file = tmp_path / "add.py"
    file.write_text(ADD)
    env = load(file)
    with pytest.raises(ConfigError, match=r"`add` at .*add\.py has no audit"):
        require_audit(file, tmp_path)
    write_audit(an_audit(name="add", place=str(file), fingerprint=environment_fingerprint(env)), tmp_path)
    assert require_audit(file, tmp_path) == require_audit(env, tmp_path)
    file.write_text(ADD.replace("1 + 1", "2 + 2"))
    forget_modules(tmp_path)
    with pytest.raises(ConfigError, match="has changed since it was audited"):
        require_audit(str(file), tmp_path)


def test_two_environments_of_one_name_have_two_audits(tmp_path):
    elsewhere = an_audit(AuditVerdict.FIX, place="/elsewhere/x")
    one, other = (write_audit(audit, tmp_path) for audit in (an_audit(), elsewhere))
    assert one != other
    assert find_shipped("x", PLACE, "sha256:aa", tmp_path).verdict is AuditVerdict.SHIP
    with pytest.raises(ConfigError, match="says FIX"):
        find_shipped("x", "/elsewhere/x", "sha256:aa", tmp_path)
    with pytest.raises(ConfigError, match=r"`x` at /third/x has no audit"):
        find_shipped("x", "/third/x", "sha256:aa", tmp_path)


def test_an_audit_that_was_moved_to_the_folder_of_another_place_is_refused(tmp_path):
    folder = write_audit(an_audit(), tmp_path)
    folder.rename(folder_of("x", "/elsewhere/x", tmp_path))
    with pytest.raises(StoreError, match="is the audit of `x` at /environments/x y"):
        find_shipped("x", "/elsewhere/x", "sha256:aa", tmp_path)


def test_a_place_is_the_same_however_an_environment_is_named(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "environment.toml").write_text("")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "environment.py").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    assert {place_of(name) for name in ("one", "one/environment.py", "link", tmp_path / "one")} == {
        str(tmp_path / "one/environment.py")
    }
    assert {place_of(name) for name in ("folder", "folder/environment.toml")} == {str(tmp_path / "folder")}
    assert place_of("helpdesk") == "installed:helpdesk"


def test_a_garbled_audit_is_refused_by_its_place(tmp_path):
    folder = write_audit(an_audit(), tmp_path)
    (folder / "audit.json").write_text('{"format": 1')
    with pytest.raises(StoreError, match=r"audit\.json is not an audit"):
        read_audit("x", PLACE, tmp_path)


def test_a_name_cannot_leave_the_folder_of_audits(tmp_path):
    folder = write_audit(an_audit(name="../../etc:passwd"), tmp_path / "runs")
    assert folder.parent == tmp_path / "runs" / "audits"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)


def test_nothing_a_subject_says_becomes_markup():
    audit = an_audit(AuditVerdict.FIX, HOSTILE)
    tags = Tags()
    tags.feed(as_page(audit))
    assert "script" not in tags.seen
    text = as_markdown(audit)
    assert "\x1b" not in text
    assert not any(line.startswith(("# owned", "```")) for line in text.splitlines())


def test_the_command_that_shows_a_finding_again_is_one_a_shell_understands():
    audit = an_audit(AuditVerdict.FIX)
    assert (
        reproduce_command(audit, audit.findings[0])
        == "sandlot audit 'environments/x y' --probe hollow-answers --task task-1 --seed 7"
    )


@pytest.mark.parametrize("chosen", [(), ("--limit", "4"), ("--task", "one", "--task", "an other")])
def test_the_command_for_a_finding_about_no_single_task_plays_the_same_tasks(chosen):
    audit = msgspec.structs.replace(an_audit(AuditVerdict.FIX), chosen=chosen)
    finding = msgspec.structs.replace(audit.findings[0], task=None)
    words = shlex.join(chosen) + " " if chosen else ""
    command = reproduce_command(audit, finding)
    assert command == f"sandlot audit 'environments/x y' --probe hollow-answers {words}--seed 7"


def test_what_a_killed_audit_left_half_written_is_removed_with_the_rest(tmp_path):
    left = write_audit(an_audit(), tmp_path) / "unfinished"
    left.mkdir()
    (left / "probe.json").write_text("{}")
    (left / f"probe.json.0a1b2c3d{DRAFT}").write_text("{")
    write_audit(an_audit(), tmp_path)
    assert not left.exists()
