"""One softmax of attention computed in pieces: each piece comes with the logarithm of its sum, by which pieces are weighed.

cuDNN's kernels know no mask but causal; per pair of tokens they take about two thirds of the time of a kernel with a mask or with
blocks. It prepares a kernel for every size, which takes 40 ms, so callers use few sizes. On the CPU it is done the obvious way.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

_TRIED = 256
"""The length with which cuDNN is tried."""


class PieceKernels(NamedTuple):
    """Attention of `[rows, heads, length, width]`, with the logarithms of its sums `[rows, heads, length]`."""

    forward: Callable[..., tuple[Tensor, Tensor]]
    """(q, k, v, causal) -> result, sums."""
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]]
    """(q, k, v, gradient of the result, result, sums, causal) -> gradients of q, k and v."""
    merge: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """(result, sums, another result, its sums) -> both as one."""


def piece_kernels(device: torch.device) -> PieceKernels:
    """Those of cuDNN on a GPU (see `has_cudnn`), plain ones elsewhere."""
    return _on_gpu() if device.type == "cuda" else PieceKernels(_plain_forward, _plain_backward, merge_pieces)


@cache
def _on_gpu() -> PieceKernels:
    return PieceKernels(_cudnn_forward, _cudnn_backward, cast("Any", torch.compile)(merge_pieces, dynamic=True))


def merge_pieces(out: Tensor, total: Tensor, other: Tensor, other_total: Tensor) -> tuple[Tensor, Tensor]:
    """Two pieces `[..., width]` with their sums `[...]` as one."""
    whole = torch.logaddexp(total, other_total)
    weighed = out * (total - whole).exp()[..., None] + other * (other_total - whole).exp()[..., None]
    return weighed.to(out.dtype), whole


def attend_with_sums(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention of `[rows, heads, length, width]` on the CPU, and the logarithms of its sums; the mask is added to the scores."""
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001 - the public call gives no sums
    return cast("tuple[Tensor, Tensor]", attend(q, k, v, attn_mask=mask))


def _plain_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001 - torch's own order
    scores, shown = _scores(q, k, causal)
    total = torch.logsumexp(scores, -1)
    return torch.exp(scores - total[..., None]) @ shown(v), total


def _plain_backward(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, sent, out, total, causal = given
    scores, shown = _scores(q, k, causal)
    weights = torch.exp(scores - total[..., None])
    to_scores = weights * (sent @ shown(v).mT - (sent * out).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
    return to_scores @ shown(k), _summed(to_scores.mT @ q, k), _summed(weights.mT @ sent, v)


def _scores(q: Tensor, k: Tensor, causal: bool) -> tuple[Tensor, Callable[[Tensor], Tensor]]:  # noqa: FBT001 - as above
    def shown(x: Tensor) -> Tensor:
        return x.repeat_interleave(q.shape[1] // x.shape[1], 1)

    scores = q @ shown(k).mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores, shown


def _summed(x: Tensor, like: Tensor) -> Tensor:
    """Over the query heads of each head of `like`."""
    return x.view(x.shape[0], like.shape[1], -1, *x.shape[2:]).sum(2)


def _cudnn_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001 - as above
    attend = torch.ops.aten._scaled_dot_product_cudnn_attention  # noqa: SLF001 - the public call gives no sums
    out, total, *_ = attend(q, k, v, None, True, 0.0, causal, False)  # noqa: FBT003 - torch's own order
    return out, total.view(out.shape[:3])


def _cudnn_backward(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, sent, out, total, causal = given
    seed = torch.zeros((), dtype=torch.int64, device=q.device)  # of dropout, which there is none
    learn = torch.ops.aten._scaled_dot_product_cudnn_attention_backward  # noqa: SLF001 - as above
    sums = total.contiguous()[..., None]
    return learn(sent, q, k, v, out, sums, seed, seed, None, None, None, q.shape[2], k.shape[2], 0.0, causal)


@cache
def has_cudnn(dtype: torch.dtype, width: int) -> bool:
    """True if cuDNN computes attention of this width here: it needs half precision and a recent GPU."""
    if dtype not in {torch.bfloat16, torch.float16}:
        return False
    try:
        q, k, v = (torch.zeros(1, heads, _TRIED, width, dtype=dtype, device="cuda") for heads in (2, 1, 1))
        out, total = _cudnn_forward(q, k, v, True)  # noqa: FBT003 - torch's own order
        _cudnn_backward(q, k, v, out, out, total, True)  # noqa: FBT003 - as above
    except (RuntimeError, NotImplementedError):
        return False
    return True
