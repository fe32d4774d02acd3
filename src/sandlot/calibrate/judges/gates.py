"""What a judge must reach before its verdicts are worth training on."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from sandlot.calibrate.judges.judge import Perturbation, Quality
from sandlot.calibrate.judges.labels import Agreement


class GateState(StrEnum):
    """How a gate came out."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    UNCALIBRATED = "uncalibrated"  # too little was labelled to say


class Gates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits."""

    flips: float = 0.05
    """Most verdicts that may differ when asked again, in another order, or padded."""
    batched: float = 0.02
    """Most verdicts that may differ when several criteria are put in one call."""
    p_value: float = 0.01
    """Below it a change that should not matter does, in one direction."""
    unreadable: float = 0.02
    """Most replies that may be no verdict."""
    canaries: float = 0.99
    """Fewest right answers to what is always true or never."""
    kappa: float = 0.6
    """Minimum agreement with people (Cohen's kappa)."""
    below_human: float = 0.1
    """How far that may lie below the agreement of people with each other."""
    labelled: int = 30
    """Fewest labelled items from which agreement is a figure at all."""


class JudgeGate(msgspec.Struct, frozen=True, kw_only=True):
    """One gate and how the judge stands before it."""

    name: str
    standing: GateState
    value: float | None
    limit: str
    why: str = ""


_Quality = TypeVar("_Quality", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Validation(Generic[_Quality]):
    """What was measured of a judge or of a simulated user, and the gates it was held to."""

    quality: _Quality
    gates: tuple[JudgeGate, ...]

    @property
    def standing(self) -> GateState:
        """All gates together: one failure fails, one unknown is unknown."""
        return overall_state(self.gates)


def judge_gates(quality: Quality, gates: Gates) -> tuple[JudgeGate, ...]:
    """Every gate that was asked for."""
    return (
        at_most("readable replies", quality.unreadable.value, gates.unreadable, "replies that are no verdict"),
        at_most("repeats itself", quality.flips.value, gates.flips, "verdicts that differ when it is asked again"),
        *_perturbation_gate("order of choices", quality.order, gates, ("first", "last")),
        *(_perturbation_gate("order of data", quality.parts, gates, ("better", "worse")) if quality.parts else ()),
        *_perturbation_gate("padding", quality.padding, gates, ("better", "worse")),
        *(
            _perturbation_gate("several at once", quality.batched, gates, ("better", "worse"), gates.batched)
            if quality.batched
            else ()
        ),
        *(_perturbation_gate("order of criteria", quality.shuffled, gates, ("better", "worse")) if quality.shuffled else ()),
        at_least("canaries", quality.canaries.value, gates.canaries),
        *people_gates(quality.agreements, gates),
    )


def overall_state(gates: tuple[JudgeGate, ...]) -> GateState:
    """All together: one failure fails, one unknown is unknown."""
    for standing in (GateState.FAIL, GateState.UNCALIBRATED):
        if any(gate.standing is standing for gate in gates):
            return standing
    return GateState.PASS


def at_most(name: str, value: float | None, limit: float, why: str = "") -> JudgeGate:
    """The gate of a figure that may not be higher."""
    standing = GateState.UNCALIBRATED if value is None else GateState.PASS if value <= limit else GateState.FAIL
    return JudgeGate(name=name, standing=standing, value=value, limit=f"at most {limit:g}", why=why)


def at_least(name: str, value: float | None, limit: float, why: str = "") -> JudgeGate:
    """The gate of a figure that may not be lower."""
    standing = GateState.UNCALIBRATED if value is None else GateState.PASS if value >= limit else GateState.FAIL
    return JudgeGate(name=name, standing=standing, value=value, limit=f"at least {limit:g}", why=why)


def _perturbation_gate(
    name: str, probe: Perturbation, gates: Gates, directions: tuple[str, str], most: float | None = None
) -> Iterator[JudgeGate]:
    gate = at_most(name, probe.share.value, gates.flips if most is None else most)
    up, down = directions
    why = f"{probe.better} to {up}, {probe.worse} to {down} of {probe.asked}, p = {probe.p_value:.2g}"
    failed = probe.p_value < gates.p_value
    yield msgspec.structs.replace(gate, standing=GateState.FAIL if failed else gate.standing, why=why)


def people_gates(agreements: tuple[Agreement, ...], gates: Gates) -> Iterator[JudgeGate]:
    """Agreement with people, all together and check by check, next to what people reach among themselves."""
    for each in agreements:
        of_what = f" on `{each.check}`" if each.check else ""
        value, human = each.kappa.value, each.human.value if each.human else None
        limit = gates.kappa if human is None else max(gates.kappa, human - gates.below_human)
        why = f"{each.labelled} items; " + ("no second rater" if human is None else f"people among themselves {human:.2f}")
        name = f"agrees with people{of_what}"
        gate = msgspec.structs.replace(at_least(name, value, round(limit, 4)), why=why)
        if each.labelled < gates.labelled:
            gate = msgspec.structs.replace(gate, standing=GateState.UNCALIBRATED, why=f"{why}; {gates.labelled} are the fewest")
        yield gate
