"""The batch as a forest: every shared prefix of its rows is computed once, with the loss and the gradients of the flat batch.

Rows are sorted by their ids; each then adds to the one before only what follows their common prefix, and the tokens added, in
order, are the forest depth first. Token q sees token k exactly if `k <= q < last[k]`, and its position is its depth. Losses are
computed on the rows: a token's log-probability is gathered from the forest into every row that runs through it, and autograd sums
what flows back.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_FORWARD_AND_BACK = 3
"""Cost of a token in a forward and a backward pass; a forward pass alone costs 1."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Distinct tokens of some rows, depth first."""

    ids: Ints
    depth: Ints
    """Position of each token in its row."""
    parent: Ints
    """Index of the token before it; -1 for the first of a row."""
    last: Ints
    """Index after the end of its subtree."""
    paths: tuple[Ints, ...]
    """For each row, the indices of its tokens."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def seen(self) -> int:
        """Pairs of tokens that attention computes."""
        return int((self.depth + 1).sum())


def forest_of(rows: Sequence[NDArray[np.int32]]) -> Forest:
    """The forest of rows of ids."""
    order = _sorted(rows)
    paths: list[Ints] = [np.empty(0, np.int64)] * len(rows)
    ids: list[NDArray[np.int32]] = []
    last = np.empty(sum(map(len, rows)), np.int64)
    parent, depth = np.empty_like(last), np.empty_like(last)
    size, path, before = 0, np.empty(0, np.int64), np.empty(0, np.int32)
    for row in order:
        own = rows[row]
        shared = common_prefix(before, own)
        last[path[shared:]] = size  # this row leaves them: their subtrees end here
        fresh = np.arange(size, size + len(own) - shared)
        path = np.concatenate((path[:shared], fresh))
        depth[fresh] = np.arange(shared, len(own))
        parent[fresh] = np.where(depth[fresh] > 0, fresh - 1, -1)
        if shared and len(fresh):
            parent[fresh[0]] = path[shared - 1]
        ids.append(own[shared:])
        paths[row], before, size = path, own, size + len(fresh)
    last[path] = size
    joined = np.concatenate(ids).astype(np.int64) if ids else np.empty(0, np.int64)
    return Forest(ids=joined, depth=depth[:size], parent=parent[:size], last=last[:size], paths=tuple(paths))


def common_prefix(a: NDArray[np.int32] | Ints, b: NDArray[np.int32] | Ints) -> int:
    """Length of the common prefix of two rows, of ids or of places."""
    length = min(len(a), len(b))
    differ = np.flatnonzero(a[:length] != b[:length])
    return int(differ[0]) if len(differ) else length


@dataclass(frozen=True, slots=True)
class Cut:
    """Some of a group's rows, and how many tokens their forest has."""

    rows: tuple[int, ...]
    size: int


def cut_rows(rows: Sequence[NDArray[np.int32]], budget: int) -> list[Cut]:
    """A group's rows in few forests that fit the budget, rows that share most together; a row over the budget is alone."""
    found: list[list[int]] = []
    sizes: list[int] = []
    before = np.empty(0, np.int32)
    for row in _sorted(rows):
        added = len(rows[row]) - common_prefix(before, rows[row])
        if not found or sizes[-1] + added > budget:
            found.append([])
            sizes.append(0)
            added = len(rows[row])
        found[-1].append(row)
        sizes[-1] += added
        before = rows[row]
    return [Cut(tuple(sorted(chosen)), size) for chosen, size in zip(found, sizes, strict=True)]


def cut_if_cheaper(rows: Sequence[NDArray[np.int32]], budget: int) -> list[Cut]:
    """A group's rows cut to fit the budget, or whole if computing them depth first is less work.

    Cuts compute shared tokens again, forward and backward. Depth first computes every token forward once more, some twice.
    """
    found = cut_rows(rows, budget)
    (whole,) = cut_rows(rows, sys.maxsize) or [Cut((), 0)]
    again = sum(cut.size for cut in found) - whole.size
    return [whole] if _FORWARD_AND_BACK * again > 2 * whole.size else found


def _sorted(rows: Sequence[NDArray[np.int32]]) -> list[int]:
    """Rows sorted by their ids: each shares its longest prefix with the one before it."""
    return sorted(range(len(rows)), key=lambda row: rows[row].astype(">i4").tobytes())


def pack_numbers(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of items packed in order so that no pack is over the budget; an item over the budget is alone."""
    together: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if size > room or not together:
            together.append([])
            room = budget
        together[-1].append(number)
        room -= size
    return together
