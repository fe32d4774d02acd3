import copy

import pytest
import torch
from torch import nn

from fakes.peer_models import logits
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.layout import put_weights, weights_of
from sandlot.model.nn.lora import add_adapters
from sandlot.model.nn.packed import PackedLinear, can_add_in_fp32, can_pack, pack_linears
from sandlot.model.nn.shape import Shape

IDS = torch.tensor([5, 17, 9, 3, 0, 42, 42, 7])
SHAPE = Shape(
    family="qwen2", vocabulary=64, hidden=32, layers=2, heads=4, kv_heads=2, head=8, mlp=48, context=64, tied=True, qkv_bias=True
)  # fmt: skip


def drawn(seed: int, dtype: torch.dtype) -> Decoder:
    torch.manual_seed(seed)
    return Decoder(SHAPE).to(dtype)


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return bool((ours - theirs).abs().max() <= 0.02 * theirs.abs().max())


def test_packed_layers_say_the_same():
    plain, quick = drawn(1, torch.bfloat16), pack_linears(drawn(1, torch.bfloat16))
    assert same(logits(quick, IDS), logits(plain, IDS))
    assert list(quick.state_dict()) == list(plain.state_dict())
    assert quick.head.weight is quick.embedding.weight


@pytest.mark.skipif(not can_pack(torch.zeros(512, 512)), reason="fp32 layers are packed on x86-64 only")
@torch.no_grad()
def test_a_copy_packs_its_own_weights():
    first, given = PackedLinear(nn.Linear(512, 600)), torch.randn(8, 512)
    before = first(given)
    second = copy.deepcopy(first)
    second.weight.zero_()
    torch.testing.assert_close(second(given), second.bias.expand(8, -1))
    assert torch.equal(first(given), before)


def test_new_weights_are_packed_anew():
    quick, other = pack_linears(drawn(1, torch.bfloat16)), drawn(2, torch.bfloat16)
    before = logits(quick, IDS)
    with torch.inference_mode():
        put_weights(quick, weights_of(other))
    assert same(logits(quick, IDS), logits(other, IDS))
    assert not same(before, logits(other, IDS))


def test_a_weight_with_other_memory_is_packed_anew():
    quick, other = pack_linears(drawn(1, torch.bfloat16)), drawn(2, torch.bfloat16)
    logits(quick, IDS)
    for mine, theirs in zip(quick.parameters(), other.parameters(), strict=True):
        mine.data = theirs.data
    assert same(logits(quick, IDS), logits(other, IDS))


def test_learning_goes_around_the_packed_weights():
    quick = pack_linears(drawn(1, torch.bfloat16))
    quick(IDS, torch.arange(len(IDS)), lambda _layer, q, _k, _v: q).sum().backward()
    assert quick.blocks[0].qkv.weight.grad is not None


def test_small_layers_in_fp32_and_other_types_are_left_as_they_are():
    for dtype in (torch.float32, torch.float64, torch.float16):
        assert type(pack_linears(drawn(1, dtype)).blocks[0].qkv) is torch.nn.Linear


@pytest.mark.skipif(not can_pack(torch.zeros(512, 512)), reason="fp32 layers are packed on x86-64 only")
@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 7, 33])
def test_large_layers_in_fp32_are_packed_and_follow_their_weights(tokens):
    torch.manual_seed(1)
    layer = torch.nn.Linear(512, 600)
    packed, given = PackedLinear(layer), torch.randn(tokens, 512)
    with torch.inference_mode():
        for _ in range(2):
            torch.testing.assert_close(packed(given), torch.nn.functional.linear(given, layer.weight, layer.bias))
            layer.weight.mul_(-1.5)


def test_a_packed_decoder_can_be_adapted():
    quick = add_adapters(pack_linears(drawn(1, torch.bfloat16)), rank=2)
    assert same(logits(quick, IDS), logits(drawn(1, torch.bfloat16), IDS))


@pytest.mark.skipif(
    not can_pack(torch.zeros(1, dtype=torch.bfloat16)) or not can_add_in_fp32(), reason="needs oneDNN with fp32 sums of bf16"
)
def test_a_result_in_fp32_keeps_what_bf16_rounds_away():
    torch.manual_seed(1)
    layer, given = PackedLinear(torch.nn.Linear(96, 200, dtype=torch.bfloat16)), torch.randn(5, 96).bfloat16()
    exact = torch.nn.functional.linear(given.double(), layer.weight.double(), layer.bias.double())
    with torch.inference_mode():
        rounded, kept = layer(given), layer.apply_in_fp32(given)
    step = 2.0**-17 * exact.abs() + 1e-6
    assert kept.dtype == torch.float32
    assert ((kept - exact).abs() <= step).all()
    assert ((rounded - exact).abs() > step).any()
