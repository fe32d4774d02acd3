"""What all connections of a run may hold together of messages that are coming in, so that joined workers cannot fill its memory.

A large message begins to be read when its size is free; small ones always are. They wait in order, so none waits for ever, and
one that comes too slowly while others wait ends its connection.
"""

from collections.abc import Callable

import anyio

SMALL_BYTES = 2**18
"""Messages up to this size are not counted."""
_PATIENCE_S = 60.0
_LEAST_BYTES_S = 2**20
"""Bytes a second that a message must come at while others wait."""


class ReceiveBudget:
    """The bytes that are free."""

    def __init__(self, most_bytes: int, now: Callable[[], float] = anyio.current_time) -> None:
        self._most_bytes, self._free, self._now = most_bytes, most_bytes, now
        self._turn, self._freed = anyio.Lock(), anyio.Event()

    async def take(self, size: int) -> "HeldBytes":
        """Wait until so many bytes are free."""
        async with self._turn:
            while self._free < min(size, self._most_bytes):
                self._freed = anyio.Event()
                await self._freed.wait()
            self._free -= size
        return HeldBytes(self, size, self._now() + _PATIENCE_S + size / _LEAST_BYTES_S)

    def give_back(self, size: int) -> None:
        """Free what was taken."""
        self._free += size
        self._freed.set()

    def is_late(self, until: float) -> bool:
        """True if a message keeps others waiting for longer than it may."""
        return self._turn.locked() and self._now() > until


class HeldBytes:
    """What one message holds."""

    def __init__(self, budget: ReceiveBudget, size: int, until: float) -> None:
        self._budget, self._size, self._until = budget, size, until

    @property
    def is_late(self) -> bool:
        """True if the message keeps others waiting for longer than it may."""
        return self._budget.is_late(self._until)

    def give_back(self) -> None:
        """Free it, once."""
        self._budget.give_back(self._size)
        self._size = 0
