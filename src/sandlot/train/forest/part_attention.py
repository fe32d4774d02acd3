"""Attention over a forest in parts (`parts.py`), with cuDNN's kernels, which know no mask but causal.

Per pair of tokens they take about two thirds of the time of a kernel with a mask. Results of a row and of the trunks above it
are one softmax in pieces: each piece comes with the logarithm of its sum, by which they are weighed. The backward pass of every
piece is given the whole softmax's result and sum, which is all that it needs to know of the others.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from sandlot.model.nn.decoder import Attend
from sandlot.model.nn.pieces import piece_kernels
from sandlot.train.forest.forest import Forest, Ints
from sandlot.train.forest.parts import Parts, cut_forest
from sandlot.train.forest.scores import to_tensor

_FASTER = 1.5
"""Parts are used up to this many times the pairs of the forest. On an H200, kernels without a mask computed 1.3 to 1.5 times as
many pairs per second as the forest's."""
_STARTING = 10_000_000
"""What trunks cost beside their pairs, in pairs: weighing, and the starts of more kernels."""
_GATHERING = 20_000_000
"""What it costs with them if rows are not the tokens in their own order."""
_NEVER = 1e9
"""The sum of a query that is left out: every weight it would give is 0."""


def parts_if_faster(forest: Forest, *, masks_are_slow: bool) -> Parts | None:
    """The parts of a forest, if its attention is less work that way.

    With FlashAttention 4 a mask costs next to nothing: only rows side by side are computed faster without one, by a twentieth.
    """
    parts = cut_forest(forest)
    if masks_are_slow:
        return parts if _cost(parts) < _FASTER * forest.seen else None
    return parts if parts.in_order and not parts.trunks else None


def _cost(parts: Parts) -> int:
    if not parts.trunks:
        return parts.pairs
    return parts.pairs + (_STARTING if parts.in_order else _STARTING + _GATHERING)


def part_attention(parts: Parts, count: int, device: torch.device) -> Attend:
    """Attention for `count` tokens: the forest's, and padding after them, which is left out."""
    places = Places(parts, count, device)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if device.type == "cuda" and torch.is_autocast_enabled("cuda"):
            q, k, v = (x.to(torch.get_autocast_dtype("cuda")) for x in (q, k, v))
        return cast("Tensor", cast("Any", _Attention).apply(q, k, v, places))

    return attend


class RowBatch(NamedTuple):
    """Rows that one kernel computes: `rows` x `length` places from `first` on."""

    first: int
    rows: int
    length: int

    def of(self, x: Tensor) -> Tensor:
        """Its places of all `[places, heads, ...]`, as `[rows, heads, length, ...]`."""
        own = x[self.first : self.first + self.rows * self.length]
        return own.view(self.rows, self.length, *x.shape[1:]).transpose(1, 2)


class TrunkWindow(NamedTuple):
    """A trunk on the device: its keys, and its queries, padded at their end."""

    keys: Tensor | slice
    """A slice if they are consecutive tokens, which need no copy."""
    first: int
    last: int
    length: int

    def of(self, x: Tensor, *, fill: float = 0.0) -> Tensor:
        """Its queries of all `[tokens, heads, ...]`, as `[1, heads, length, ...]`."""
        own = x[self.first : self.last]
        if len(own) < self.length:
            padded = x.new_full((self.length, *x.shape[1:]), fill)
            padded[: len(own)] = own
            own = padded
        return own.transpose(0, 1)[None]

    def seen(self, x: Tensor) -> Tensor:
        """Its keys of all `[tokens, heads, width]`, as `[1, heads, keys, width]`."""
        return x[self.keys].transpose(0, 1)[None]

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add `[keys, heads, width]` to those of all tokens."""
        if isinstance(self.keys, slice):
            sums[self.keys] += x
        else:
            sums.index_add_(0, self.keys, x)


class Places:
    """Where tokens are in the rows, and which queries and keys the trunks have, as indices on the device."""

    def __init__(self, parts: Parts, count: int, device: torch.device) -> None:
        self.count = count
        self.batches: list[RowBatch] = []
        self.windows = [
            TrunkWindow(_keys(trunk.keys, device), trunk.first, trunk.last, _window_length(trunk.last - trunk.first, parts.step))
            for trunk in parts.trunks
        ]
        places: list[np.ndarray] = []
        size = 0
        for batch in parts.rows:
            length = parts.length(batch)
            places += [np.arange(len(row)) + size + number * length for number, row in enumerate(batch)]
            self.batches.append(RowBatch(size, len(batch), length))
            size += len(batch) * length
        self.size = size
        self.same = parts.in_order
        """True if rows are the tokens in their own order, so that no indices are needed; padding may follow them."""
        if not self.same:
            self._index(parts, np.concatenate(places), device)

    def _index(self, parts: Parts, at: Ints, device: torch.device) -> None:
        """Where the tokens of all rows are, `at` these places."""
        tokens = np.concatenate([row for batch in parts.rows for row in batch])
        index = np.zeros(self.size, np.int64)
        index[at] = tokens
        earliest = np.empty(int(tokens.max()) + 1, np.int64)
        earliest[tokens[::-1]] = np.arange(len(tokens))[::-1]  # of several, the last one written stays
        again = np.ones(len(tokens), bool)
        again[earliest] = False
        self.index = to_tensor(index, device)
        self.first = to_tensor(at[earliest], device)
        """For each token of the forest, its first place."""
        self.again_from = to_tensor(at[again], device)
        """Further places of shared tokens, and which tokens they are."""
        self.again_to = to_tensor(tokens[again], device)

    def gather(self, x: Tensor) -> Tensor:
        """Tokens `[count, ...]` into places."""
        return self._own(x) if self.same else x[self.index]

    def spread(self, x: Tensor, *, fill: float = 0.0) -> Tensor:
        """Tokens into their first places, `fill` elsewhere."""
        if self.same:
            return self._own(x)
        out = x.new_full((self.size, *x.shape[1:]), fill)
        out[self.first] = x[: len(self.first)]
        return out

    def take(self, x: Tensor) -> Tensor:
        """The reverse of `spread`: the first place of each token, zero for padding."""
        if self.same and len(x) == self.count:
            return x
        own = x if self.same else x[self.first]
        out = x.new_zeros(self.count, *x.shape[1:])
        out[: len(own)] = own
        return out

    def _own(self, x: Tensor) -> Tensor:
        """Without the padding after all rows."""
        return x if len(x) == self.size else x[: self.size]

    def add_up(self, x: Tensor) -> Tensor:
        """The reverse of `gather`: the sum of all places of each token. Padding has none."""
        out = self.take(x)
        return out if self.same or not len(self.again_to) else out.index_add_(0, self.again_to, x[self.again_from])


def _keys(keys: Ints, device: torch.device) -> Tensor | slice:
    if int(keys[-1]) - int(keys[0]) == len(keys) - 1:  # tokens of a row are in rising order
        return slice(int(keys[0]), int(keys[-1]) + 1)
    return to_tensor(keys, device)


def _window_length(count: int, step: int) -> int:
    """One of few lengths: a multiple of the step, and of a thirty-second of the next power of two."""
    step = max(step, 1 << max(0, count.bit_length() - 5))
    return -(-count // step) * step


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, places: Places) -> Tensor:
        """Rows, then what their tokens see in trunks."""
        kernels = piece_kernels(q.device)
        rows = [places.gather(x) for x in (q, k, v)]
        found = [kernels.forward(*(batch.of(x) for x in rows), True) for batch in places.batches]  # noqa: FBT003 - torch's own order
        out, total = (places.take(_joined(each[part] for each in found)) for part in (0, 1))
        for window in places.windows:
            here, weight = kernels.forward(window.of(q), window.seen(k), window.seen(v), False)  # noqa: FBT003 - as above
            own = slice(window.first, window.last)
            count = window.last - window.first
            out[own], total[own] = kernels.merge(out[own], total[own], _flat(here)[:count], _flat(weight)[:count])
        ctx.places = places
        ctx.save_for_backward(q, k, v, out, total)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Every part's gradients, by the sums of the whole."""
        q, k, v, out, total = ctx.saved_tensors
        places, (sent,) = cast("Places", ctx.places), gradients
        kernels = piece_kernels(q.device)
        rows = [places.gather(x) for x in (q, k, v)]
        spread = [places.spread(sent), places.spread(out), places.spread(total, fill=_NEVER)]
        found = [
            kernels.backward(*(batch.of(x) for x in (*rows, *spread)), True)  # noqa: FBT003 - as above
            for batch in places.batches
        ]
        dq, dk, dv = (_joined(each[part] for each in found) for part in range(3))
        dq, dk, dv = places.take(dq), places.add_up(dk), places.add_up(dv)
        for window in places.windows:
            asked = (window.of(q), window.seen(k), window.seen(v), window.of(sent), window.of(out), window.of(total, fill=_NEVER))
            own_q, own_k, own_v = (_flat(x) for x in kernels.backward(*asked, False))  # noqa: FBT003 - as above
            dq[window.first : window.last] += own_q[: window.last - window.first]
            window.add_to(dk, own_k)
            window.add_to(dv, own_v)
        return dq, dk, dv, None


def _flat(x: Tensor) -> Tensor:
    """`[rows, heads, length, ...]` as `[places, heads, ...]`."""
    return x.transpose(1, 2).flatten(0, 1)


def _joined(found: Iterable[Tensor]) -> Tensor:
    """The results of all batches, as `[places, heads, ...]`."""
    flat = [_flat(each) for each in found]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
