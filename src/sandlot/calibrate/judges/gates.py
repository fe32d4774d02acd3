"""Gates: the limits a judge must meet before its verdicts are good enough to train on."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from sandlot.calibrate.judges.judge import Quality
from sandlot.calibrate.judges.labels import Agreement
from sandlot.core.stats.agreement import RankChange


class GateState(StrEnum):
    """Result of a gate."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    UNCALIBRATED = "uncalibrated"  # too few labels to decide


class Gates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the gates."""

    flips: float = 0.05
    """Maximum share of verdicts that change when the question is repeated, reordered or padded."""
    batched: float = 0.02
    """Maximum share of verdicts that change when several criteria are asked in one call."""
    p_value: float = 0.01
    """A change that should not matter fails the gate if verdicts lean one way with a p-value below this."""
    unreadable: float = 0.02
    """Maximum share of replies without a readable verdict."""
    canaries: float = 0.99
    """Minimum share of right answers to canaries: statements that are always true or never."""
    kappa: float = 0.6
    """Minimum agreement with people (Cohen's kappa)."""
    below_human: float = 0.1
    """How far that may be below the agreement of people with each other."""
    labelled: int = 30
    """Minimum number of labelled items for measuring agreement."""


class JudgeGate(msgspec.Struct, frozen=True, kw_only=True):
    """One gate and its result."""

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
        """All gates together: failed if one failed, else uncalibrated if one is."""
        for standing in (GateState.FAIL, GateState.UNCALIBRATED):
            if any(gate.standing is standing for gate in self.gates):
                return standing
        return GateState.PASS


def judge_gates(quality: Quality, gates: Gates) -> tuple[JudgeGate, ...]:
    """The result of every gate that was measured."""
    return (
        at_most("readable replies", quality.unreadable.value, gates.unreadable, "replies without a readable verdict"),
        at_most("repeats itself", quality.flips.value, gates.flips, "verdicts that change when the question is repeated"),
        *_unmoved_gate("order of choices", quality.order, gates.flips, gates, ("first", "last")),
        *_unmoved_gate("order of data", quality.parts, gates.flips, gates),
        *_unmoved_gate("padding", quality.padding, gates.flips, gates),
        *_unmoved_gate("several at once", quality.batched, gates.batched, gates),
        *_unmoved_gate("order of criteria", quality.shuffled, gates.flips, gates),
        at_least("canaries", quality.canaries.value, gates.canaries),
        *people_gates(quality.agreements, gates),
    )


def at_most(name: str, value: float | None, limit: float, why: str = "") -> JudgeGate:
    """A gate with an upper limit."""
    standing = GateState.UNCALIBRATED if value is None else GateState.PASS if value <= limit else GateState.FAIL
    return JudgeGate(name=name, standing=standing, value=value, limit=f"at most {limit:g}", why=why)


def at_least(name: str, value: float | None, limit: float, why: str = "") -> JudgeGate:
    """A gate with a lower limit."""
    standing = GateState.UNCALIBRATED if value is None else GateState.PASS if value >= limit else GateState.FAIL
    return JudgeGate(name=name, standing=standing, value=value, limit=f"at least {limit:g}", why=why)


def _unmoved_gate(
    name: str, probe: RankChange | None, most: float, gates: Gates, directions: tuple[str, str] = ("better", "worse")
) -> Iterator[JudgeGate]:
    """The gate of a change that should not matter, if it was measured."""
    if probe is None:
        return
    gate = at_most(name, probe.share.value, most)
    up, down = directions
    why = f"{probe.better} to {up}, {probe.worse} to {down} of {probe.asked}, p = {probe.p_value:.2g}"
    failed = probe.p_value < gates.p_value
    yield msgspec.structs.replace(gate, standing=GateState.FAIL if failed else gate.standing, why=why)


def people_gates(agreements: tuple[Agreement, ...], gates: Gates) -> Iterator[JudgeGate]:
    """Gates of agreement with people: overall and by check, compared with the agreement of people with each other."""
    for each in agreements:
        of_what = f" on `{each.check}`" if each.check else ""
        value, human = each.kappa.value, each.human.value if each.human else None
        limit = gates.kappa if human is None else max(gates.kappa, human - gates.below_human)
        why = f"{each.labelled} items; " + ("no second rater" if human is None else f"people with each other {human:.2f}")
        name = f"agrees with people{of_what}"
        gate = msgspec.structs.replace(at_least(name, value, round(limit, 4)), why=why)
        if each.labelled < gates.labelled:
            gate = msgspec.structs.replace(
                gate, standing=GateState.UNCALIBRATED, why=f"{why}; at least {gates.labelled} are needed"
            )
        yield gate
