"""Which cached block is evicted first: the idle leaf with the lowest price.

`lru`: the one that was not used for longest. `cost`: the cheapest to compute again, among those of the same age. `turns`: by
cost too, but a block of a rollout that goes on is kept in preference to others, and one that only an ended rollout has used goes
first.
"""

from enum import StrEnum
from itertools import count
from typing import Literal, Protocol

EvictionName = Literal["lru", "cost", "turns"]


class BlockUse(StrEnum):
    """What is known about the rollouts that use a block."""

    RUNNING = "running"
    """A rollout that goes on ends with it, or with a block below it."""
    ENDED = "ended"
    """Only one rollout has used it, and it has ended."""
    OTHER = "other"


class Eviction(Protocol):
    """A rule. Prices are compared; what they are made of is up to the rule."""

    def mark(self) -> float:
        """What a block remembers of being used now."""
        ...

    def price(self, mark: float, depth: int, tokens: int, use: BlockUse) -> float:
        """The price of `tokens` tokens that follow `depth` others and were last used at `mark`."""
        ...

    def note_evicted(self, price: float) -> None:
        """A block of this price was evicted."""
        ...


class LeastRecent:
    """The block that was not used for longest goes first."""

    def __init__(self) -> None:
        self._uses = count(1)

    def mark(self) -> float:
        """The number of the use."""
        return next(self._uses)

    def price(self, mark: float, depth: int, tokens: int, use: BlockUse) -> float:  # noqa: ARG002 - only its age counts
        """Its last use."""
        return mark

    def note_evicted(self, price: float) -> None:
        """Nothing changes."""


class ByCost:
    """GreedyDual: a price is the cost of computing the block again, plus a floor.

    The floor is the price of the last evicted block when this one was last used. So blocks used after later evictions cost more,
    and an expensive block that is never used again ages. A block of a running rollout costs `running` times as much, but can
    still be evicted; one of an ended rollout costs nothing if `forget_ended`.
    """

    def __init__(self, *, attention: float = 0.0, running: float = 1.0, forget_ended: bool = False) -> None:
        """`attention` is the cost of attending to one earlier token, relative to the cost of a token's matrices."""
        self._attention = attention
        self._running = running
        self._forget_ended = forget_ended
        self._floor = 0.0

    def mark(self) -> float:
        """The floor."""
        return self._floor

    def price(self, mark: float, depth: int, tokens: int, use: BlockUse) -> float:
        """Floor and cost."""
        if use is BlockUse.ENDED and self._forget_ended:
            return 0.0
        cost = tokens * (1.0 + self._attention * (depth + tokens / 2))
        return mark + cost * (self._running if use is BlockUse.RUNNING else 1.0)

    def note_evicted(self, price: float) -> None:
        """Raise the floor."""
        self._floor = max(self._floor, price)


def eviction_named(name: EvictionName, attention: float = 0.0) -> Eviction:
    """A rule by its name; `attention` as for `ByCost`."""
    if name == "lru":
        return LeastRecent()
    if name == "cost":
        return ByCost(attention=attention)
    return ByCost(attention=attention, running=8.0, forget_ended=True)
