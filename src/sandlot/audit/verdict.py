"""The result of an audit: findings, reports per probe and layer, and the verdict."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from sandlot.audit.attacked import Attempts
from sandlot.audit.coverage import Coverage
from sandlot.audit.effect import AuditLimits
from sandlot.audit.finding import MANDATORY, Finding, Layer
from sandlot.audit.waivers import Waiver, waiver_for

FORMAT = 3
_USUAL = AuditLimits()
_NOTHING = Coverage()
"""Nothing is known about points, so none is missing."""


class AuditVerdict(StrEnum):
    """The verdict on an environment."""

    SHIP = "SHIP"
    FIX = "FIX"
    INCOMPLETE = "INCOMPLETE"

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0, 1 or 3."""
        return {"SHIP": 0, "FIX": 1, "INCOMPLETE": 3}[self.value]


class State(StrEnum):
    """Whether a layer or probe ran."""

    RAN = "ran"
    NOT_ASKED = "not asked"
    DOES_NOT_APPLY = "does not apply"
    COULD_NOT_RUN = "could not run"
    NOT_REACHED = "not reached"
    """The budget was spent before."""


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one probe."""

    name: str
    state: State
    codes: tuple[str, ...]
    why: str = ""
    """Why it did not run; for one that did, what it left out and why that changes nothing."""
    seconds: float = 0.0
    findings: int = 0
    trials: int = 0
    """Trials of this probe; trials that several probes share count for the first one."""
    attempts: dict[str, Attempts] = {}
    """What its trials attacked."""
    earlier: bool = False
    """True if it finished before the audit was interrupted, and was not run again."""


class LayerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one layer."""

    layer: Layer
    state: State
    why: str = ""
    probes: tuple[ProbeReport, ...] = ()


class Waived(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that a waiver covers."""

    finding: Finding
    waiver: Waiver


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an audit, valid for one fingerprint of its subject."""

    format: int = FORMAT
    subject: str
    """The words of a command line that name the subject."""
    name: str
    place: str = ""
    """Where it is: an absolute path, or `installed:NAME`. Another environment with the same name has another place."""
    kind: str
    fingerprint: str
    sandlot: str
    started: float
    seconds: float
    seed: int
    tasks: int
    """Tasks that were played."""
    of_tasks: int
    chosen: tuple[str, ...] = ()
    """The words of a command line that chose them: `--limit N`, or `--task ID` for each."""
    attacker: tuple[str, ...] = ()
    """The words of a command line that replay what an attacker proposed: `--attacker file:RECORD`."""
    trials: int
    verdict: AuditVerdict
    layers: tuple[LayerReport, ...]
    coverage: Coverage = _NOTHING
    """What was attacked."""
    limits: AuditLimits = _USUAL
    """From which effect on a finding is serious."""
    findings: tuple[Finding, ...] = ()
    """Most severe first."""
    waived: tuple[Waived, ...] = ()
    expired: tuple[Waiver, ...] = ()
    """Waivers that have expired and no longer count."""
    material: dict[str, int] = {}
    """Folders that the author declares as material, so that no probe reads them as code, with their numbers of Python files."""


def verdict_of(layers: Sequence[LayerReport], findings: Sequence[Finding], coverage: Coverage = _NOTHING) -> AuditVerdict:
    """FIX if a finding is grave; else SHIP if every mandatory layer that applies ran and all points were attacked.

    Else it is INCOMPLETE.
    """
    if any(finding.grave for finding in findings):
        return AuditVerdict.FIX
    ran = {report.layer for report in layers if report.state in {State.RAN, State.DOES_NOT_APPLY}}
    asked_and_broken = any(report.state is State.COULD_NOT_RUN for report in layers)
    whole = ran.issuperset(MANDATORY) and not asked_and_broken and coverage.complete
    return AuditVerdict.SHIP if whole else AuditVerdict.INCOMPLETE


def apply_waivers(
    findings: Sequence[Finding], waivers: Sequence[Waiver], today: str
) -> tuple[list[Finding], list[Waived], list[Waiver]]:
    """The findings that remain, those that are waived, and the waivers that have expired."""
    standing: list[Finding] = []
    waived: list[Waived] = []
    for finding in findings:
        waiver = waiver_for(finding, waivers, today)
        if waiver is None:
            standing.append(finding)
        else:
            waived.append(Waived(finding=finding, waiver=waiver))
    return standing, waived, [waiver for waiver in waivers if waiver.expires < today]
