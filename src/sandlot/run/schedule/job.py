"""A rollout as the scheduler sees it."""

from dataclasses import dataclass
from enum import StrEnum


class Waits(StrEnum):
    """Why a rollout is not being served."""

    TURN = "turn"
    """Other rollouts come first."""
    ROOM = "room"
    """It is next, and no instance has room for its tokens."""
    TOOL = "tool"
    """A tool call is running; the model has nothing to do."""
    WINDOW = "window"
    """Starting it now could make its tokens older than the staleness bound allows."""
    PAUSED = "paused"
    """An operator paused the run."""


@dataclass(slots=True, eq=False)
class RolloutJob:
    """One rollout: what was submitted, and how far it has come."""

    index: int
    """Position in the order of submission."""
    group: int
    prompt: int
    """Tokens before the first sampled token."""
    attained: int = 0
    """Tokens sampled so far, over all turns."""
    observed: int = 0
    """Tokens that tools added to the context so far."""
    turn: int = 0
    waits: Waits | None = Waits.TURN
    """None while it is being served, and once it has ended."""
    place: int | None = None
    """The instance that holds the keys and values of its context; None if none does."""

    @property
    def context(self) -> int:
        """Tokens that must be in the cache when it is served next."""
        return self.prompt + self.observed + self.attained
