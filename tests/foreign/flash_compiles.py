"""FlashAttention 4 compiles the forest's mask for a Hopper GPU, forward and backward. It runs nothing, so it needs no GPU."""

import pytest
import torch
from flash_attn.cute.interface import _flash_attn_bwd, flash_attn_func
from torch._subclasses.fake_tensor import FakeTensorMode

from sandlot.train.forest.attention import BLOCK
from sandlot.train.forest.flash_attention import flash_mask

TOKENS = 4 * BLOCK


@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(16, 8, 128), (9, 3, 64)], ids=["qwen3", "smollm2"])
def test_both_passes_compile(heads, kv_heads, width):
    mask = flash_mask(torch.full((TOKENS,), TOKENS))
    with FakeTensorMode():
        mask["aux_tensors"] = [on_gpu(x) for x in mask["aux_tensors"]]
        there, back = (
            lists._replace(**{name: on_gpu(x) for name, x in lists._asdict().items() if isinstance(x, torch.Tensor)})
            for lists in (mask.pop("block_sparse_tensors"), mask.pop("block_sparse_tensors_bwd"))
        )
        q, k, v = (
            torch.empty(1, TOKENS, count, width, dtype=torch.bfloat16, device="cuda") for count in (heads, kv_heads, kv_heads)
        )
        out, sums = flash_attn_func(q, k, v, **mask, block_sparse_tensors=there, return_lse=True)
        assert out.shape == q.shape
        found = _flash_attn_bwd(q, k, v, out, q, sums, **mask, block_sparse_tensors=back)
        assert [x.shape for x in found] == [q.shape, k.shape, v.shape]


def on_gpu(x):
    """A tensor of this shape on a GPU that is not there."""
    return torch.empty(x.shape, dtype=x.dtype, device="cuda")
