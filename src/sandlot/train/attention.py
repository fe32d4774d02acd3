"""Attention over a forest: FlexAttention on a GPU, a dense mask on the CPU.

The block mask is built from the intervals of blocks, never from an N x N mask: key block j matters to query block i if one of its
tokens' subtrees reaches into i, and needs no looking at single tokens if it lies before i and all of its subtrees reach past i.
"""

from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from sandlot.nn.attention import forest
from sandlot.nn.decoder import Attend

BLOCK = 128
SIZES = 64
"""Kernels are compiled for each number of tokens, of which `padded` leaves fewer than this; torch would give up after eight."""


def padded(count: int) -> int:
    """The number of tokens a forest is filled up to on a GPU: one of few, and above 4,096 at most an eighth more than there are.

    Powers of two blocks up to 32, eight sizes between two powers from there on: a kernel takes seconds to compile.
    """
    blocks = max(1, -(-count // BLOCK))
    power = 1 << (blocks - 1).bit_length()
    step = power if power <= 32 else power // 16
    return -(-blocks // step) * step * BLOCK


def forest_attention(last: Tensor) -> Attend:
    """Who sees whom in a forest, by the device its tokens are on. On a GPU their number must be a multiple of `BLOCK`."""
    if last.device.type != "cuda":
        return forest(last)
    mask = block_mask(last)
    flex = _flex()

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return flex(q, k, v, block_mask=mask, enable_gqa=True)[0].transpose(0, 1)

    return attend


def block_mask(last: Tensor) -> BlockMask:
    """The mask of `k <= q < last[k]`, for any number of tokens that is a multiple of `BLOCK`."""
    ends = last.view(-1, BLOCK)
    nearest, furthest = ends.amin(1), ends.amax(1)
    number = torch.arange(len(ends), device=last.device)
    query, key = number[:, None], number[None, :]
    whole = (key < query) & (nearest[None, :] >= (query + 1) * BLOCK)
    some = (key <= query) & (furthest[None, :] > query * BLOCK) & ~whole

    def sees(_batch: Tensor, _head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < last[k])

    some_count, some_index = _ordered(some)
    whole_count, whole_index = _ordered(whole)
    return BlockMask.from_kv_blocks(
        some_count, some_index, whole_count, whole_index, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(len(last), len(last))
    )


def _ordered(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How many key blocks each query block wants, and which, those first."""
    count = wanted.sum(1).to(torch.int32)
    index = torch.argsort(wanted.to(torch.int8), dim=1, descending=True, stable=True).to(torch.int32)
    return count[None, None], index[None, None].contiguous()


@cache
def _flex() -> Any:
    torch._dynamo.config.recompile_limit = max(SIZES, torch._dynamo.config.recompile_limit)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return cast("Any", torch.compile)(flex_attention, dynamic=False)
