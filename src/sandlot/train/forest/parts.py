"""A forest cut into trunks and rows, for attention kernels that know no mask.

A trunk is a long prefix that several rows share. What follows it sees all of it, so that no mask is needed; within the trunk,
and within what is left of each row, attention is plainly causal. Tokens that several rows share but that make no trunk are in
each of these rows; only the first place of a token counts.
"""

import itertools
from dataclasses import dataclass

from sandlot.train.forest.forest import Forest, Ints, common_prefix

STEP = 256
"""Default: trunks are cut, and rows padded, to a multiple of this, since a kernel is prepared for every size."""
WORTH = 4_000_000
"""Pairs of tokens that a trunk must save: below that, starting its kernels takes longer."""
_ALIKE = 0.75
"""Rows are computed together if none is shorter than this share of the longest: all are padded to it."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """Keys that all of some queries see."""

    keys: Ints
    """Tokens, in the order of their row."""
    first: int
    """The queries are `first` to `last`, without the last: everything after the trunk in its subtree."""
    last: int


@dataclass(frozen=True, slots=True)
class Parts:
    """What attention over a forest computes: rows by themselves, and trunks for what follows them."""

    rows: tuple[tuple[Ints, ...], ...]
    """Tokens of rows, in batches of rows that are padded to one length."""
    trunks: tuple[Trunk, ...]
    step: int
    """Rows are padded to a multiple of this."""

    @property
    def pairs(self) -> int:
        """Pairs of tokens that are computed, padding included."""
        causal = sum(len(batch) * self.length(batch) ** 2 // 2 for batch in self.rows)
        return causal + sum(len(trunk.keys) * (trunk.last - trunk.first) for trunk in self.trunks)

    @property
    def in_order(self) -> bool:
        """True if all rows, one after the other, are the tokens in their own order: nothing is padded, or in two rows."""
        size = 0
        for row in itertools.chain.from_iterable(self.rows):
            if len(row) % self.step or int(row[0]) != size or int(row[-1]) != size + len(row) - 1:
                return False
            size += len(row)
        return all(len(row) == self.length(batch) for batch in self.rows for row in batch)

    def length(self, batch: tuple[Ints, ...]) -> int:
        """The length that the rows of a batch are padded to."""
        return _padded(max(map(len, batch)), self.step)


def _padded(length: int, step: int) -> int:
    return -(-length // step) * step


def cut_forest(forest: Forest, *, step: int = STEP, worth: int = WORTH) -> Parts:
    """The parts of a forest. Every token is in some row, and sees the trunks above that row and what is before it in it."""
    paths = sorted(forest.paths, key=lambda path: (int(path[-1]) if len(path) else -1, len(path)))
    shared = [common_prefix(one, other) for one, other in itertools.pairwise(paths)]
    rows: list[Ints] = []
    stems: list[Ints] = []
    trunks: list[Trunk] = []
    left = [(0, len(paths), 0)] if paths else []
    while left:
        low, high, start = left.pop()
        if high - low == 1:
            rows.append(paths[low][start:])
            continue
        common = min(shared[low : high - 1])
        size = (common - start) // step * step
        if size and (high - low - 1) * size * size // 2 >= worth:
            keys = paths[low][start : start + size]
            start += size
            stems.append(keys)
            first, last = int(keys[-1]) + 1, int(forest.last[keys[-1]])
            if first < last:
                trunks.append(Trunk(keys, first, last))
        cuts = [low, *(number + 1 for number in range(low, high - 1) if shared[number] == common), high]
        left += [(one, other, start) for one, other in itertools.pairwise(cuts)]
    # Trunks are no batch with what follows them: padded to one length, neither would be the tokens in their own order.
    batches = _batches(stems, step) + _batches([row for row in rows if len(row)], step)
    return Parts(tuple(batches), tuple(trunks), step)


def _batches(rows: list[Ints], step: int) -> list[tuple[Ints, ...]]:
    """Rows of about one length together, the longest first; rows of one length in the order of their tokens."""
    found: list[list[Ints]] = []
    for row in sorted(rows, key=lambda row: (-_padded(len(row), step), int(row[-1]))):
        if not found or _padded(len(row), step) < _ALIKE * _padded(len(found[-1][0]), step):
            found.append([])
        found[-1].append(row)
    return [tuple(batch) for batch in found]
