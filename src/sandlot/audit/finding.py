"""What an audit says: findings of one shape, each with what reproduces it.

A finding is a *lead* until something was executed that shows it: only a witness (what went in, what had to come out, what did)
makes it *confirmed*, and only confirmed findings keep an environment from being shipped.
"""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

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
    """What it does to a model that learns here."""

    INFO = "info"
    LOW = "low"
    HIGH = "high"
    """Teaches something wrong, or hides what is right."""
    BLOCKER = "blocker"
    """Nothing learned here can be believed."""


GRAVE = frozenset({Severity.HIGH, Severity.BLOCKER})
"""Confirmed findings of these keep an environment from being shipped."""


class Confidence(StrEnum):
    """How sure it is."""

    LEAD = "lead"
    CONFIRMED = "confirmed"


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, what had to come of it, and what did: enough to do it again."""

    inputs: Json
    expected: str
    observed: str
    seed: int = 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One flaw, as one probe saw it."""

    code: str
    """A defect of `defects.py`, with a word for the variant: `D02.exit`."""
    title: str
    """One sentence a person understands without the code."""
    layer: Layer
    probe: str
    """The probe that finds it again: `sandlot audit ENV --probe NAME`."""
    severity: Severity
    standing: Confidence = Confidence.LEAD
    task: str | None = None
    check: str | None = None
    where: str | None = None
    """`file:line`, where it is in the text."""
    witness: Witness | None = None
    count: int = 1
    """Tasks, calls or answers on which the same thing was seen; the witness shows one."""
    fix: str = ""

    def __post_init__(self) -> None:
        if self.standing is Confidence.CONFIRMED and self.witness is None:
            raise ValueError(f"finding {self.code} of `{self.probe}` is confirmed by no witness; leave it a lead")

    @property
    def id(self) -> str:
        """The same for the same flaw found again: what waivers name."""
        said: list[Any] = [self.code, self.probe, self.task, self.check, self.where]
        return f"{self.code}-{hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:8]}"

    @property
    def grave(self) -> bool:
        """True if it keeps the environment from being shipped."""
        return self.standing is Confidence.CONFIRMED and self.severity in GRAVE
