"""Probes that hang, compute without end or die: what others found is not lost, and the same command goes on from there."""

import signal
import time

import anyio
import pytest

from sandlot.audit import endless
from sandlot.audit.budget import TimeBudget
from sandlot.audit.case import Case, Probe
from sandlot.audit.endless import stop_endless
from sandlot.audit.finding import Finding, Layer, make_finding
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.subject import Description
from sandlot.audit.unfinished import UnfinishedAudit
from sandlot.audit.verdict import State
from sandlot.core.errors import HarnessError, unwrapped
from sandlot.core.task import Task
from sandlot.observe.events import ProbeEnded, ignore_event
from worlds.subjects import ToySubject

SELECTED = AuditSelection(layers=frozenset({Layer.GRADER, Layer.SCRIPTED}))


@pytest.fixture(autouse=True)
def _soon(tmp_path, monkeypatch):
    for name in ("MOST_S", "LATE_S", "CHECK_S"):
        monkeypatch.setattr(endless, name, 0.05)
    monkeypatch.setattr(endless, "BEAT_S", 0.001)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def finds(_case: Case) -> list[Finding]:
    return [make_finding("D09.crash", "t")]


async def computes_without_end(_case: Case) -> list[Finding]:
    while True:
        pass


async def waits_without_end(_case: Case) -> list[Finding]:
    await anyio.sleep_forever()
    return []


async def fills_the_memory(_case: Case) -> list[Finding]:
    raise MemoryError


async def exits(_case: Case) -> list[Finding]:
    raise SystemExit(3)


def panel(**looks) -> tuple[Probe, ...]:
    probes = [Probe(name=name, layer=Layer.GRADER, codes=("D09",), look=look) for name, look in looks.items()]
    return (*probes, Probe(name="later", layer=Layer.SCRIPTED, codes=("D09",), look=finds))


async def sitting(probes, folder, budget=None, sink=ignore_event):
    subject = ToySubject(lambda _evidence, _task: 1.0, [Task("a", key={"golden": "1"})])
    about = Description(name="e", kind="environment", fingerprint="f", tasks=(Task("a"),), has_golden=True)
    case = Case(subject=subject, description=about, tasks=about.tasks)
    layers, findings = await run_probes(case, probes, SELECTED, sink, UnfinishedAudit(folder, ["b"]), budget=budget)
    return {each.name: each for layer in layers for each in layer.probes}, {each.probe for each in findings}


@pytest.mark.parametrize("broken", [computes_without_end, fills_the_memory, exits])
async def test_a_probe_that_never_ends_or_dies_loses_nothing_that_others_found(tmp_path, broken):
    reports, found = await sitting(panel(first=finds, broken=broken, last=finds), tmp_path)
    assert {name: report.state for name, report in reports.items() if report.state is not State.RAN} == {
        "broken": State.COULD_NOT_RUN
    }
    assert found == {"first", "last", "later"}


async def test_the_reason_says_that_it_computed_without_a_pause(tmp_path):
    reports, _ = await sitting(panel(broken=computes_without_end), tmp_path)
    assert "processor seconds without a pause" in reports["broken"].why


async def test_a_budget_stops_what_computes_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(endless, "MOST_S", 1000.0)
    budget = TimeBudget(1000.0)

    async def spends_the_budget(case: Case) -> list[Finding]:
        budget._began -= 1000.0
        return await computes_without_end(case)

    reports, found = await sitting(panel(first=finds, broken=spends_the_budget), tmp_path, budget)
    assert reports["broken"].state is State.COULD_NOT_RUN
    assert "the budget was spent" in reports["broken"].why
    assert "first" in found


async def test_the_same_audit_goes_on_with_the_probe_that_was_waiting_when_it_was_killed(tmp_path):
    with anyio.CancelScope() as scope:

        def kill(event: object) -> None:
            if isinstance(event, ProbeEnded):  # of `first`: the other one never ends
                scope.cancel()

        await sitting(panel(first=finds, waiting=waits_without_end), tmp_path, sink=kill)
    assert scope.cancelled_caught
    reports, found = await sitting(panel(first=waits_without_end, waiting=finds), tmp_path)  # `first` would wait if it ran again
    assert reports["first"].earlier
    assert found == {"first", "waiting", "later"}


async def test_a_long_computation_with_pauses_is_not_stopped():
    async with stop_endless():
        for _ in range(8):
            started = time.thread_time()
            while time.thread_time() - started < 0.02:
                pass
            await anyio.sleep(0.002)


async def test_the_handler_of_the_signal_is_taken_back():
    for _ in range(2):
        with pytest.raises(ExceptionGroup) as raised:
            async with stop_endless():
                await computes_without_end(None)  # type: ignore[arg-type]
        assert isinstance(unwrapped(raised.value), HarnessError)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
