"""Probes that an interrupted audit has finished: believed only if this auditor wrote them for exactly this audit."""

import pytest

from sandlot.audit import unfinished
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import MANDATORY, Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.reason import declared
from sandlot.audit.subject import Description
from sandlot.audit.unfinished import UnfinishedAudit
from sandlot.audit.verdict import AuditVerdict, ProbeReport, State, verdict_of
from sandlot.core.errors import HarnessError
from sandlot.core.task import Task
from sandlot.observe.events import ignore_event
from worlds.subjects import ToySubject

FOUND = Finding(
    code="D02.echo",
    title="t",
    layer=Layer.GRADER,
    probe="of-grader",
    severity=Severity.HIGH,
    standing=Confidence.CONFIRMED,
    witness=Witness(inputs={"answer": "42"}, expected="0", observed="1"),
    reason=declared("an adversary"),
)


class Killed(BaseException):
    """What no handler catches."""


BOUND = ["sha256:aa", {"seed": 0}]


@pytest.fixture(autouse=True)
def _own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def probe(name: str = "of-grader", layer: Layer = Layer.GRADER, look=None) -> Probe:
    async def nothing(_case: Case) -> list[Finding]:
        return []

    return Probe(name=name, layer=layer, codes=("D02",), look=look or nothing)


def report(name: str = "of-grader", state: State = State.RAN) -> ProbeReport:
    return ProbeReport(name=name, state=state, codes=("D02",), findings=1, seconds=2.0, trials=7)


def test_a_finished_probe_comes_back_as_it_was(tmp_path):
    UnfinishedAudit(tmp_path, BOUND).keep(probe(), report(), [FOUND])
    kept = UnfinishedAudit(tmp_path, BOUND).recall(probe())
    assert kept is not None
    assert (kept[0].earlier, kept[0].trials, kept[1]) == (True, 7, [FOUND])


@pytest.mark.parametrize("bound", [["sha256:bb", {"seed": 0}], ["sha256:aa", {"seed": 1}]])
def test_what_another_version_or_other_options_found_is_not_believed(tmp_path, bound):
    UnfinishedAudit(tmp_path, BOUND).keep(probe(), report(), [])
    assert UnfinishedAudit(tmp_path, bound).recall(probe()) is None


@pytest.mark.parametrize("changed", ["audit/case.py", "grade/checks.py", "rollout.py"])
def test_what_another_version_of_sandlot_found_is_not_believed(tmp_path, monkeypatch, changed):
    package = tmp_path / "package"
    for name in ("audit/case.py", "grade/checks.py", "rollout.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("before")
    monkeypatch.setattr(unfinished.resources, "files", lambda name: package.joinpath(*name.split(".")[1:]))
    unfinished._own_code.cache_clear()
    UnfinishedAudit(tmp_path, BOUND).keep(probe(), report(), [])
    assert UnfinishedAudit(tmp_path, BOUND).recall(probe()) is not None
    (package / changed).write_text("after")
    unfinished._own_code.cache_clear()
    assert UnfinishedAudit(tmp_path, BOUND).recall(probe()) is None
    unfinished._own_code.cache_clear()


def test_what_a_stranger_wrote_is_not_believed(tmp_path, monkeypatch):
    with monkeypatch.context() as stranger:
        stranger.setenv("XDG_CACHE_HOME", str(tmp_path / "the stranger's"))
        UnfinishedAudit(tmp_path, BOUND).keep(probe(), report(), [])
    assert UnfinishedAudit(tmp_path, BOUND).recall(probe()) is None


def test_a_finding_taken_out_a_probe_renamed_and_half_a_file_are_not_believed(tmp_path):
    kept = UnfinishedAudit(tmp_path, BOUND)
    kept.keep(probe(), report(), [FOUND])
    (file,) = (tmp_path / "unfinished").iterdir()
    whole = file.read_bytes()
    (tmp_path / "unfinished" / "other.json").write_bytes(whole)
    assert kept.recall(probe("other")) is None
    for damaged in (whole.replace(b"D02.echo", b"D02.idle"), whole[:-40], b"", b"\n", whole.partition(b"\n")[2]):
        file.write_bytes(damaged)
        assert kept.recall(probe()) is None
    file.write_bytes(whole)
    assert kept.recall(probe()) is not None


def test_a_key_that_others_can_read_is_not_used(tmp_path):
    UnfinishedAudit(tmp_path, BOUND).keep(probe(), report(), [])
    (tmp_path / "cache/sandlot/audit.key").chmod(0o644)
    assert UnfinishedAudit(tmp_path, BOUND).recall(probe()) is None


def test_nothing_is_written_or_read_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/unfinished").symlink_to(tmp_path / "elsewhere")
    UnfinishedAudit(tmp_path / "audit", BOUND).keep(probe(), report(), [])
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("kept", "ended"),
    [
        (probe("of-model", Layer.MODEL), report("of-model")),
        (probe(), report(state=State.COULD_NOT_RUN)),
        (probe(), report(state=State.DOES_NOT_APPLY)),
    ],
)
def test_only_probes_that_ran_and_will_find_the_same_are_kept(tmp_path, kept, ended):
    UnfinishedAudit(tmp_path, BOUND).keep(kept, ended, [])
    assert UnfinishedAudit(tmp_path, BOUND).recall(kept) is None


async def test_an_interrupted_audit_runs_each_probe_once_and_comes_to_the_same_verdict(tmp_path):
    about = Description(name="e", kind="environment", fingerprint="f", tasks=(Task("a"),), has_golden=True)
    subject = ToySubject(lambda _evidence, _task: 1.0, [Task("a", key={"golden": "1"})])
    ran: list[str] = []
    stop = {"of-scripted"}

    def panel_probe(layer: Layer) -> Probe:
        async def look(_case: Case) -> list[Finding]:
            ran.append(f"of-{layer}")
            if f"of-{layer}" in stop:
                raise Killed
            return [FOUND] if layer is Layer.GRADER else []

        return probe(f"of-{layer}", layer, look)

    panel = [panel_probe(layer) for layer in MANDATORY]

    async def sitting():
        case = Case(subject=subject, description=about, tasks=about.tasks)
        return await run_probes(case, panel, AuditSelection(), ignore_event, UnfinishedAudit(tmp_path, BOUND))

    with pytest.raises(BaseExceptionGroup, match="unhandled errors"):
        await sitting()
    assert ran == ["of-static", "of-grader", "of-scripted"]
    stop.clear()
    ran.clear()
    layers, findings = await sitting()
    assert ran == ["of-scripted", "of-differential"]
    assert verdict_of(layers, findings) is AuditVerdict.FIX
    assert [each.earlier for layer in layers for each in layer.probes] == [True, True, False, False]


async def test_a_probe_that_broke_runs_again(tmp_path):
    about = Description(name="e", kind="environment", fingerprint="f", tasks=(Task("a"),))
    broken = [True]

    async def look(_case: Case) -> list[Finding]:
        if broken.pop():
            raise HarnessError("the endpoint went away")
        return []

    for expected in (State.COULD_NOT_RUN, State.RAN):
        case = Case(subject=ToySubject(lambda _e, _t: 1.0, []), description=about, tasks=about.tasks)
        memory = UnfinishedAudit(tmp_path, BOUND)
        layers, _ = await run_probes(case, [probe("s", Layer.STATIC, look)], AuditSelection(), ignore_event, memory)
        assert layers[0].state is expected
        broken.append(False)
