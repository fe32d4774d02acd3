"""Attention over a forest: FlexAttention on a GPU, spans of tokens on the CPU (`span_attention.py`).

Every key is visible to an interval of queries: from itself to the end of its subtree. The block mask is built from the intervals
of blocks, never from an N x N mask: a key block matters to a query block if one of its intervals may overlap it, and needs no
mask for single tokens if all of its intervals cover it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from sandlot.model.nn.attention import masked_attention
from sandlot.model.nn.decoder import Attend
from sandlot.train.forest.layers import raise_recompile_limit
from sandlot.train.forest.span_attention import span_attention

BLOCK = 128

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries `[tokens, heads, width]`, keys and values `[others, kv_heads, width]`) -> `[tokens, heads, width]`."""
Sees = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(batch, head, query, key) -> whether the query sees the key."""


def padded_size(count: int) -> int:
    """The number of tokens that a forest is padded to on a GPU: one of few, and above 4,096 at most a sixteenth more.

    Powers of two blocks up to 32, sixteen sizes between two powers from there on: a kernel takes seconds to compile.
    """
    blocks = max(1, -(-count // BLOCK))
    power = 1 << (blocks - 1).bit_length()
    step = power if power <= 32 else power // 32
    return -(-blocks // step) * step * BLOCK


def forest_attention(last: Tensor) -> Attend:
    """The attention of a forest, for the device of its tokens. On a GPU their number must be a multiple of `BLOCK`."""
    if last.device.type != "cuda":
        return span_attention(last)

    def sees(_batch: Tensor, _head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < last[k])

    attention = _blockwise(block_mask(torch.arange(len(last), device=last.device), last, len(last), sees))
    return lambda _layer, q, k, v: attention(q, k, v)


def interval_attention(first: Tensor, last: Tensor, queries: int) -> Attention:
    """Query q sees key k exactly if `first[k] <= q < last[k]`. On a GPU both numbers must be multiples of `BLOCK`."""
    if last.device.type != "cuda":
        number = torch.arange(queries, device=last.device)[:, None]
        mask = (first <= number) & (number < last)
        return lambda q, k, v: masked_attention(q, k, v, mask)

    def sees(_batch: Tensor, _head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (first[k] <= q) & (q < last[k])

    return _blockwise(block_mask(first, last, queries, sees))


def block_mask(first: Tensor, last: Tensor, queries: int, sees: Sees) -> BlockMask:
    """The mask of `first[k] <= q < last[k]`, which is what `sees` computes."""
    some, whole = block_kinds(first, last, queries)
    return BlockMask.from_kv_blocks(
        *ordered_blocks(some), *ordered_blocks(whole), BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(queries, len(last))
    )


def block_kinds(first: Tensor, last: Tensor, queries: int) -> tuple[Tensor, Tensor]:
    """Of `[query blocks, key blocks]`, those that need a mask for single tokens, and those that are seen whole."""
    begins, ends = first.view(-1, BLOCK), last.view(-1, BLOCK)
    query = torch.arange(queries // BLOCK, device=last.device)[:, None] * BLOCK
    whole = (begins.amax(1)[None, :] <= query) & (ends.amin(1)[None, :] >= query + BLOCK)
    some = (begins.amin(1)[None, :] < query + BLOCK) & (ends.amax(1)[None, :] > query) & ~whole
    return some, whole


def _blockwise(blocks: BlockMask) -> Attention:
    flex = _flex()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return flex(q, k, v, block_mask=blocks, enable_gqa=True)[0].transpose(0, 1)

    return attend


def ordered_blocks(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """For each row of `[blocks, blocks]`, the number of wanted blocks, and their indices first."""
    count = wanted.sum(1).to(torch.int32)
    index = torch.argsort(wanted.to(torch.int8), dim=1, descending=True, stable=True).to(torch.int32)
    return count[None, None], index[None, None].contiguous()


@cache
def _flex() -> Any:
    raise_recompile_limit()
    return cast("Any", torch.compile)(flex_attention, dynamic=False)
