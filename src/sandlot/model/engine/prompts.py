"""Attention of prompts: long ones with cuDNN's kernels, all others with the paged one.

cuDNN does not read blocks of KV, but computes up to 1.7 times as many pairs per second. The tokens of a prompt, or of a chunk of
one, see each other causally, and everything that was computed before without a mask: two pieces of one softmax.

The device waits while a batch is prepared here. It is done with NumPy: on a machine with many cores, a small operation of torch
takes a millisecond to wake its threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.cache import Stored
from sandlot.model.engine.kernels import attend_prompts
from sandlot.model.nn.pieces import merge_pieces, piece_kernels

LONG = 512
"""Tokens of a prompt from which cuDNN is faster."""
STEP = 256
"""Prompts are padded to a multiple of this: cuDNN prepares a kernel for every size, which takes 40 ms."""
BEFORE = 1024
"""What was computed before a chunk must be a multiple of this, for the same reason. Chunks of one long prompt usually are."""
_WASTE = 1.25
"""Padding may add this factor to the pairs of a prompt."""
_ROWS = 128
"""Rows of a tile of the paged kernel: queries times heads per KV head."""


@dataclass(frozen=True, slots=True)
class LongPrompts:
    """Sequences of a batch that one call computes: as many tokens each, after padding, and as many before them."""

    numbers: tuple[int, ...]
    length: int
    """Tokens of each in this pass, padded."""
    before: int
    """Tokens of each before this pass; then there is one sequence."""


def find_long(
    counts: Sequence[int], lengths: Sequence[int], *, long: int = LONG, step: int = STEP, before: int = BEFORE
) -> list[LongPrompts]:
    """The long ones of sequences with so many tokens in this pass, and so many in all.

    Equal ones are together, in powers of two, so that there are few sizes.
    """
    found: dict[tuple[int, int, int], list[int]] = {}
    for number, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        padded, earlier = -(-count // step) * step, length - count
        if count >= long and earlier % before == 0 and padded**2 <= _WASTE * count**2:
            found.setdefault((padded, earlier, number if earlier else -1), []).append(number)
    return [
        LongPrompts(tuple(numbers[first : first + size]), padded, earlier)
        for (padded, earlier, _), numbers in found.items()
        for first, size in _powers(len(numbers))
    ]


def as_ints(x: Tensor) -> list[int]:
    """The numbers of a tensor in host memory."""
    return cast("list[int]", x.tolist())  # pyright: ignore[reportUnknownMemberType] - the stubs lack its type


def _powers(count: int) -> list[tuple[int, int]]:
    """(first, size) of powers of two that add up to a number, the largest first."""
    sizes = [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


class PromptAttention:
    """The attention of one batch, for all layers."""

    def __init__(self, batch: Batch, group: int, device: torch.device, long: Sequence[LongPrompts]) -> None:
        """`batch` is in host memory; `group` heads share a KV head."""
        first = as_ints(batch.starts)
        counts = [end - start for start, end in pairwise(first)]
        taken = {number for each in long for number in each.numbers}
        rest = np.array([0 if number in taken else count for number, count in enumerate(counts)])
        self._long = [_Rows(each, first, counts, batch.tables, device) for each in long]
        self._tiles = _to_device(_tiles(rest, _ROWS // group), device)
        self._starts = batch.starts.to(device, non_blocking=True)
        self._lengths = batch.lengths.to(device, non_blocking=True)
        self._tables = batch.tables.to(device, non_blocking=True)
        self.wants_keys = bool(self._long)
        """Whether `attend` needs the keys of this pass beside those in the cache."""

    def attend(self, q: Tensor, k: Tensor | None, v: Tensor, keys: Stored, values: Stored) -> Tensor:
        """Attention of `q`, with keys and values of this pass, and a layer's cache of all."""
        found = [] if k is None else [(rows, rows.attend(q, k, v, keys, values)) for rows in self._long]
        if found and found[0][0].is_all_of(q):
            return found[0][1]
        out = torch.empty_like(q)
        for rows, own in found:
            rows.put(own, out)
        if len(self._tiles):
            attend_prompts(q, keys, values, self._tables, self._lengths, self._starts, self._tiles, _ROWS, out)
        return out


class _Rows:
    """Long prompts on the device."""

    def __init__(
        self, prompts: LongPrompts, first: Sequence[int], counts: Sequence[int], tables: Tensor, device: torch.device
    ) -> None:
        self.shape = rows, length = len(prompts.numbers), prompts.length
        starts, sizes = (np.array([each[number] for number in prompts.numbers]) for each in (first, counts))
        self.first = int(starts[0])
        self.adjacent = bool((sizes == length).all() and (starts == self.first + length * np.arange(rows)).all())
        """True if these are tokens in their own order, without padding; then they need no indices."""
        self.before = prompts.before
        self.table = tables[prompts.numbers[0]].long().to(device, non_blocking=True) if self.before else None
        if self.adjacent:
            return
        along = np.arange(length)
        own = along < sizes[:, None]
        # Padding repeats the last token: no query before it sees it, and its values are finite.
        index = starts[:, None] + np.minimum(along, sizes[:, None] - 1)
        self.index, self.places, self.tokens = (_to_device(x, device) for x in (index, np.flatnonzero(own), index[own]))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keys: Stored, values: Stored) -> Tensor:
        """The attention of these rows, `[rows * length, heads, width]`."""
        kernels = piece_kernels(q.device)
        asked, *own = (self._of(x) for x in (q, k, v))
        here, total = kernels.forward(asked, *own, True)  # noqa: FBT003 - torch's own order
        if self.before:
            seen = (self._earlier(cache, q.dtype) for cache in (keys, values))
            here, _ = merge_pieces(here, total, *kernels.forward(asked, *seen, False))  # noqa: FBT003 - as above
        return here.transpose(1, 2).flatten(0, 1)

    def is_all_of(self, q: Tensor) -> bool:
        """Whether its rows are all of these tokens, in their order."""
        return self.adjacent and self.first == 0 and self.shape[0] * self.shape[1] == len(q)

    def put(self, found: Tensor, out: Tensor) -> None:
        """Write what `attend` returned to the tokens' own places."""
        if self.adjacent:
            out[self.first : self.first + len(found)] = found
        else:
            out[self.tokens] = found[self.places]

    def _of(self, x: Tensor) -> Tensor:
        """Its places of `[tokens, heads, width]`, as `[rows, heads, length, width]`."""
        rows, length = self.shape
        own = x[self.first : self.first + rows * length].view(rows, length, *x.shape[1:]) if self.adjacent else x[self.index]
        return own.transpose(1, 2)

    def _earlier(self, cache: Stored, dtype: torch.dtype) -> Tensor:
        """Keys or values before this pass, as `[1, kv_heads, before, width]`."""
        heads, size = cache.numbers.shape[1:3]
        assert self.table is not None, "only a chunk with tokens before it reads the cache"
        blocks = self.table[: -(-self.before // size)]
        rows = (blocks * heads + torch.arange(heads, device=blocks.device)[:, None]).flatten()
        return cache.read(rows, dtype).view(1, heads, -1, cache.numbers.shape[3])[:, :, : self.before]


def _tiles(counts: NDArray[np.int64], queries: int) -> NDArray[np.int32]:
    """Pairs (sequence, first query) that cover so many queries of each sequence."""
    each = -(-counts // queries)
    sequence = np.repeat(np.arange(len(counts)), each)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(each) - each, each)
    return np.stack((sequence, number * queries), axis=1).astype(np.int32)


def _to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    return cast("Any", torch).from_numpy(array).to(device, non_blocking=True)
