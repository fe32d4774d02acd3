"""Attention over rows side by side equals attention over their forest, with all gradients."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.model.nn.attention import dense_forest_attend
from sandlot.train.forest import row_attention
from sandlot.train.forest.forest import Forest, forest_of

PADDING = 3
"""Tokens after the forest's own."""


def some_rows(lengths: list[int], shared: int) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    prompt = rng.integers(0, 5, shared)
    return [np.concatenate((prompt, rng.integers(0, 5, length))).astype(np.int32) for length in lengths]


def results(forest: Forest, attend) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(len(forest) + PADDING, heads, 4, dtype=torch.float64, generator=draw, requires_grad=True)
        for heads in (4, 2, 2)
    )
    out = attend(0, q, k, v)[: len(forest)]
    sent = torch.randn(out.shape, dtype=torch.float64, generator=draw)
    return [out, *torch.autograd.grad((out * sent).sum(), (q, k, v))]


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), shared=st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_rows_give_what_the_forest_gives(lengths, shared):
    forest = forest_of(some_rows(lengths, shared))
    alone = np.arange(len(forest), len(forest) + PADDING) + 1
    plain = results(forest, dense_forest_attend(torch.tensor(np.concatenate((forest.last, alone)))))
    rows = results(forest, row_attention.row_attention(forest, len(forest) + PADDING, torch.device("cpu")))
    for one, other in zip(plain, rows, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_rows_of_one_length_that_share_nothing_are_not_copied():
    rows = [np.full(row_attention.STEP, number, np.int32) for number in range(3)]
    forest = forest_of(rows)
    places = row_attention.RowPlaces(forest, len(forest), torch.device("cpu"))
    x = torch.randn(len(forest), 2, 4)
    assert places.gather(x).data_ptr() == x.data_ptr()


def test_a_long_shared_prompt_is_left_to_the_forest():
    assert not row_attention.rows_are_faster(forest_of(some_rows([50] * 8, 2000)))
    assert row_attention.rows_are_faster(forest_of(some_rows([3500, 3600, 3500], 100)))
