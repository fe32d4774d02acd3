"""Attention over a forest that begins with one trunk: a long prefix that all of its rows share, and that needs no mask.

The trunk is causal, and what follows it sees all of it: both are for cuDNN's kernels. Only what follows sees itself through the
forest's mask. The results of a query are one softmax in two pieces, weighed by the logarithms of their sums. No token is copied:
the trunk and the rest are each consecutive.
"""

from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from sandlot.model.nn.decoder import Attend
from sandlot.model.nn.pieces import has_cudnn, piece_kernels
from sandlot.train.forest.attention import forest_pieces
from sandlot.train.forest.forest import Forest
from sandlot.train.forest.parts import STEP

WORTH = 10_000_000
"""Pairs of tokens that need no mask from which on this is faster: weighing two pieces costs as much as a mask for so many."""


def trunk_size(forest: Forest, step: int = STEP) -> int:
    """How many tokens all rows begin with, cut to a multiple of the step, since a kernel is prepared for every size."""
    shared = np.flatnonzero(forest.last < len(forest))
    return int(shared[0]) // step * step if len(shared) else 0


def trunk_if_faster(forest: Forest, dtype: torch.dtype, width: int) -> int:
    """The size of a trunk that is worth it, if this GPU can do it; else 0."""
    size = trunk_size(forest)
    unmasked = size * size // 2 + size * (len(forest) - size)
    return size if unmasked >= WORTH and has_cudnn(dtype, width) else 0


def trunk_attention(size: int, last: Tensor) -> Attend:
    """Attention of a forest whose first `size` tokens are its trunk; `last` is of the tokens after it, counted from there.

    On a GPU, the number of tokens after the trunk must be a multiple of `attention.BLOCK`.
    """
    device = last.device
    rest = forest_pieces(last)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if device.type == "cuda" and torch.is_autocast_enabled("cuda"):
            q, k, v = (x.to(torch.get_autocast_dtype("cuda")) for x in (q, k, v))
        (q, below_q), (k, below_k), (v, below_v) = (x.tensor_split([size]) for x in (q, k, v))
        own, total = rest(below_q, below_k, below_v)
        return torch.cat(cast("Any", _Trunk).apply(q, below_q, k, v, own, total))

    return attend


class _Trunk(Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, below: Tensor, k: Tensor, v: Tensor, own: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """The trunk's results, and those of the queries `below`: what they see there, and what they have seen of their `own`."""
        kernels = piece_kernels(q.device)
        trunk = kernels.forward(_batched(q), _batched(k), _batched(v), True)  # noqa: FBT003 - torch's own order
        seen, weight = kernels.forward(_batched(below), _batched(k), _batched(v), False)  # noqa: FBT003 - as above
        out, whole = kernels.merge(_batched(own), total[None], seen, weight)
        ctx.save_for_backward(q, below, k, v, own, total, *trunk, out, whole)
        return _flat(trunk[0]), _flat(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Each piece is given the whole softmax's result and sum, which is all that it needs to know of the others."""
        q, below, k, v, own, total, trunk, trunk_total, out, whole = ctx.saved_tensors
        kernels = piece_kernels(q.device)
        keys = _batched(k), _batched(v)
        sent, sent_below = (_batched(x) for x in gradients)
        dq, dk, dv = kernels.backward(_batched(q), *keys, sent, trunk, trunk_total, True)  # noqa: FBT003 - torch's own order
        asked = kernels.backward(_batched(below), *keys, sent_below, out, whole, False)  # noqa: FBT003 - as above
        d_own, d_total = _weighing(q.device)(gradients[1], own, total, _flat(out), whole[0])
        return _flat(dq), _flat(asked[0]), _flat(dk + asked[1]), _flat(dv + asked[2]), d_own, d_total


def _weigh(sent: Tensor, own: Tensor, total: Tensor, out: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a piece and of its sum, of those of the softmax that it is a part of."""
    share = (total - whole).exp()
    d_own = sent * share.mT[..., None]
    return d_own.to(own.dtype), (d_own * (own - out)).sum(-1).mT.to(total.dtype)


@cache
def _weighing(device: torch.device) -> Any:
    return cast("Any", torch.compile)(_weigh, dynamic=True) if device.type == "cuda" else _weigh


def _batched(x: Tensor) -> Tensor:
    """`[tokens, heads, width]` as `[1, heads, tokens, width]`."""
    return x.transpose(0, 1)[None]


def _flat(x: Tensor) -> Tensor:
    return x[0].transpose(0, 1)
