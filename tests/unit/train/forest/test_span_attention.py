"""Attention over a forest in spans equals attention with a dense mask, with all gradients."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sandlot.model.nn.attention import dense_forest_attend
from sandlot.train.forest.forest import Forest, forest_of
from sandlot.train.forest.span_attention import MOST_COPIED, Span, cut_affordably, cut_spans, span_attention

SHARED = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=6)
"""Rows of two ids: one or two trees."""
APART = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=8)
"""Rows of ten ids: many trees, most of one row."""
EQUAL = st.builds(lambda rows, length: [[number] * length for number in range(rows)], st.integers(0, 4), st.integers(1, 5))
"""Rows of one length that share nothing; also no rows."""


def of_ids(rows: list[list[int]]) -> Forest:
    return forest_of([np.array(ids, np.int32) for ids in rows])


def results(forest: Forest, attend) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(len(forest), heads, 4, dtype=torch.float64, generator=draw, requires_grad=True) for heads in (4, 2, 2))
    out = attend(0, q, k, v)
    sent = torch.randn(out.shape, dtype=torch.float64, generator=draw)
    return [out, *torch.autograd.grad((out * sent).sum(), (q, k, v))]


@given(rows=SHARED | APART | EQUAL, size=st.integers(1, 9))
def test_spans_give_what_a_dense_mask_gives(rows, size):
    forest = of_ids(rows)
    plain = results(forest, dense_forest_attend(torch.tensor(forest.last)))
    found = results(forest, span_attention(torch.tensor(forest.last), size))
    for one, other in zip(plain, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def sizes_of(spans: list[Span]) -> list[int]:
    return [each.stop - each.start for each in spans]


def test_a_tree_of_one_row_is_one_span_without_a_mask():
    forest = of_ids([[0] * 9, [1] * 5])
    spans = cut_spans(forest.last, 4)
    assert sizes_of(spans) == [9, 5]
    assert all(each.is_row and not len(each.above) for each in spans)


def test_a_span_has_the_keys_of_its_tokens_and_no_others():
    forest = of_ids([[0, 0, 1, 1], [0, 0, 2, 2], [5, 6], [5, 7]])
    spans = cut_spans(forest.last, 4)
    assert sizes_of(spans) == [4, 4, 1]
    assert [each.above.tolist() for each in spans] == [[], [0, 1], [6]]


def test_many_small_trees_are_few_spans():
    forest = of_ids([[number, *[0] * (number % 3 + 1)] for number in range(40)])
    assert sizes_of(cut_spans(forest.last, 64)) == [64, len(forest) - 64]


def test_only_spans_that_would_copy_many_keys_are_longer():
    short = [np.full(30, number, np.int32) for number in range(270)]
    deep = [np.arange(8000, dtype=np.int32), np.append(np.arange(7900, dtype=np.int32), 0)]
    assert set(sizes_of(cut_affordably(forest_of([*short[:-1], short[-1][:20]]).last, 128))[:-1]) == {128}
    forest = forest_of(deep)
    spans = cut_affordably(forest.last, 128)
    assert sizes_of(spans)[0] > 128
    assert sum(len(each.above) for each in spans) <= MOST_COPIED * len(forest)
