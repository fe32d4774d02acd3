"""The pool of KV blocks, with reference counts.

A block is held by the running sequences that use it, and by the prefix tree if it is cached. It is free if it has no holder, and
*idle* if only the tree holds it; idle blocks may be evicted. `free + held` is always the whole pool.
"""

from typing import Literal

KvDtype = Literal["same", "int8", "fp8"]
"""How keys and values are stored: in the type they were computed in, or with 8 bits, as integers or floating-point numbers."""


class Blocks:
    """Reference counts over `total` block numbers."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))
        self._counts = [0] * total
        self._in_tree = [False] * total
        self.num_idle = 0
        """Blocks that only the prefix tree holds."""
        self.idled: set[int] = set()
        """Blocks that became idle since the tree's last eviction; some may be in use again."""

    @property
    def num_free(self) -> int:
        """Blocks without a holder."""
        return len(self._free)

    @property
    def num_running(self) -> int:
        """Blocks that sequences hold."""
        return self.total - len(self._free) - self.num_idle

    def is_idle(self, block: int) -> bool:
        """True if only the prefix tree holds it."""
        return self._in_tree[block] and self._counts[block] == 1

    def take(self) -> int:
        """Take a free block, which must exist."""
        block = self._free.pop()
        self._counts[block] = 1
        return block

    def hold(self, block: int) -> None:
        """Add a holder."""
        if self.is_idle(block):
            self.num_idle -= 1
        self._counts[block] += 1

    def drop(self, block: int) -> None:
        """Remove a holder; a block without holders is free."""
        self._counts[block] -= 1
        if self._counts[block] == 0:
            self._free.append(block)
        elif self.is_idle(block):
            self.num_idle += 1
            self.idled.add(block)

    def adopt(self, block: int) -> None:
        """Let the prefix tree hold it too; a sequence must hold it."""
        assert not self._in_tree[block], f"block {block} is already in the tree"
        self._in_tree[block] = True
        self._counts[block] += 1

    def disown(self, block: int) -> None:
        """Remove it from the prefix tree."""
        if self.is_idle(block):
            self.num_idle -= 1
        self._in_tree[block] = False
        self.drop(block)
