"""Attention over a forest on the CPU: tokens in spans, each span with only the keys that one of its tokens sees.

These are the tokens above its first token, and its own; nothing else before it is visible, since tokens are in depth-first order.
Rows of one task share its prompt, and rows of all tasks often share a system prompt: a micro-batch is then one tree of many short
rows, and a mask of all tokens by all tokens is mostly false. A tree that is one row is one span, with no mask but causal.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor

from sandlot.model.nn.attention import masked_attention
from sandlot.model.nn.decoder import Attend
from sandlot.train.forest.forest import Ints
from sandlot.train.forest.scores import to_tensor

SPAN = 128
"""Tokens of a span; sizes from 64 to 256 took the same time within a tenth."""
MOST_COPIED = 4
"""Each span copies the keys above it. Spans are longer where these would be more than so many times the forest's tokens."""


class Span(NamedTuple):
    """Consecutive tokens, and what they see."""

    start: int
    stop: int
    above: Ints
    """The tokens before the span that some of it sees."""
    is_row: bool
    """A whole tree that is one row, and needs no mask."""


def span_attention(last: Tensor, size: int = SPAN) -> Attend:
    """The attention of a forest; `last` is the index after the end of each token's subtree."""
    ends = last.numpy()
    spans = cut_affordably(ends, size)
    sizes = [each.stop - each.start for each in spans]
    if len(set(sizes)) <= 1 and all(each.is_row for each in spans):
        return lambda _layer, q, k, v: _equal_rows(q, k, v, len(sizes), max(sizes, default=0))
    masks = [_mask(ends, each) for each in spans]
    depths = [len(each.above) for each in spans]
    index = to_tensor(np.concatenate([each.above for each in spans]), last.device)

    def seen(x: Tensor) -> list[Tensor]:
        # Not a slice for each span: the gradient of a slice is a tensor of all tokens.
        pairs = zip(x.index_select(0, index).split_with_sizes(depths), x.split_with_sizes(sizes), strict=True)
        return [torch.cat((above, own)) if len(above) else own for above, own in pairs]

    added: list[Tensor | None] = []

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not added:  # once for all layers: each would keep its own for the backward pass
            added.extend(
                mask if mask is None else torch.zeros_like(mask, dtype=q.dtype).masked_fill_(~mask, -torch.inf) for mask in masks
            )
        each = zip(q.split_with_sizes(sizes), seen(k), seen(v), added, strict=True)
        return torch.cat([masked_attention(*given) for given in each])

    return attend


def cut_affordably(last: Ints, size: int) -> list[Span]:
    """Spans of `size` tokens, doubled until few enough keys are copied."""
    spans = cut_spans(last, size)
    while sum(len(each.above) for each in spans) > MOST_COPIED * len(last):
        size *= 2
        spans = cut_spans(last, size)
    return spans


def cut_spans(last: Ints, size: int) -> list[Span]:
    """Trees of one long row whole, and what is between them in spans of `size` tokens."""
    trees = _trees(last)
    is_row = [bool((last[start:end] == end).all()) for start, end in trees]
    if all(is_row) and len({end - start for start, end in trees}) == 1:
        return [_row(start, end) for start, end in trees]
    spans: list[Span] = []
    first = 0
    for (start, end), row in zip(trees, is_row, strict=True):
        if row and end - start >= min(size, SPAN) // 2:  # shorter ones are many, and take less time together
            spans += [*_shared_spans(last, first, start, size), _row(start, end)]
            first = end
    return [*spans, *_shared_spans(last, first, len(last), size)]


def _trees(last: Ints) -> list[tuple[int, int]]:
    """Where each tree starts and ends."""
    trees: list[tuple[int, int]] = []
    start = 0
    while start < len(last):
        trees.append((start, int(last[start])))
        start = int(last[start])
    return trees


def _shared_spans(last: Ints, first: int, end: int, size: int) -> list[Span]:
    """Whole trees, from token `first` on, in spans."""
    cuts = [(at, min(at + size, end)) for at in range(first, end, size)]
    return [Span(at, stop, np.flatnonzero(last[first:at] > at) + first, is_row=False) for at, stop in cuts]


def _row(start: int, stop: int) -> Span:
    return Span(start, stop, np.empty(0, np.int64), is_row=True)


def _mask(last: Ints, span: Span) -> Tensor | None:
    """Which of the keys above and its own each token sees; None if a causal mask says it."""
    if span.is_row:
        return None
    own = np.arange(span.start, span.stop)
    keys, queries = np.concatenate((span.above, own)), own[:, None]
    return torch.tensor((keys <= queries) & (queries < last[keys]))


def _equal_rows(q: Tensor, k: Tensor, v: Tensor, rows: int, length: int) -> Tensor:
    """Rows of one length that share nothing, computed together."""
    q, k, v = (x.view(rows, length, *x.shape[1:]).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(0, 1)
