"""Prefixes that several decoding sequences share: attention reads their keys once for all of these sequences.

Sequences share a prefix if their tables begin with the same blocks. A group of rollouts shares its prompt, and all groups of an
environment its system prompt, so trunks stand on trunks. What a sequence does not share it attends to alone.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sandlot.model.engine.seats import Rows

WORTH = 512
"""Tokens of keys that a trunk must save: for fewer, another call of attention takes longer."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Blocks that some sequences share, all of which they see whole."""

    rows: Rows
    """The sequences."""
    blocks: NDArray[np.int32]
    start: int
    """The number of blocks before it. Trunks with the same number have different sequences."""


@dataclass(frozen=True, slots=True)
class PrefixCut:
    """Sequences cut into trunks and what follows them."""

    trunks: list[SharedPrefix]
    begins: Rows
    """For each sequence, the first block of its table that is in no trunk."""


def cut_trunks(tables: NDArray[np.int32], lengths: Rows, block_size: int, worth: int = WORTH) -> PrefixCut:
    """The trunks of sequences with these tables; every sequence keeps at least its last token to itself."""
    begins = np.zeros(len(tables), np.int64)
    whole = (lengths - 1) // block_size
    if len(tables) < 2 or not whole.max(initial=0):
        return PrefixCut([], begins)
    columns = np.arange(int(whole.max()))
    # Beyond its whole blocks a table has numbers of its own, so that nothing is shared there.
    known = np.where(columns < whole[:, None], tables[:, : len(columns)], -1 - np.arange(len(tables))[:, None])
    order = np.lexsort(known.T[::-1])
    shared = np.logical_and.accumulate(known[order[:-1]] == known[order[1:]], axis=1).sum(1)
    trunks: list[SharedPrefix] = []
    left = [(0, len(order), 0)]
    while left:
        low, high, start = left.pop()
        if high - low == 1:
            begins[order[low]] = start
            continue
        common = int(shared[low : high - 1].min())
        if (high - low - 1) * (common - start) * block_size >= worth:
            trunks.append(SharedPrefix(order[low:high], tables[order[low], start:common], start))
            start = common
        cuts = [low, *(low + 1 + np.flatnonzero(shared[low : high - 1] == common)).tolist(), high]
        left += [(one, other, start) for one, other in itertools.pairwise(cuts)]
    return PrefixCut(trunks, begins)
