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
    LIMIT = "limit"
    """As many are in flight as the user allows."""
    PACE = "pace"
    """More are let in step by step; nothing is short yet."""
    MODEL = "model"
    """The model refuses requests, fails or is late."""
    QUEUE = "queue"
    """Requests wait inside the model's servers."""
    THROUGHPUT = "throughput"
    """With more at once, the model answers no faster."""
    CACHE = "cache"
    """The contexts of those in flight are expected to fill the model's cache."""
    JUDGE = "judge"
    """The judge refuses requests."""
    SANDBOX = "sandbox"
    """Worlds take several times longer to open than at first."""
    CPU = "cpu"
    """Many more threads want a processor than there are."""
    MEMORY = "memory"
    """There is no memory for one more."""
    LOOP = "loop"
    """The event loop is late."""


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
