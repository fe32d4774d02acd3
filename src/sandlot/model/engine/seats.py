# pyright: reportUnknownMemberType=false
"""Arrays with one row per running sequence, so that a step over hundreds of them needs few numpy calls.

A row holds ids, blocks and two lengths: `totals` tokens are known, and `lengths` of them are in the KV cache. The tokens in
between are to be computed; after them the next token is sampled. Decoding is the case of one token in between. Guesses at the
next tokens may stand after the known ones, for one pass.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.request import Sequence
from sandlot.model.engine.sampler import Settings
from sandlot.model.nn.mixed import AdapterWeights

Rows = NDArray[np.int64]
"""Row numbers."""

_NO_ID = -1
_NO_ADAPTER = -1


class Seats:
    """Rows for `count` sequences of up to `context` tokens."""

    def __init__(self, count: int, context: int, block_size: int) -> None:
        self.block_size = block_size
        self.context = context
        self.taken = np.zeros(count, bool)
        self.tables = np.zeros((count, -(-context // block_size)), np.int32)
        self.num_blocks = np.zeros(count, np.int64)
        self.lengths = np.zeros(count, np.int64)
        self.totals = np.zeros(count, np.int64)
        self.ends = np.zeros(count, np.int64)
        """The total at which `max_tokens` is reached."""
        self.orders = np.zeros(count, np.int64)
        self.ids = np.zeros((count, context), np.int32)
        self.logprobs = np.zeros((count, context), np.float64)
        self.versions = np.zeros((count, context), np.int32)
        self.stop_ids = np.full((count, 1), _NO_ID, np.int32)
        self.has_stop_text = np.zeros(count, bool)
        self.adapter_versions = np.full(count, _NO_ADAPTER)
        self._settings = Settings.empty(count)
        self._sequences: list[Sequence | None] = [None] * count
        self._free = list(range(count - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Rows without a sequence."""
        return len(self._free)

    def __getitem__(self, row: int) -> Sequence:
        sequence = self._sequences[row]
        assert sequence is not None, f"row {row} has no sequence"
        return sequence

    def __iter__(self) -> Iterator[Sequence]:
        return (sequence for sequence in self._sequences if sequence is not None)

    def seat(self, sequence: Sequence, blocks: list[int], cached: int) -> None:
        """Give a sequence a row and its blocks; its first `cached` tokens are in the KV cache."""
        row = sequence.seat = self._free.pop()
        request, total = sequence.request, len(sequence.ids)
        self._sequences[row] = sequence
        self.taken[row] = True
        self.tables[row, : len(blocks)] = blocks
        self.num_blocks[row] = len(blocks)
        self.lengths[row] = cached
        self.totals[row] = total
        self.ends[row] = sequence.num_prompt + request.max_tokens
        self.orders[row] = sequence.order
        self.ids[row, :total] = sequence.ids
        self.logprobs[row, sequence.num_prompt : total] = sequence.logprobs
        self.versions[row, sequence.num_prompt : total] = sequence.versions
        self._put_stop_ids(row, request.stop_ids)
        self.has_stop_text[row] = bool(request.stop)
        self.adapter_versions[row] = _NO_ADAPTER if sequence.adapter is None else sequence.adapter.version
        self._settings.put(row, request.temperature, request.top_p, request.top_k, sequence.seed)

    def unseat(self, sequence: Sequence) -> None:
        """Free a sequence's row and copy the row's content to the sequence."""
        row, first = sequence.seat, sequence.num_prompt
        total = int(self.totals[row])
        sequence.ids = self.ids[row, :total].copy()
        sequence.logprobs = self.logprobs[row, first:total].copy()
        sequence.versions = self.versions[row, first:total].copy()
        sequence.spelled = sequence.ids.tobytes()
        sequence.seat = -1
        self.taken[row] = False
        self.num_blocks[row] = 0
        self._sequences[row] = None
        self._free.append(row)

    def blocks_of(self, row: int) -> list[int]:
        """The blocks of a row in order."""
        return self.tables[row, : self.num_blocks[row]].tolist()

    def give(self, row: int, block: int) -> None:
        """Append a block to a row."""
        self.tables[row, self.num_blocks[row]] = block
        self.num_blocks[row] += 1

    def take_back(self, row: int) -> int:
        """Remove the last block of a row and return it."""
        self.num_blocks[row] -= 1
        return int(self.tables[row, self.num_blocks[row]])

    def batch(self, rows: Rows, counts: Rows, *, ahead: int = 0) -> Batch:
        """The next `counts[i]` tokens of each row; logits are wanted of its last known token, and of guesses after it.

        With `ahead`, as many tokens as that are sampled but not known here yet.
        """
        lengths, num_tokens = self.lengths[rows], int(counts.sum())
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        if num_tokens == len(rows):
            owners, positions = rows, lengths
        else:
            owners = np.repeat(rows, counts)
            positions = np.arange(num_tokens) + np.repeat(lengths - starts[:-1], counts)
        blocks, offsets = np.divmod(positions, self.block_size)
        after = lengths + counts
        widest = -(-int(after.max()) // self.block_size)
        return Batch(
            ids=torch.from_numpy(self.ids[owners, positions].astype(np.int64)),
            positions=torch.from_numpy(positions),
            slots=torch.from_numpy(self.tables[owners, blocks] * np.int64(self.block_size) + offsets),
            starts=torch.from_numpy(starts.astype(np.int32)),
            lengths=torch.from_numpy(after.astype(np.int32)),
            tables=torch.from_numpy(self.tables[rows, :widest]),
            wanted=torch.from_numpy(np.flatnonzero(positions >= self.totals[owners] + ahead - 1)),
            longest=int(counts.max()),
            adapters=self._adapters(rows),
        )

    def settings(self, rows: Rows, *, ahead: int | Rows = 0) -> Settings:
        """Sampling settings for the next token of each row, or for one `ahead` of it."""
        return self._settings.of(rows, self.totals[rows] + ahead)

    def append(self, rows: Rows, ids: NDArray[np.int64], logprobs: NDArray[np.float64], version: int) -> None:
        """Append one sampled token to each row; `version` is that of the base model."""
        at, adapted = self.totals[rows], self.adapter_versions[rows]
        self.ids[rows, at] = ids
        self.logprobs[rows, at] = logprobs
        self.versions[rows, at] = np.where(adapted == _NO_ADAPTER, version, adapted)
        self.totals[rows] += 1

    def _adapters(self, rows: Rows) -> tuple[AdapterWeights | None, ...]:
        if (self.adapter_versions[rows] == _NO_ADAPTER).all():
            return ()
        adapters = (self[row].adapter for row in rows.tolist())
        return tuple(None if adapter is None else adapter.weights for adapter in adapters)

    def _put_stop_ids(self, row: int, stop_ids: tuple[int, ...]) -> None:
        short = len(stop_ids) - self.stop_ids.shape[1]
        if short > 0:
            self.stop_ids = np.pad(self.stop_ids, ((0, 0), (0, short)), constant_values=_NO_ID)
        self.stop_ids[row] = _NO_ID
        self.stop_ids[row, : len(stop_ids)] = stop_ids
