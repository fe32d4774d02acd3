"""Runs the probes of an audit, layer by layer."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

from sandlot.audit.budget import TimeBudget, most_telling_first
from sandlot.audit.case import Case, Probe, TrialCount, count_trials
from sandlot.audit.effect import AuditLimits, weigh
from sandlot.audit.endless import stop_endless
from sandlot.audit.finding import MANDATORY, Finding, Layer
from sandlot.audit.unfinished import UnfinishedAudit
from sandlot.audit.verdict import LayerReport, ProbeReport, State
from sandlot.core.errors import HarnessError, SandlotError, boundary
from sandlot.observe.events import ProbeBegan, ProbeEnded, Sink

_ALONE = frozenset({Layer.DIFFERENTIAL})
"""Layers whose probes run one at a time: trials of another probe in parallel would change the conditions."""
_PLAYED = frozenset({Layer.GRADER, Layer.SCRIPTED, Layer.DIFFERENTIAL})
"""Layers that take trials."""
_USUAL = AuditLimits()
_PROBE_S = 3600.0
"""Time limit of a probe. Trials have their own limits; this one is for probes that would never end."""


@dataclass(frozen=True, slots=True)
class AuditSelection:
    """Which part of an audit to run. Default: the mandatory layers."""

    layers: frozenset[Layer] = frozenset(MANDATORY)
    probes: frozenset[str] | None = None
    """Only these probes. None: all."""


async def run_probes(
    case: Case,
    probes: Sequence[Probe],
    wanted: AuditSelection,
    sink: Sink,
    memory: UnfinishedAudit | None = None,
    limits: AuditLimits = _USUAL,
    budget: TimeBudget | None = None,
    jobs: int = 2,
) -> tuple[list[LayerReport], list[Finding]]:
    """Run the wanted probes, `jobs` at a time, layer by layer. Probes in `memory` are not run again. `sink` must not raise.

    With a `budget` the most telling probes of a layer run first, and those that it does not reach are reported as such.
    What is reported does not depend on which probe ends first.
    """
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
            why = "" if layer not in wanted.layers else "none of its probes was selected" if wanted.probes else "it has no probes"
            layers.append(LayerReport(layer=layer, state=State.NOT_ASKED, why=why))
            continue
        obstacle, unsolved = _obstacle(case, layer), _lacks_golden(case, layer)
        if not obstacle and unsolved:
            mine = [probe for probe in mine if probe.without_golden]
            obstacle = "" if mine else unsolved
        known = {probe.name: kept for probe in mine if memory and (kept := memory.recall(probe))}
        if not obstacle and layer in _PLAYED and len(known) < len(mine):
            if unplayable is None:
                unplayable = await _find_obstacle(case, budget)
            if unplayable is None:  # not even golden was played
                layers.append(LayerReport(layer=layer, state=State.NOT_REACHED, why=_spent(budget)))
                continue
            obstacle = unplayable
        if obstacle:
            layers.append(LayerReport(layer=layer, state=State.COULD_NOT_RUN, why=obstacle))
            continue
        reports, found = await _run_layer(case, mine, sink, known, memory, budget, jobs)
        layers.append(_layer_report(layer, reports, budget, unsolved))
        findings += found
    return layers, weigh(findings, limits)


def _obstacle(case: Case, layer: Layer) -> str:
    """Why a layer cannot run at all; empty if it can."""
    about = case.description
    if layer is Layer.STATIC:
        return "" if about.kind == "environment" or about.sources else "its source was not found in the folders of modules"
    if about.needs_user and case.user is None:
        return "a model must play its user (`@env.persona`); name one with `--user MODEL`, such as `--user scripted:persona`"
    if about.needs_judge and case.judge is None:
        return "its rubric has judge checks, and nothing is graded without a judge; name one with `--judge MODEL`"
    return ""


def _lacks_golden(case: Case, layer: Layer) -> str:
    """Why a layer runs only the probes that need no golden solution; empty if it has one."""
    about = case.description
    if layer is Layer.STATIC or layer not in MANDATORY or about.has_golden or about.kind == "gymnasium":  # needs one probe less
        return ""
    how = "give each task a field `golden`" if about.kind == "grader" else "write one with `@env.solution`"
    return f"it has no golden solution, so nothing shows that it can be solved; {how}"


def _why_unfinished(reports: Sequence[ProbeReport]) -> str:
    """Why a layer did not run completely; empty if it did."""
    broken = next((report for report in reports if report.state is State.COULD_NOT_RUN), None)
    if broken is not None:
        return f"probe `{broken.name}`: {broken.why}"
    if all(report.state is State.DOES_NOT_APPLY for report in reports):
        return f"none of its probes applies: {reports[0].why}"
    return ""


async def _find_obstacle(case: Case, budget: TimeBudget | None) -> str | None:
    """Why the subject cannot be played; empty if it can, None if the budget ended before that was known.

    It also takes the trials that probes share: the first probe to need them would count them, and what comes first may vary.
    """
    with anyio.move_on_after(_left(budget, Layer.DIFFERENTIAL)):
        obstacle = await case.obstacle() or ""
        if not obstacle and case.description.kind != "gymnasium":
            with suppress(SandlotError):  # whoever needs them says so
                await case.idle()
        return obstacle
    return None


def _layer_report(layer: Layer, reports: Sequence[ProbeReport], budget: TimeBudget | None, unsolved: str) -> LayerReport:
    """`unsolved`: why most of its probes were left out, for want of a golden solution; else empty."""
    why = unsolved or _why_unfinished(reports)
    state = State.COULD_NOT_RUN if why else State.RAN
    missed = [report.name for report in reports if report.state is State.NOT_REACHED]
    if not why and missed:
        state, why = State.NOT_REACHED, f"{_spent(budget)} before {', '.join(f'`{name}`' for name in missed)}"
    return LayerReport(layer=layer, state=state, why=why, probes=tuple(reports))


def _left(budget: TimeBudget | None, layer: Layer) -> float:
    return math.inf if budget is None or layer is Layer.STATIC else budget.left(layer)


def _spent(budget: TimeBudget | None) -> str:
    return f"the budget of {budget.seconds:g} s was spent" if budget is not None else "no time was left"


async def _run_layer(
    case: Case,
    probes: Sequence[Probe],
    sink: Sink,
    known: Mapping[str, tuple[ProbeReport, list[Finding]]],
    memory: UnfinishedAudit | None,
    budget: TimeBudget | None,
    jobs: int,
) -> tuple[list[ProbeReport], list[Finding]]:
    reports: dict[str, ProbeReport] = {}
    found: dict[str, list[Finding]] = {}
    places = anyio.CapacityLimiter(1 if probes[0].layer in _ALONE else jobs)

    async def look(probe: Probe) -> None:
        async with places:
            if probe.name not in known:
                sink(ProbeBegan(layer=probe.layer, probe=probe.name))
            report, findings = known.get(probe.name) or await _run_within(case, probe, budget)
            reports[probe.name], found[probe.name] = report, findings
            if memory is not None:
                await anyio.to_thread.run_sync(memory.keep, probe, report, findings)
            sink(
                ProbeEnded(
                    layer=probe.layer,
                    probe=probe.name,
                    state=report.state,
                    why=report.why,
                    num_findings=report.findings,
                    seconds=report.seconds,
                    earlier=report.earlier,
                )
            )

    async with stop_endless(budget), anyio.create_task_group() as group:
        for probe in most_telling_first(probes) if budget is not None else probes:
            group.start_soon(look, probe)
    return [reports[probe.name] for probe in probes], [finding for probe in probes for finding in found[probe.name]]


async def _run_within(case: Case, probe: Probe, budget: TimeBudget | None) -> tuple[ProbeReport, list[Finding]]:
    """Run a probe in what is left of the budget."""
    left, started = _left(budget, probe.layer), time.monotonic()
    if left > 0 or probe.applies(case) is not None:
        with anyio.move_on_after(max(left, 0.0)):
            return await _run_probe(case, probe)
    seconds = time.monotonic() - started
    return ProbeReport(name=probe.name, state=State.NOT_REACHED, codes=probe.codes, why=_spent(budget), seconds=seconds), []


async def _run_probe(case: Case, probe: Probe) -> tuple[ProbeReport, list[Finding]]:
    reason = probe.applies(case)
    if reason is not None:
        return ProbeReport(name=probe.name, state=State.DOES_NOT_APPLY, codes=probe.codes, why=reason), []
    started = time.monotonic()
    counted = count_trials(probe.name)
    try:
        with boundary(HarnessError, f"probe `{probe.name}`"), anyio.fail_after(_PROBE_S):
            findings = await probe.run(case)
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
        attempts=dict(counted.attempts),
        why=_left_out(counted),
    )
    return report, findings


def _left_out(counted: TrialCount) -> str:
    """Which answers a probe did not try, and why; empty if it tried all."""
    unread = f"no check reads the answer, so {counted.spared:,} answers were not graded" if counted.spared else ""
    slow = f"grading takes long, so {counted.untried:,} answers were not tried" if counted.untried else ""
    return "; ".join(filter(None, (unread, slow)))
