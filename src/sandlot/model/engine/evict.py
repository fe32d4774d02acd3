"""Which idle block goes first: a price for every node of the prefix tree; the cheapest leaf is evicted.

A price is what it would cost to compute the block again, aged: `ByCost` is GreedyDual, where the price of the last victim is the
floor from which everything touched later starts. With equal costs that is least-recently-used.
"""

from typing import Protocol


class Eviction(Protocol):
    """Prices nodes."""

    def now(self) -> float:
        """What being touched at this moment is worth."""
        ...

    def price(self, touched: float, depth: int, tokens: int, *, pinned: bool) -> float:
        """The price of `tokens` tokens that follow `depth` others, last touched at `touched`."""
        ...

    def note_eviction(self, price: float) -> None:
        """The cheapest was evicted at this price."""
        ...


class ByCost:
    """What recomputing costs. A session that waits for a tool multiplies the price, so a pool full of pins still yields."""

    def __init__(self, *, attention: float = 0.0, pin: float = 8.0) -> None:
        self._attention = attention
        self._pin = pin
        self._floor = 0.0

    def now(self) -> float:
        """The price of the last victim."""
        return self._floor

    def price(self, touched: float, depth: int, tokens: int, *, pinned: bool) -> float:
        """Each token costs 1 for its matrices and `attention` for every token it looks back at."""
        cost = tokens * (1.0 + self._attention * (depth + tokens / 2))
        return touched + cost * (self._pin if pinned else 1.0)

    def note_eviction(self, price: float) -> None:
        """Raise the floor."""
        self._floor = max(self._floor, price)


class LeastRecent:
    """Plain LRU: costs and pins count for nothing."""

    def __init__(self) -> None:
        self._ticks = 0

    def now(self) -> float:
        """The next tick."""
        self._ticks += 1
        return float(self._ticks)

    def price(self, touched: float, depth: int, tokens: int, *, pinned: bool) -> float:  # noqa: ARG002 - plain on purpose
        """When it was last touched."""
        return touched

    def note_eviction(self, price: float) -> None:
        """Nothing ages."""
