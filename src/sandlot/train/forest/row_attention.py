"""Attention over the rows of a forest, side by side: for forests whose rows share little.

A kernel for plain causal attention is about 1.4 times as fast per pair of tokens as one with a mask. So queries, keys and values
of the forest's tokens are gathered into rows of one length, shared tokens once for each row; after attention each token's result
is taken from the first row that contains it. Rows are padded at their ends, which causal attention never looks at.
"""

from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor
from torch.autograd import Function
from torch.nn.attention import SDPBackend, sdpa_kernel

from sandlot.model.nn.decoder import Attend
from sandlot.train.forest.forest import Forest
from sandlot.train.forest.scores import to_tensor

_FASTER = 1.5
"""Rows are used up to this many times the pairs of the forest. On an H200, plain causal attention computed 1.3 to 1.5 times as
many pairs per second as the forest's mask."""
STEP = 256
"""Rows are padded to a multiple of this: cuDNN prepares a kernel for every size."""
_KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def rows_are_faster(forest: Forest) -> bool:
    """True if attention over padded rows is less work than over the forest."""
    length = _padded_length(forest)
    return len(forest.paths) * length * length / 2 < _FASTER * forest.seen


def row_attention(forest: Forest, count: int, device: torch.device) -> Attend:
    """Attention for `count` tokens: the forest's, and padding after them, which is left out."""
    rows = RowPlaces(forest, count, device)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (cast("Tensor", cast("Any", _Gather).apply(x, rows)).transpose(1, 2) for x in (q, k, v))
        with sdpa_kernel(_KERNELS, set_priority=True):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return cast("Tensor", cast("Any", _Scatter).apply(out.transpose(1, 2), rows))

    return attend


def _padded_length(forest: Forest) -> int:
    return -(-max(map(len, forest.paths)) // STEP) * STEP


class RowPlaces:
    """Where tokens are in the rows, as indices on the device."""

    def __init__(self, forest: Forest, count: int, device: torch.device) -> None:
        paths = sorted(forest.paths, key=lambda path: int(path[-1]))
        self.shape = (len(paths), _padded_length(forest))
        self.count = count
        places = np.concatenate([np.arange(len(path)) + row * self.shape[1] for row, path in enumerate(paths)])
        tokens = np.concatenate(paths)
        index = np.zeros(self.shape[0] * self.shape[1], np.int64)
        index[places] = tokens
        self.same = len(index) == count and bool((index == np.arange(count)).all())
        """True if rows are the tokens in their own order: nothing is shared or padded."""
        _, earliest = np.unique(tokens, return_index=True)
        again = np.setdiff1d(np.arange(len(tokens)), earliest)
        self.index = to_tensor(index, device)
        self.first = to_tensor(places[earliest], device)
        """For each token of the forest, its first place."""
        self.again_from = to_tensor(places[again], device)
        """Further places of shared tokens, and which tokens they are."""
        self.again_to = to_tensor(tokens[again], device)

    def gather(self, x: Tensor) -> Tensor:
        """Tokens `[count, ...]` into rows `[rows, length, ...]`."""
        return (x if self.same else x[self.index]).view(*self.shape, *x.shape[1:])

    def scatter(self, x: Tensor, *, add: bool) -> Tensor:
        """Rows back into tokens: the first place of each, or with `add` the sum of all."""
        flat = x.flatten(0, 1)
        if self.same:
            return flat
        out = flat.new_zeros(self.count, *flat.shape[1:])
        out[: len(self.first)] = flat[self.first]
        return out.index_add_(0, self.again_to, flat[self.again_from]) if add and len(self.again_to) else out

    def spread(self, x: Tensor) -> Tensor:
        """The reverse of `scatter` without `add`: tokens into their first places, zero elsewhere."""
        if self.same:
            return x.view(*self.shape, *x.shape[1:])
        flat = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        flat[self.first] = x[: len(self.first)]
        return flat.view(*self.shape, *x.shape[1:])


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: RowPlaces) -> Tensor:
        """Tokens into rows."""
        ctx.rows = rows
        return rows.gather(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Sum over the places of each token. Padding has no gradient."""
        return ctx.rows.scatter(gradients[0], add=True), None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: RowPlaces) -> Tensor:
        """Rows into tokens."""
        ctx.rows = rows
        return rows.scatter(x, add=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Only the first place of a token was used."""
        return ctx.rows.spread(gradients[0]), None
