"""The decoder alone: what is computed in another way where no gradients are wanted gives the same."""

from dataclasses import replace

import pytest
import torch

from builders.tiny_models import tiny_shape
from sandlot.model.nn.attention import dense_forest_attend
from sandlot.model.nn.decoder import Decoder


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("normalises_heads", [False, True])
def test_without_gradients_it_computes_the_same(dtype, normalises_heads):
    draw = torch.Generator().manual_seed(0)
    decoder = Decoder(replace(tiny_shape(), qk_norm=normalises_heads)).to(dtype)
    for weight in decoder.parameters():
        torch.nn.init.uniform_(weight, -0.5, 1.5, generator=draw)
    ids, positions = torch.arange(9), torch.arange(9)
    attend = dense_forest_attend(torch.full((9,), 9))
    learned = decoder(ids, positions, attend)
    with torch.inference_mode():
        sampled = decoder(ids, positions, attend)
    assert sampled.dtype == dtype
    assert learned.isfinite().all()
    torch.testing.assert_close(sampled, learned, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)
