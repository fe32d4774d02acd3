"""Attention of a batch's prompts, in pieces and in blocks, against attention without either."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.cache import Stored
from sandlot.model.engine.prompts import LONG, STEP, LongPrompts, PromptAttention, find_long

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # an empty split has a log-sum of minus infinity
BLOCK, HEADS, KV_HEADS, WIDTH = 16, 4, 2, 16
SEQUENCES = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=5)
"""Tokens of this pass, and how many times eight came before."""


class Pass:
    """Sequences whose keys are in a shuffled cache and, those of this pass, in `k` too."""

    def __init__(self, sequences: list[tuple[int, int]]) -> None:
        draw = torch.Generator().manual_seed(0)
        self.counts = [count for count, _ in sequences]
        self.lengths = [count + before for count, before in sequences]
        blocks = [-(-length // BLOCK) for length in self.lengths]
        order = iter(torch.randperm(sum(blocks), generator=draw).tolist())
        tables = torch.zeros(len(sequences), max(blocks), dtype=torch.int32)
        self.k, self.v, self.q = (
            [torch.randn(length, heads, WIDTH, generator=draw) for length in self.lengths]
            for heads in (KV_HEADS, KV_HEADS, HEADS)
        )
        size = (sum(blocks), KV_HEADS, BLOCK, WIDTH)
        self.keys, self.values = (Stored(torch.full(size, float("nan")), None) for _ in range(2))
        for row, count in enumerate(blocks):
            for index in range(count):
                tables[row, index] = block = next(order)
                for cache, own in ((self.keys, self.k[row]), (self.values, self.v[row])):
                    part = own[index * BLOCK : (index + 1) * BLOCK]
                    cache.numbers[block, :, : len(part)] = part.transpose(0, 1)
        starts = torch.tensor([0, *self.counts]).cumsum(0).to(torch.int32)
        none = torch.zeros(0, dtype=torch.int64)
        self.batch = Batch(
            none, none, none, starts, torch.tensor(self.lengths, dtype=torch.int32), tables, none, max(self.counts)
        )

    def own(self, rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([x[-count:] for x, count in zip(rows, self.counts, strict=True)])

    def expected(self) -> torch.Tensor:
        found = []
        for q, k, v, count in zip(self.q, self.k, self.v, self.counts, strict=True):
            shown, said = (x.repeat_interleave(HEADS // KV_HEADS, 1).transpose(0, 1) for x in (k, v))
            scores = q.transpose(0, 1) @ shown.mT * WIDTH**-0.5
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
            found.append((scores.softmax(-1) @ said).transpose(0, 1)[-count:])
        return torch.cat(found)


@given(sequences=SEQUENCES, step=st.sampled_from([1, 4]))
@settings(max_examples=settings.default.max_examples // 3)
def test_pieces_and_blocks_give_plain_attention(sequences, step):
    work = Pass([(count, 8 * before) for count, before in sequences])
    long = find_long(work.counts, work.lengths, long=3, step=step, before=16)
    attention = PromptAttention(work.batch, HEADS // KV_HEADS, torch.device("cpu"), long)
    found = attention.attend(work.own(work.q), work.own(work.k), work.own(work.v), work.keys, work.values)
    torch.testing.assert_close(found, work.expected(), rtol=1e-4, atol=1e-4)


def test_equal_prompts_alone_are_one_call_without_copies():
    work = Pass([(8, 0)] * 4)
    (long,) = find_long(work.counts, work.lengths, long=8, step=8)
    attention = PromptAttention(work.batch, HEADS // KV_HEADS, torch.device("cpu"), [long])
    found = attention.attend(work.own(work.q), work.own(work.k), work.own(work.v), work.keys, work.values)
    torch.testing.assert_close(found, work.expected(), rtol=1e-4, atol=1e-4)
    assert attention.wants_keys
    assert long.numbers == (0, 1, 2, 3)


def test_long_prompts_are_grouped_by_padded_length_in_powers_of_two():
    counts = [1, LONG - 1, *[2 * STEP] * 7, 4 * STEP - 3, LONG, 8 * STEP]
    lengths = [*counts[:-2], LONG + 7, 8 * STEP + 1024]
    assert find_long(counts, lengths) == [
        LongPrompts((2, 3, 4, 5), 2 * STEP, 0),
        LongPrompts((6, 7), 2 * STEP, 0),
        LongPrompts((8,), 2 * STEP, 0),
        LongPrompts((9,), 4 * STEP, 0),
        LongPrompts((11,), 8 * STEP, 1024),
    ]


def test_a_prompt_that_padding_would_make_slower_is_left_to_the_blocks():
    assert find_long([2 * STEP + 10], [2 * STEP + 10]) == []
