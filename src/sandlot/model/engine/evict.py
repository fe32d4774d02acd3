"""Which idle block of the prefix tree is evicted first: the leaf with the lowest price (GreedyDual).

A price is the cost of computing the block again, plus a floor. The floor is the price of the last evicted block, taken when a
block is used. So blocks that were used after later evictions cost more, and an expensive block that is never used again ages.
"""


class ByCost:
    """Prices blocks by the cost of computing them again. A pinned block costs `pin` times as much, but can still be evicted."""

    def __init__(self, *, attention: float = 0.0, pin: float = 8.0) -> None:
        """`attention` is the cost of attending to one earlier token, relative to the cost of a token's matrices."""
        self._attention = attention
        self._pin = pin
        self._floor = 0.0

    def now(self) -> float:
        """The floor for blocks used at this moment."""
        return self._floor

    def price(self, touched: float, depth: int, tokens: int, *, pinned: bool) -> float:
        """The price of `tokens` tokens that follow `depth` others, where the floor was `touched` when they were last used."""
        cost = tokens * (1.0 + self._attention * (depth + tokens / 2))
        return touched + cost * (self._pin if pinned else 1.0)

    def note_eviction(self, price: float) -> None:
        """Raise the floor to the price of an evicted block."""
        self._floor = max(self._floor, price)
