"""Gates: the limits a simulated user must meet before an agent is trained with it."""

from collections.abc import Iterator

import msgspec

from sandlot.calibrate.judges.gates import Gates, JudgeGate, at_least, at_most, people_gates
from sandlot.calibrate.users.simulator import SimulatorQuality


class SimulatorGates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the gates."""

    silent: float = 0.02
    """Maximum share of conversations without a reply."""
    flips: float = 0.05
    """Maximum share of endings that change when the conversation is repeated."""
    premature: float = 0.05
    """Maximum share of unsolved conversations that it ends."""
    missing: float = 0.05
    """Maximum share of solved conversations that it does not end."""
    unasked: float = 0.05
    """Maximum share of replies that reveal a fact without being asked."""
    verbatim: float = 0.02
    """Maximum share of replies that repeat its instructions."""
    facts: float = 0.95
    """Minimum share of facts stated correctly when asked."""
    role: float = 0.02
    """Maximum share of replies in which it speaks as the agent."""
    kappa: float = 0.6
    """Minimum agreement with people on whether the conversation ends (Cohen's kappa)."""


def simulator_gates(quality: SimulatorQuality, gates: SimulatorGates) -> Iterator[JudgeGate]:
    """The result of every gate that applies; uncalibrated where there is nothing to count."""
    yield at_most("gives a reply", quality.silent.value, gates.silent, "conversations without a reply")
    yield at_most("repeats itself", quality.flips.value, gates.flips, "endings that change when the conversation is repeated")
    yield at_most("ends too early", quality.premature.value, gates.premature, "unsolved conversations it ended")
    why = "solved conversations it did not end" if quality.missing.value is not None else "no `solved` example was answered"
    yield at_most("ends when done", quality.missing.value, gates.missing, why)
    if quality.facts.value is not None:
        yield at_least("tells what is asked", quality.facts.value, gates.facts, "facts stated correctly")
        yield at_most(
            "tells nothing unasked", quality.unasked.value, gates.unasked, "replies that reveal a fact without being asked"
        )
    yield at_most("keeps its instructions", quality.verbatim.value, gates.verbatim, "replies that repeat them")
    yield at_most("stays the user", quality.role.value, gates.role, "replies in the role of the agent")
    yield from people_gates(quality.agreements, Gates(kappa=gates.kappa))
