"""The pages of environments and audits over a real server: what they show, and that no request loads an environment."""

import re
from pathlib import Path

import msgspec
import pytest

import sandlot
from drive.visitor import visit
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.reason import declared
from sandlot.audit.reports.folder import place_of
from sandlot.audit.reports.formats import write_audit
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, State
from sandlot.web.site import Site, link, serve_environment

ATTACK = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
HOSTILE = f'''
from sandlot import Environment, JudgeCheck, Task

env = Environment("hostile", system={ATTACK!r}, description={ATTACK!r})

@env.tasks
def tasks(rng):
    for number in range(120):
        yield Task(id=f"task-{{number}}", prompt={ATTACK!r}, key={{"answer": "the secret key"}}, tags=({ATTACK!r},))

@env.tool
def look(world, where: str = {ATTACK!r}) -> str:
    """Look around. {ATTACK}"""
    return "x"

@env.check(points=2)
def said(evidence, task):
    return True, {ATTACK!r}

@env.solution
async def solve(agent, task):
    await agent.say({ATTACK!r})
'''


def audit_of(place: Path, fingerprint: str) -> Audit:
    witness = Witness(inputs={"answer": ATTACK}, expected="0", observed=ATTACK)
    finding = Finding(
        code="D02.exit", title=ATTACK, layer=Layer.SCRIPTED, probe="floor", severity=Severity.HIGH, standing=Confidence.CONFIRMED,
        task="task-1", check="said", witness=witness, fix=ATTACK, reason=declared(ATTACK),
    )  # fmt: skip
    lead = msgspec.structs.replace(finding, standing=Confidence.LEAD, witness=None, task=None)
    return Audit(
        subject=f"{place} '{ATTACK}'", name="hostile", place=place_of(place), kind="environment", fingerprint=fingerprint,
        sandlot="1", started=0.0, seconds=1.0, seed=3, tasks=2, of_tasks=3, trials=4, verdict=AuditVerdict.FIX,
        layers=(LayerReport(layer=Layer.STATIC, state=State.COULD_NOT_RUN, why=ATTACK),), findings=(finding, lead),
    )  # fmt: skip


@pytest.fixture
def made(tmp_path) -> Path:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    run = sandlot.run(tmp_path / "hostile.py", "scripted:golden", tasks=["task-1", "task-2"], runs=tmp_path / "runs")
    run = sandlot.Run(run.path.rename(tmp_path / "runs" / "desk"))
    write_audit(audit_of(tmp_path / "hostile.py", run.manifest.fingerprints.environment), tmp_path / "runs")
    return tmp_path / "runs"


async def test_an_environment_shows_tools_rubric_limits_tasks_and_audit_but_no_keys_and_no_markup(made):
    served = serve_environment(str(made.parent / "hostile.py"))
    async with visit(Site(made, environment=served)) as guest:
        (audit,) = (path.parent.name for path in made.glob("audits/*/audit.json"))
        for page in ("/environment", link("desk", "environment"), "/audits", f"/audit?of={audit}"):
            status, text = await guest.read(page)
            assert status == 200, text
            assert text.count("<script") == 1, "ours alone"
            assert "<img" not in text
            assert "the secret key" not in text
            if page != "/audits":
                assert "--probe floor --task task-1 --seed 3" in text
                assert "observed: &lt;script&gt;" in text
        _, text = await guest.read("/environment")
        assert re.search(r"look</b>\(where\)", text)
        assert "1 to 100 of 120" in text
        assert "task-119" not in text
        _, text = await guest.read("/environment?from=100")
        assert "task-119" in text
        _, text = await guest.read("/environment?task=TASK-77")
        assert ("1 to 1 of 1" in text, "task-77" in text) == (True, True)


async def test_an_audit_of_an_older_version_and_a_changed_environment_are_said(made):
    served = serve_environment(str(made.parent / "hostile.py"))
    write_audit(audit_of(made.parent / "hostile.py", "sha256:old"), made)
    async with visit(Site(made, environment=served)) as guest:
        _, text = await guest.read("/environment")
        assert "has changed since this audit" in text
        assert "have changed since it was loaded" not in text
        (made.parent / "hostile.py").write_text(HOSTILE + "\n# more\n")
        assert "have changed since it was loaded" in (await guest.read("/environment"))[1]


async def test_no_request_and_no_run_loads_an_environment(made):
    bomb = made.parent / "hostile.py"
    marker = made.parent / "loaded"
    bomb.write_text(f"open({str(marker)!r}, 'w').close()\n" + HOSTILE)
    async with visit(Site(made)) as guest:
        status, text = await guest.read(f"/environment?what={bomb}&env={bomb}")
        assert (status, "sandlot view ENV" in text) == (404, True)
        status, text = await guest.read(link("desk", "environment", what=str(bomb)))
        assert status == 200
        assert "look</b>" in text
    assert not marker.exists()


@pytest.mark.parametrize("name", ["..", "../desk", "%2e%2e", "/etc", "", "x" * 5000])
async def test_an_audit_that_is_not_in_the_folder_is_not_found(made, name):
    (made / "audit.json").write_text("{}")
    async with visit(Site(made)) as guest:
        assert (await guest.read(f"/audit?of={name}"))[0] == 404


async def test_damaged_audits_and_calibrations_are_said(made):
    (place,) = made.glob("audits/*/audit.json")
    place.write_text("{" + ATTACK)
    served = serve_environment(str(made.parent / "hostile.py"))
    async with visit(Site(made, environment=served)) as guest:
        for page in ("/audits", "/environment", link("desk", "environment")):
            status, text = await guest.read(page)
            assert (status, "is not an audit" in text) == (200, True)
        (made / "desk" / "calibration.json").write_text("{")
        assert (await guest.read("/environment"))[0] == 200
        status, text = await guest.read(link("desk", "environment"))
        assert (status, "calibration.json" in text) == (404, True)


async def test_the_page_of_a_run_shows_declared_limits_that_do_not_hold(tmp_path):
    env = sandlot.Environment("imported")
    env.tasks(lambda rng: [sandlot.Task("one", prompt="Go.", declared={"memory_mib": 4096, ATTACK: ATTACK})])
    env.check(points=1)(said_nothing)
    run = sandlot.run(env, "scripted:constant:done", runs=tmp_path)
    async with visit(Site(tmp_path)) as guest:
        status, text = await guest.read(link(run.path.name, "environment"))
    assert status == 200
    assert "<td>memory_mib</td><td>4096</td><td>2048</td><td>1: one</td>" in text
    assert "<img" not in text


def said_nothing(evidence):
    return True
