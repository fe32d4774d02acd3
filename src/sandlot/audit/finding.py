"""Findings of an audit, each with what reproduces it.

A finding is a *lead* until an executed trial shows it. Only a witness (inputs, expected result, observed result) makes it
*confirmed*, and only confirmed findings prevent the verdict SHIP. One that says "a wrong answer scores" also needs a reason why
that answer is wrong (`reason.py`); without it, it stays a lead.
"""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from sandlot.audit.defects import claims_wrong
from sandlot.audit.reason import Reason
from sandlot.core.types import Json


class Layer(StrEnum):
    """Cheapest first. The first four are mandatory."""

    STATIC = "static"
    GRADER = "grader"
    SCRIPTED = "scripted"
    DIFFERENTIAL = "differential"
    MODEL = "model"
    PEOPLE = "people"


MANDATORY = (Layer.STATIC, Layer.GRADER, Layer.SCRIPTED, Layer.DIFFERENTIAL)


class Severity(StrEnum):
    """The harm to a model that is trained here."""

    INFO = "info"
    LOW = "low"
    HIGH = "high"
    """The model learns something wrong, or cannot learn what is right."""
    BLOCKER = "blocker"
    """Nothing learned here can be trusted."""


GRAVE = frozenset({Severity.HIGH, Severity.BLOCKER})
"""Confirmed findings of these severities prevent the verdict SHIP."""


class Confidence(StrEnum):
    """How certain a finding is."""

    LEAD = "lead"
    CONFIRMED = "confirmed"


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs, expected and observed result of a trial: enough to repeat it."""

    inputs: Json
    expected: str
    observed: str
    seed: int = 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One defect, found by one probe."""

    code: str
    """A code of `defects.py` with the variant: `D02.exit`."""
    title: str
    """One sentence that can be understood without the code."""
    layer: Layer
    probe: str
    """The probe that found it: `sandlot audit ENV --probe NAME` repeats it."""
    severity: Severity
    standing: Confidence = Confidence.LEAD
    task: str | None = None
    check: str | None = None
    where: str | None = None
    """`file:line` in the source."""
    witness: Witness | None = None
    count: int = 1
    """Number of tasks, calls or answers that show the same; the witness shows one."""
    fix: str = ""
    reason: Reason | None = None
    """Why the answer is wrong, if the finding says that a wrong answer scores."""
    effect: float | None = None
    """If wrong work scores: the expected reward without the work, as a share, over the tasks tried. If right work is refused: the
    share of its reward that is lost. None if that was not measured."""
    paid: tuple[str, ...] = ()
    """The checks that gave points in the witness, if that is known."""
    others: tuple[Witness, ...] = ()
    """Witnesses of the other kinds of answers that the finding names, one for each."""

    def __post_init__(self) -> None:
        if self.standing is Confidence.CONFIRMED and self.witness is None:
            raise ValueError(f"finding {self.code} is confirmed without a witness; make it a lead")
        if self.standing is Confidence.CONFIRMED and self.reason is None and claims_wrong(self.code):
            raise ValueError(f"finding {self.code} is confirmed without a reason why the answer is wrong; make it a lead")

    @property
    def id(self) -> str:
        """Stable id: the same defect found again has the same id. Waivers name it."""
        said: list[Any] = [self.code, self.probe, self.task, self.check, self.where]
        return f"{self.code}-{hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:8]}"

    @property
    def grave(self) -> bool:
        """True if it prevents the verdict SHIP."""
        return self.standing is Confidence.CONFIRMED and self.severity in GRAVE


def make_finding(  # noqa: PLR0913 - the fields of a finding, all but three by keyword
    code: str,
    title: str,
    witness: Witness | None = None,
    *,
    severity: Severity = Severity.HIGH,
    sure: bool = True,
    task: str | None = None,
    check: str | None = None,
    where: str | None = None,
    count: int = 1,
    fix: str = "",
    reason: Reason | None = None,
    effect: float | None = None,
    paid: tuple[str, ...] = (),
    others: tuple[Witness, ...] = (),
) -> Finding:
    """A finding, confirmed if it has a witness and is `sure`, else a lead. `Probe.run` sets its layer and probe.

    One of a code that says "a wrong answer scores" is a lead too if it has no `reason`.
    """
    shown = sure and witness is not None and (reason is not None or not claims_wrong(code))
    return Finding(
        code=code,
        title=title,
        layer=Layer.STATIC,
        probe="",
        severity=severity,
        standing=Confidence.CONFIRMED if shown else Confidence.LEAD,
        task=task,
        check=check,
        where=where,
        witness=witness,
        count=count,
        fix=fix,
        reason=reason,
        effect=effect,
        paid=paid,
        others=others,
    )
