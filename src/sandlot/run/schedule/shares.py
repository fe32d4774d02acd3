"""How room for rollouts in flight is divided between runs that go on at once.

Need is what a run still has to do, in seconds of one place: its rollouts left times the mean seconds of those that have ended,
times its weight. Each run's share of the room is its share of all need, so that all end at about the same time: a run with long
rollouts has more of them in flight. A fixed division lets its last ones run alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_PRIOR = 4.0
"""A run's mean counts like those of the others until about this many of its own rollouts have ended."""


@dataclass(slots=True)
class Demand:
    """What one run asks for."""

    weight: float = 1.0
    """How much its need counts: with 2, it gets twice the room, and ends earlier."""
    left: int = 0
    """Rollouts of the run's plan that have not started."""
    unplanned: int = 0
    """Other rollouts that wait to start: of a training, or tried again after grading failed."""
    in_flight: int = 0
    ended: int = 0
    seconds: float = 0.0
    """Of all rollouts that have ended, together."""

    def note_ended(self, seconds: float) -> None:
        """A rollout has ended after so many seconds."""
        self.ended += 1
        self.seconds += seconds


def targets(demands: Sequence[Demand], room: int) -> list[float]:
    """How many rollouts each run should have in flight; together as many as there is room for."""
    needs = [
        demand.weight * (demand.left + demand.unplanned + demand.in_flight) * seconds
        for demand, seconds in zip(demands, _means(demands), strict=True)
    ]
    whole = sum(needs)
    return [room * need / whole if whole else 0.0 for need in needs]


def choose_run(demands: Sequence[Demand], waiting: Sequence[int], room: int) -> int:
    """Of the runs in which a rollout waits to start, the one that is furthest below its target; the first of equals."""
    wanted = targets(demands, room)
    return max(waiting, key=lambda number: (wanted[number] - demands[number].in_flight, -number))


def _means(demands: Sequence[Demand]) -> list[float]:
    """Seconds of a rollout of each run; of one that has hardly begun, drawn towards those of all."""
    known = [demand.seconds / demand.ended for demand in demands if demand.ended]
    overall = sum(known) / len(known) if known else 1.0
    return [(demand.seconds + _PRIOR * overall) / (demand.ended + _PRIOR) for demand in demands]
