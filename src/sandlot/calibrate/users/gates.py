"""What a simulated user must reach before an agent is trained on talking to it."""

from collections.abc import Iterator

import msgspec

from sandlot.calibrate.judges.gates import Gates, JudgeGate, at_least, at_most, people_gates
from sandlot.calibrate.users.simulator import SimulatorQuality


class SimulatorGates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits."""

    silent: float = 0.02
    """Most conversations in which it may give no reply."""
    flips: float = 0.05
    """Most ends that may differ when the same is said again."""
    premature: float = 0.05
    """Most unsolved conversations it may end."""
    missing: float = 0.05
    """Most solved conversations it may not end."""
    unasked: float = 0.05
    """Maximum share of replies that tell a fact without being asked."""
    verbatim: float = 0.02
    """Most replies that may repeat its instructions."""
    facts: float = 0.95
    """Fewest facts told right when asked for."""
    role: float = 0.02
    """Most replies in which it may speak as the agent."""
    kappa: float = 0.6
    """Minimum agreement with people on the end (Cohen's kappa)."""


def simulator_gates(quality: SimulatorQuality, gates: SimulatorGates) -> tuple[JudgeGate, ...]:
    """Every gate that applies; one without anything to count is unknown, except facts where a user knows none."""
    return tuple(_gates(quality, gates))


def _gates(quality: SimulatorQuality, gates: SimulatorGates) -> Iterator[JudgeGate]:
    yield at_most("gives a reply", quality.silent.value, gates.silent, "conversations without one")
    yield at_most("repeats itself", quality.flips.value, gates.flips, "ends that differ when the same is said again")
    yield at_most("ends too early", quality.premature.value, gates.premature, "unsolved conversations it ended")
    why = "solved conversations it did not end" if quality.missing.value is not None else "no `solved` example was answered"
    yield at_most("ends when done", quality.missing.value, gates.missing, why)
    if quality.facts.value is not None:
        yield at_least("tells what is asked", quality.facts.value, gates.facts, "facts told right")
        yield at_most("tells nothing unasked", quality.unasked.value, gates.unasked, "replies with a fact that was not asked for")
    yield at_most("keeps its instructions", quality.verbatim.value, gates.verbatim, "replies that repeat them")
    yield at_most("stays the user", quality.role.value, gates.role, "replies in the role of the agent")
    yield from people_gates(quality.agreements, Gates(kappa=gates.kappa))
