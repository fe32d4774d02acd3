# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""Attention over a forest with FlashAttention 4 (`pip install "sandlot[flash]"`), on Hopper GPUs in half precision.

Its kernels take the forest's mask at the speed that others have without one: blocks that a query block sees whole are computed
without a mask, and blocks that it does not see are left out. They are compiled once per process, for any number of tokens, which
takes some 20 seconds.
"""

import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor

from sandlot.model.nn.attention import dense_forest_attend
from sandlot.model.nn.decoder import Attend
from sandlot.train.forest.attention import BLOCK, block_kinds, ordered_blocks

_HOPPER = 9
_TRIED = 4 * BLOCK
"""The number of tokens with which it is tried."""
_ROUNDING = 0.05
"""Half precision rounds by about a tenth of this, and a wrong mask changes four times as much."""


def flash_attention(last: Tensor) -> Attend:
    """The attention of a forest. The number of its tokens must be a multiple of `BLOCK`."""
    from flash_attn.cute.interface import flash_attn_func  # noqa: PLC0415 - an extra

    mask = flash_mask(last)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cuda"):
            q, k, v = (x.to(torch.get_autocast_dtype("cuda")) for x in (q, k, v))
        return cast("Tensor", flash_attn_func(q[None], k[None], v[None], **mask)[0][0])

    return attend


def flash_mask(last: Tensor) -> dict[str, Any]:
    """The forest's mask as FlashAttention's arguments: key blocks for each query block, and the reverse for the backward pass."""
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch  # noqa: PLC0415 - an extra

    from sandlot.train.forest.flash_sees import sees  # noqa: PLC0415 - imports that extra

    some, whole = block_kinds(torch.arange(len(last), device=last.device), last, len(last))

    def lists(some: Tensor, whole: Tensor) -> Any:
        return BlockSparseTensorsTorch(*ordered_blocks(some), *ordered_blocks(whole), block_size=(BLOCK, BLOCK))

    return {
        "mask_mod": sees,
        "aux_tensors": [last.to(torch.int32)],
        "block_sparse_tensors": lists(some, whole),
        "block_sparse_tensors_bwd": lists(some.T, whole.T),
    }


@cache
def has_flash(dtype: torch.dtype, heads: int, kv_heads: int, width: int) -> bool:
    """True if FlashAttention 4 is installed and computes such heads here. What is compiled to find out is used later."""
    halves = {torch.bfloat16, torch.float16}
    if dtype not in halves or torch.cuda.get_device_capability()[0] != _HOPPER or not _is_installed():
        return False
    try:
        _try(dtype, heads, kv_heads, width)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever another version of an optional package does
        warnings.warn(f"flash-attn-4 is installed but fails here, so slower kernels are used: {failure!r}", stacklevel=2)
        return False
    return True


def _is_installed() -> bool:
    try:
        return find_spec("flash_attn.cute") is not None
    except ImportError:  # nothing of that name, or FlashAttention 2 without what it needs
        return False


def _try(dtype: torch.dtype, heads: int, kv_heads: int, width: int) -> None:
    """Compare it with the obvious way on a trunk with two branches: another version may take the lists of blocks otherwise."""
    last = torch.full((_TRIED,), _TRIED, device="cuda")
    last[_TRIED // 3 : _TRIED // 2] = _TRIED // 2
    dice = torch.Generator("cuda").manual_seed(0)  # its own: a trial changes no later random numbers
    q, k, v, sent = (
        torch.randn(_TRIED, count, width, dtype=dtype, device="cuda", generator=dice)
        for count in (heads, kv_heads, kv_heads, heads)
    )
    given = [x.requires_grad_() for x in (q, k, v)]
    found: list[list[Tensor]] = []
    with torch.enable_grad():
        for attend in (flash_attention(last), dense_forest_attend(last)):
            out = attend(0, *given)
            found.append([out.detach(), *torch.autograd.grad(out, given, sent)])
    for ours, twin in zip(*found, strict=True):
        apart = float((ours.float() - twin.float()).norm() / twin.float().norm())
        if not apart < _ROUNDING:
            raise ValueError(f"its results differ from plain attention by {apart:.1e} of their size")
