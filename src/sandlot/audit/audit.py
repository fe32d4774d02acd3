"""An audit, from a subject to a verdict: layers cheapest first, every probe of each, and what they found.

The verdict is SHIP only if every mandatory layer ran and nothing grave was confirmed. A probe that breaks, a layer of which no
probe applies, a judge or a golden solution that is missing leave it INCOMPLETE: what was not looked at is not clean. Only a layer
that nothing of the subject's kind can have may be missing, and the report says so.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

import anyio
import msgspec

from sandlot.audit.case import Case, Probe, count_trials
from sandlot.audit.finding import MANDATORY, Finding, Layer, Severity, Standing
from sandlot.audit.waivers import Waiver, waiver_for
from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.core.task import Task

FORMAT = 2
PROBES_AT_ONCE = 2
ALONE = frozenset({Layer.DIFFERENTIAL})
"""Layers whose probes take turns: rollouts of another probe, in another process, would be a condition nobody asked for."""
PLAYED = frozenset({Layer.GRADER, Layer.SCRIPTED, Layer.DIFFERENTIAL})
"""Layers that take trials."""
PROBE_S = 3600.0
"""A probe that takes longer has failed. Trials have their own limits: this one only ends what would never end."""


class Verdict(StrEnum):
    """What to do with the environment."""

    SHIP = "SHIP"
    FIX = "FIX"
    INCOMPLETE = "INCOMPLETE"

    @property
    def exit_code(self) -> int:
        """0, 1 or 3."""
        return {"SHIP": 0, "FIX": 1, "INCOMPLETE": 3}[self.value]


class State(StrEnum):
    """How a layer or probe came out."""

    RAN = "ran"
    NOT_ASKED = "not asked"
    DOES_NOT_APPLY = "does not apply"
    COULD_NOT_RUN = "could not run"


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One probe's work."""

    name: str
    state: State
    codes: tuple[str, ...]
    why: str = ""
    seconds: float = 0.0
    findings: int = 0
    trials: int = 0
    """Taken by this probe; those that several probes share count for the first that asked."""
    earlier: bool = False
    """Finished before the audit was interrupted, and not run again."""


class LayerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's work."""

    layer: Layer
    state: State
    why: str = ""
    probes: tuple[ProbeReport, ...] = ()


class Waived(msgspec.Struct, frozen=True, kw_only=True):
    """A finding somebody answers for."""

    finding: Finding
    waiver: Waiver


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an audit found out, bound to what it looked at."""

    format: int = FORMAT
    subject: str
    """What was named on the command line, as a shell takes it."""
    name: str
    place: str = ""
    """Where it lies: an absolute path, or `installed:NAME`. Another environment of the same name has another place."""
    kind: str
    fingerprint: str
    sandlot: str
    started: float
    seconds: float
    seed: int
    tasks: int
    """Played."""
    of_tasks: int
    trials: int
    verdict: Verdict
    layers: tuple[LayerReport, ...]
    findings: tuple[Finding, ...] = ()
    """Gravest first."""
    waived: tuple[Waived, ...] = ()
    expired: tuple[Waiver, ...] = ()
    """Waivers whose day has passed: they waive nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of an audit to run; by default all that needs no model."""

    layers: frozenset[Layer] = frozenset(MANDATORY)
    probes: frozenset[str] | None = None
    """Only these: to see one finding again."""


Watch = Callable[[Probe, ProbeReport | None], None]
"""Called when a probe starts (without a report) and when it has ended."""


class ProbeMemory(Protocol):
    """Remembers finished probes, so that an interrupted audit can continue."""

    def recall(self, probe: Probe) -> tuple[ProbeReport, list[Finding]] | None:
        """What an earlier sitting of the same audit found; None if the probe has to run."""
        ...

    def keep(self, probe: Probe, report: ProbeReport, findings: Sequence[Finding]) -> None:
        """Remember a probe that has ended."""
        ...


async def examine(
    case: Case, probes: Sequence[Probe], wanted: Wanted, watch: Watch, memory: ProbeMemory | None = None
) -> tuple[list[LayerReport], list[Finding]]:
    """Run every wanted probe, a few at a time, layer by layer; what `memory` has is not run again."""
    layers: list[LayerReport] = []
    findings: list[Finding] = []
    unplayable: str | None = None
    for layer in Layer:
        if layer in wanted.layers and layer in case.description.inapplicable:
            why = case.description.inapplicable[layer]
            layers.append(LayerReport(layer=layer, state=State.DOES_NOT_APPLY, why=why))
            continue
        mine = [probe for probe in probes if probe.layer is layer and (wanted.probes is None or probe.name in wanted.probes)]
        if layer not in wanted.layers or not mine:
            why = "" if layer not in wanted.layers else "no probe of it was asked for" if wanted.probes else "it has no probes"
            layers.append(LayerReport(layer=layer, state=State.NOT_ASKED, why=why))
            continue
        obstacle = _obstacle(case, layer)
        known = {probe.name: kept for probe in mine if memory and (kept := memory.recall(probe))}
        if not obstacle and layer in PLAYED and len(known) < len(mine):
            unplayable = await case.obstacle() or "" if unplayable is None else unplayable
            obstacle = unplayable
        if obstacle:
            layers.append(LayerReport(layer=layer, state=State.COULD_NOT_RUN, why=obstacle))
            continue
        reports, found = await _run(case, mine, watch, known, memory)
        why = _unfinished(reports)
        state = State.COULD_NOT_RUN if why else State.RAN
        layers.append(LayerReport(layer=layer, state=state, why=why, probes=tuple(reports)))
        findings += found
    return layers, sorted(findings, key=_gravity)


def verdict_of(layers: Sequence[LayerReport], findings: Sequence[Finding]) -> Verdict:
    """FIX for anything grave; else SHIP, if every mandatory layer that its kind can have ran whole."""
    if any(finding.grave for finding in findings):
        return Verdict.FIX
    ran = {report.layer for report in layers if report.state in {State.RAN, State.DOES_NOT_APPLY}}
    asked_and_broken = any(report.state is State.COULD_NOT_RUN for report in layers)
    return Verdict.SHIP if ran.issuperset(MANDATORY) and not asked_and_broken else Verdict.INCOMPLETE


def separate(
    findings: Sequence[Finding], waivers: Sequence[Waiver], today: str
) -> tuple[list[Finding], list[Waived], list[Waiver]]:
    """Findings that stand, those that are waived, and waivers that no longer count."""
    standing: list[Finding] = []
    waived: list[Waived] = []
    for finding in findings:
        waiver = waiver_for(finding, waivers, today)
        if waiver is None:
            standing.append(finding)
        else:
            waived.append(Waived(finding=finding, waiver=waiver))
    return standing, waived, [waiver for waiver in waivers if waiver.expires < today]


def chosen_tasks(tasks: Sequence[Task], most: int, seed: int) -> tuple[Task, ...]:
    """All of them, or a seeded choice that keeps their order."""
    if len(tasks) <= most:
        return tuple(tasks)
    kept = set(Random(seed).sample(range(len(tasks)), most))  # noqa: S311 - seeded, not secret
    return tuple(task for place, task in enumerate(tasks) if place in kept)


def _gravity(finding: Finding) -> tuple[bool, int, str, str]:
    order = (Severity.BLOCKER, Severity.HIGH, Severity.LOW, Severity.INFO)
    return (finding.standing is Standing.LEAD, order.index(finding.severity), finding.code, finding.id)


def _obstacle(case: Case, layer: Layer) -> str:
    """Why a layer cannot be run at all; nothing if it can."""
    about = case.description
    if layer is Layer.STATIC:
        return "" if about.kind == "environment" or about.sources else "its text lies nowhere that modules are looked for"
    if about.needs_user and case.user is None:
        return "a model has to play its user (`@env.persona`); name one with `--user MODEL`, such as `--user scripted:persona`"
    if about.needs_judge and case.judge is None:
        return "its rubric has judge checks, and without a judge nothing is graded; give one with `--judge MODEL`"
    if layer in MANDATORY and not about.has_golden and about.kind != "gymnasium":  # whose probes need none, but for one
        return "it has no golden solution, so nothing shows that it can be solved; write one with `@env.solution`"
    return ""


def _unfinished(reports: Sequence[ProbeReport]) -> str:
    """Why a layer did not run whole; nothing if it did."""
    broken = next((report for report in reports if report.state is State.COULD_NOT_RUN), None)
    if broken is not None:
        return f"probe `{broken.name}`: {broken.why}"
    if all(report.state is State.DOES_NOT_APPLY for report in reports):
        return f"none of its probes applies: {reports[0].why}"
    return ""


async def _run(
    case: Case,
    probes: Sequence[Probe],
    watch: Watch,
    known: Mapping[str, tuple[ProbeReport, list[Finding]]],
    memory: ProbeMemory | None,
) -> tuple[list[ProbeReport], list[Finding]]:
    reports: dict[str, ProbeReport] = {}
    found: dict[str, list[Finding]] = {}
    places = anyio.CapacityLimiter(1 if probes[0].layer in ALONE else PROBES_AT_ONCE)

    async def look(probe: Probe) -> None:
        async with places:
            if probe.name not in known:
                watch(probe, None)
            report, findings = known.get(probe.name) or await _look(case, probe)
            reports[probe.name], found[probe.name] = report, findings
            if memory is not None:
                await anyio.to_thread.run_sync(memory.keep, probe, report, findings)
            watch(probe, report)

    async with anyio.create_task_group() as group:
        for probe in probes:
            group.start_soon(look, probe)
    return [reports[probe.name] for probe in probes], [finding for probe in probes for finding in found[probe.name]]


async def _look(case: Case, probe: Probe) -> tuple[ProbeReport, list[Finding]]:
    reason = probe.applies(case)
    if reason is not None:
        return ProbeReport(name=probe.name, state=State.DOES_NOT_APPLY, codes=probe.codes, why=reason), []
    started = time.monotonic()
    counted = count_trials()
    try:
        with boundary(HarnessError, f"probe `{probe.name}`"), anyio.fail_after(PROBE_S):
            findings = await probe.look(case)
    except SandlotError as error:
        seconds = time.monotonic() - started
        why = str(error)
        return ProbeReport(name=probe.name, state=State.COULD_NOT_RUN, codes=probe.codes, why=why, seconds=seconds), []
    report = ProbeReport(
        name=probe.name,
        state=State.RAN,
        codes=probe.codes,
        seconds=time.monotonic() - started,
        findings=len(findings),
        trials=counted.trials,
    )
    return report, findings
