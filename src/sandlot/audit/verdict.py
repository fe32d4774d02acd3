"""What an audit concludes: findings, reports per probe and layer, and the verdict."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from sandlot.audit.finding import MANDATORY, Finding, Layer
from sandlot.audit.waivers import Waiver, waiver_for

FORMAT = 2


class AuditVerdict(StrEnum):
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
    verdict: AuditVerdict
    layers: tuple[LayerReport, ...]
    findings: tuple[Finding, ...] = ()
    """Gravest first."""
    waived: tuple[Waived, ...] = ()
    expired: tuple[Waiver, ...] = ()
    """Waivers whose day has passed: they waive nothing."""


def verdict_of(layers: Sequence[LayerReport], findings: Sequence[Finding]) -> AuditVerdict:
    """FIX for anything grave; else SHIP, if every mandatory layer that its kind can have ran whole."""
    if any(finding.grave for finding in findings):
        return AuditVerdict.FIX
    ran = {report.layer for report in layers if report.state in {State.RAN, State.DOES_NOT_APPLY}}
    asked_and_broken = any(report.state is State.COULD_NOT_RUN for report in layers)
    return AuditVerdict.SHIP if ran.issuperset(MANDATORY) and not asked_and_broken else AuditVerdict.INCOMPLETE


def apply_waivers(
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
