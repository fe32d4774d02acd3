"""The rollouts of a run that are graded: their agents have ended, and they are no longer in flight.

A rollout holds a slot while its agent acts. When its evidence is stored and its world is closed, it takes a place in the grading
queue and leaves its slot, so that slow grading does not keep the next rollout from starting. The queue is bounded: while it is
full, a rollout keeps its slot. So at most `Slots.at_once` rollouts are in flight, and at most as many are being graded.

Nothing that is graded waits for a slot, so the two cannot wait for each other.
"""

import anyio


class GradingQueue:
    """Places for rollouts that are graded; they are taken in the order in which rollouts ask for them."""

    def __init__(self, at_once: int) -> None:
        self._places = anyio.CapacityLimiter(at_once)

    @property
    def at_once(self) -> int:
        """How many rollouts may be graded at once."""
        return int(self._places.total_tokens)

    @property
    def num_grading(self) -> int:
        """Rollouts that are graded now."""
        return int(self._places.borrowed_tokens)

    @property
    def num_waiting(self) -> int:
        """Rollouts that have evidence and wait for a place; they are still in flight."""
        return self._places.statistics().tasks_waiting

    def resize(self, at_once: int) -> None:
        """Change how many may be graded at once; those that are stay."""
        self._places.total_tokens = at_once

    async def enter(self, who: object) -> None:
        """Wait for a place."""
        await self._places.acquire_on_behalf_of(who)

    def leave(self, who: object) -> None:
        """Make room for the next one."""
        self._places.release_on_behalf_of(who)
