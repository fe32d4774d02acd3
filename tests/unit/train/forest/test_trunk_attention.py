"""Attention over a trunk and what follows it equals attention over the forest, with all gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.model.nn.attention import dense_forest_attend
from sandlot.train.forest.forest import forest_of
from sandlot.train.forest.trunk_attention import trunk_attention, trunk_size

PADDING = 3
"""Tokens after the forest's own."""
ROWS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=5)


def of_ids(rows):
    return forest_of([np.array(ids, np.int32) for ids in rows])


def results(count, attend):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(count, heads, 4, dtype=torch.float64, generator=draw, requires_grad=True) for heads in (4, 2, 2))
    out = attend(0, q, k, v)[: count - PADDING]
    sent = torch.randn(out.shape, dtype=torch.float64, generator=draw)
    return [out, *torch.autograd.grad((out * sent).sum(), (q, k, v))]


@given(rows=ROWS, shared=st.lists(st.integers(2, 3), min_size=1, max_size=6), part=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_trunk_gives_what_the_forest_gives(rows, shared, part):
    forest = of_ids([shared + ids for ids in rows])
    size = min(part, len(shared))
    last = np.concatenate((forest.last, np.arange(len(forest), len(forest) + PADDING) + 1))
    plain = results(len(last), dense_forest_attend(torch.tensor(last)))
    found = results(len(last), trunk_attention(size, torch.tensor(last[size:] - size)))
    for one, other in zip(plain, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("rows", "step", "size"),
    [
        ([[1, 1, 1, 2], [1, 1, 1, 3]], 1, 3),
        ([[1, 1, 1, 2], [1, 1, 1, 3]], 2, 2),
        ([[1, 1, 1, 2], [1, 1, 1, 3]], 4, 0),
        ([[1, 1], [2, 1]], 1, 0),  # rows of several groups
        ([[1, 1, 1]], 1, 0),  # one row: nothing follows
        ([[1, 1], [1, 1, 5]], 1, 0),  # the longer row is all there is
    ],
)
def test_the_trunk_is_what_all_rows_begin_with(rows, step, size):
    assert trunk_size(of_ids(rows), step) == size
