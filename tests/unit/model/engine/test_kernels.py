"""The Triton kernels, interpreted: the same code a GPU compiles, against the obvious way."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.model.engine.cache import Stored, quantise
from sandlot.model.engine.kernels import add_norm, attend_decoding, attend_prompts, draw, gate, rotate
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Rope, Shape

# An empty split has a log-sum of minus infinity; for tokens of padding anything may be computed.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{what}:RuntimeWarning") for what in ("divide by zero", "invalid value", "overflow")
]
BLOCK = 16
SHAPES = [(4, 2, 16), (9, 3, 32), (2, 2, 16)]
STORED = [None, torch.int8, torch.float8_e4m3fn]
"""As computed, or with 8 bits."""
EIGHT_BITS = [(1, torch.int8), (2, torch.float8_e4m3fn)]


def product(shapes, others, *, few):
    """Every shape with every other; `make test` has a few of them, each shape and each other at least once."""
    every = [(shape, *other) for shape in shapes for other in others]
    diagonal = [(shapes[number % len(shapes)], *others[number % len(others)]) for number in range(few)]
    return [*diagonal, *(pytest.param(*each, marks=pytest.mark.system) for each in every if each not in diagonal)]


class Paged:
    """Sequences of given lengths in shuffled blocks, and their attention without blocks."""

    def __init__(self, heads, kv_heads, width, lengths, seed, stored=None):
        torch.manual_seed(seed)
        self.heads, self.kv_heads, self.width = heads, kv_heads, width
        self.lengths = torch.tensor(lengths, dtype=torch.int32)
        counts = [-(-length // BLOCK) for length in lengths]
        order = torch.randperm(sum(counts) + 3).to(torch.int32)
        self.tables = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
        for row, count in enumerate(counts):
            self.tables[row, :count], order = order[:count], order[count:]
        size = (sum(counts) + 3, kv_heads, BLOCK, width)
        self.exact = torch.randn(size), torch.randn(size)
        self.keys, self.values = (Stored(*quantise(x, stored)) if stored else Stored(x, None) for x in self.exact)
        if stored:
            self.exact = tuple(x.numbers.float() * x.scales[..., None] for x in (self.keys, self.values))

    def expected(self, row, queries):
        length = int(self.lengths[row])
        blocks = self.tables[row, : -(-length // BLOCK)].tolist()
        k, v = (torch.cat([cache[b] for b in blocks], 1)[:, :length] for cache in self.exact)
        k, v = (x.repeat_interleave(self.heads // self.kv_heads, 0) for x in (k, v))
        scores = torch.einsum("nhd,hld->hnl", queries, k) * self.width**-0.5
        past = torch.arange(length)[None] <= torch.arange(length - len(queries), length)[:, None]
        return torch.einsum("hnl,hld->nhd", scores.masked_fill(~past, -1e30).softmax(-1), v)


@pytest.mark.parametrize("stored", [None, torch.int8])  # Triton's interpreter rounds to fp8 wrongly: 31 becomes 16
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_queries_are_rotated_and_keys_and_values_go_where_their_slots_say(shape, qk_norm, stored):
    heads, kv_heads, width = shape
    paged = Paged(*shape, [20, 5], seed=0, stored=stored)
    decoder = Decoder(
        Shape(
            family="qwen3", vocabulary=8, hidden=24, layers=1, heads=heads, kv_heads=kv_heads, head=width, mlp=8, context=64,
            rope=Rope(), tied=True, qk_norm=qk_norm,
        )
    ).requires_grad_(requires_grad=False)  # fmt: skip
    (block,) = decoder.blocks
    for norm in (block.q_norm, block.k_norm) if qk_norm else ():
        norm.weight.normal_()
    x, slots = torch.randn(4, 24), torch.tensor([3, 17, 40, 31])
    cos, sin = decoder.angles(torch.tensor([0, 3, 9, 40]), x.dtype)
    q, k, v = block.inputs(x, cos, sin)
    normed = add_norm(x.clone(), None, block.before_attention.weight, block.before_attention.eps)
    own = torch.empty_like(k)
    rotated = rotate(block.qkv(normed), cos, sin, block.head_norms, paged.keys, paged.values, slots, own)
    torch.testing.assert_close(rotated, q)
    torch.testing.assert_close(own, k)
    for token, slot in enumerate(slots.tolist()):
        for cache, x in ((paged.keys, k), (paged.values, v)):
            found = cache.numbers[slot // BLOCK, :, slot % BLOCK]
            if stored:
                numbers, scales = quantise(x[token], stored)
                torch.testing.assert_close(cache.scales[slot // BLOCK, :, slot % BLOCK], scales)
                # Rounding a number that is half way may go either way.
                torch.testing.assert_close(found.float(), numbers.float(), atol=1.0, rtol=0.0)
            else:
                torch.testing.assert_close(found, x[token])


@pytest.mark.parametrize("width", [24, 64, 1030])
def test_a_layer_of_kernels_is_the_plain_layer(width):
    torch.manual_seed(width)
    x, delta, weight = torch.randn(5, width), torch.randn(5, width), torch.randn(width)
    added = x + delta
    expected = weight * added * torch.rsqrt(added.square().mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(add_norm(x, delta, weight, 1e-6), expected)
    assert torch.equal(x, added), "the sum is kept in place"
    both = torch.randn(3, 2 * width)
    torch.testing.assert_close(gate(both), F.silu(both[:, :width]) * both[:, width:])


@pytest.mark.parametrize(("shape", "splits", "stored"), product(SHAPES, [(1, None), (2, None), (4, None), *EIGHT_BITS], few=6))
def test_decoding_sees_exactly_its_own_past(shape, splits, stored):
    paged = Paged(*shape, [64, 17, 1], seed=splits, stored=stored)
    q = torch.randn(3, shape[0], shape[2])
    out = attend_decoding(q, paged.keys, paged.values, paged.tables, paged.lengths, splits)
    expected = torch.cat([paged.expected(row, q[row : row + 1]) for row in range(3)])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("shape", "splits", "stored"), product(SHAPES, [(1, None), (3, None), *EIGHT_BITS], few=4))
def test_guesses_see_exactly_their_own_past(shape, splits, stored):
    paged = Paged(*shape, [33, 16, 1], seed=splits, stored=stored)
    counts = [3, 16, 1]
    q = torch.randn(sum(counts) + 4, shape[0], shape[2])  # four of padding
    starts = torch.tensor([0, *counts, 0]).cumsum(0).to(torch.int32)
    # The last sequence is padding.
    lengths, tables = F.pad(paged.lengths, (0, 1)), F.pad(paged.tables, (0, 0, 0, 1), value=-(10**6))
    out = attend_decoding(q, paged.keys, paged.values, tables, lengths, splits, starts, 16)
    expected = torch.cat([paged.expected(row, q[starts[row] : starts[row + 1]]) for row in range(len(counts))])
    torch.testing.assert_close(out[: sum(counts)], expected, atol=1e-5, rtol=1e-5)


@settings(max_examples=settings.default.max_examples // 6)
@given(
    sequences=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    stored=st.sampled_from(STORED),
)
def test_prompts_and_chunks_see_exactly_their_own_past(sequences, seed, stored):
    heads, kv_heads, width = SHAPES[seed % len(SHAPES)]
    counts = [count for count, _ in sequences]
    paged = Paged(heads, kv_heads, width, [count + before for count, before in sequences], seed, stored)
    starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
    q = torch.randn(sum(counts), heads, width)
    queries = 32 // (heads // kv_heads)
    tiles = torch.tensor(
        [(row, first) for row, count in enumerate(counts) for first in range(0, count, queries)], dtype=torch.int32
    )
    out = attend_prompts(q, paged.keys, paged.values, paged.tables, paged.lengths, starts, tiles, rows=32)
    expected = torch.cat([paged.expected(row, q[starts[row] : starts[row + 1]]) for row in range(len(counts))])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("vocabulary", [7, 4096, 9001])
def test_draws_are_the_inverse_of_the_cumulative_distribution(vocabulary):
    torch.manual_seed(vocabulary)
    rows = 96_000 // vocabulary % 48 or 16
    logits, temperature, uniform = torch.randn(rows, vocabulary) * 3, torch.rand(rows) + 0.3, torch.rand(rows) * 0.999
    ids, logprobs = draw(logits, temperature, uniform)
    exact = torch.log_softmax(logits.double() / temperature[:, None], -1)
    expected = torch.searchsorted(exact.exp().cumsum(-1), uniform[:, None].double(), right=True)[:, 0]
    assert ids.tolist() == expected.tolist()
    torch.testing.assert_close(logprobs.double(), exact.gather(1, expected[:, None])[:, 0], atol=1e-5, rtol=0)


def test_an_impossible_token_is_never_drawn():
    logits = torch.full((4, 5000), float("-inf"))
    logits[:, 4321] = 0.0
    ids, logprobs = draw(logits, torch.ones(4), torch.tensor([0.0, 0.5, 0.999, 1.0]))
    assert ids.tolist() == [4321] * 4
    assert logprobs.tolist() == [0.0] * 4


def test_temperature_zero_takes_the_first_of_the_best():
    logits = torch.zeros(2, 5000)
    logits[0, [70, 4800]] = 5.0
    ids, _ = draw(logits, torch.zeros(2), torch.full((2,), 0.9))
    assert ids.tolist() == [70, 0]
