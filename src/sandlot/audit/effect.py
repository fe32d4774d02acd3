"""What an optimiser gains from a defect, and from it the severity.

A grader that accepts wrong work is exploited, and training collapses; one that refuses right work only slows it. Findings are
ordered so, and the severity of those with a measured effect follows from limits, which the author may state in `audit.toml`.
"""

import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.defects import claims_wrong
from sandlot.audit.finding import GRAVE, Confidence, Finding, Severity
from sandlot.core.errors import ConfigError

_UNEARNED = ("D11", "D14", "D21.always", "D21.dead")
_REFUSING = ("D13", "D15", "D22.spelling", "D09", "D06.inverted")
_SEVERITIES = (Severity.BLOCKER, Severity.HIGH, Severity.LOW, Severity.INFO)


class Direction(StrEnum):
    """On which side a grader errs. The worse comes first."""

    ACCEPTS_WRONG = "accepts wrong work"
    REFUSES_RIGHT = "refuses right work"
    OTHER = "other"


class AuditLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which effect on a finding is serious: the table `[limits]` of `audit.toml`. All are shares of the reward."""

    accepts_wrong: float = 0.02
    """Expected reward without the work, over the tasks tried, above what the author allows: from here on it is serious."""
    collapse: float = 0.5
    """The same: from here on nothing learned can be trusted."""
    refuses_right: float = 0.0
    """Expected loss of right work, over the tasks tried."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}; write a share from 0 to 1")


def read_limits(file: Path | None) -> AuditLimits:
    """The limits that an `audit.toml` states; the usual ones without it."""
    if file is None or not file.is_file():
        return AuditLimits()
    try:
        table: Any = tomllib.loads(file.read_text()).get("limits", {})
        return msgspec.convert(table, AuditLimits, strict=False)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(AuditLimits))
        raise ConfigError(f"{file}: {error}; [limits] has: {known}") from error


def direction_of(finding: Finding) -> Direction:
    """On which side the grader errs."""
    if claims_wrong(finding.code) or finding.code.startswith(_UNEARNED):
        return Direction.ACCEPTS_WRONG
    return Direction.REFUSES_RIGHT if finding.code.startswith(_REFUSING) else Direction.OTHER


def weigh(findings: Sequence[Finding], limits: AuditLimits) -> list[Finding]:
    """The findings with severities by their effects: confirmed ones first, accepted wrong work before refused right work."""
    return sorted((_weighed(finding, limits) for finding in findings), key=_order)


def _weighed(finding: Finding, limits: AuditLimits) -> Finding:
    """A measured effect below the limit is not serious. The probe's own severity is not raised, but where training collapses."""
    if finding.effect is None or finding.severity not in GRAVE:
        return finding
    accepts = direction_of(finding) is Direction.ACCEPTS_WRONG
    severity = finding.severity
    if finding.effect < (limits.accepts_wrong if accepts else limits.refuses_right):
        severity = Severity.LOW
    elif accepts and finding.effect >= limits.collapse:
        severity = Severity.BLOCKER
    return msgspec.structs.replace(finding, severity=severity)


def _order(finding: Finding) -> tuple[bool, bool, int, int, float, str, str]:
    return (
        finding.standing is Confidence.LEAD,
        finding.severity not in GRAVE,
        list(Direction).index(direction_of(finding)),
        _SEVERITIES.index(finding.severity),
        -(finding.effect or 0.0),
        finding.code,
        finding.id,
    )


def effect_line(findings: Sequence[Finding]) -> str:
    """The largest confirmed effects, in one line; empty if there are none."""
    words = {Direction.ACCEPTS_WRONG: "expected reward without the work", Direction.REFUSES_RIGHT: "loss of right work"}
    said: list[str] = []
    for direction, text in words.items():
        mine = [each for each in findings if each.standing is Confidence.CONFIRMED and direction_of(each) is direction]
        worst = max(mine, key=lambda each: each.effect or 0.0, default=None)
        if worst is not None and worst.effect:
            said.append(f"{text}: {worst.effect:.0%} ({worst.code})")
    return ", ".join(said)
