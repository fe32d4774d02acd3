"""Attention over whole sequences, with a mask given by one integer vector.

Tokens are in depth-first order of a forest. `last[k]` is the index after k's subtree; token q sees token k if and only if
`k <= q < last[k]`. This covers one sequence, packed documents and shared prefixes.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor

from sandlot.model.nn.decoder import Attend


def causal_attend() -> Attend:
    """Attention of one sequence."""

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return masked_attention(q, k, v, None)

    return attend


def dense_forest_attend(last: Tensor) -> Attend:
    """Attention of a forest with one mask of all tokens by all tokens: the obvious way, for tests."""
    index = torch.arange(len(last), device=last.device)
    mask = (index[None, :] <= index[:, None]) & (index[:, None] < last[None, :])

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return masked_attention(q, k, v, mask)

    return attend


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention where query i sees key j if `mask[i, j]`, or the mask is added to the scores; with no mask, if `j <= i`."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
    return out[0].transpose(0, 1)
