"""Attention over a forest in parts equals attention over the forest, with all gradients."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sandlot.model.nn.attention import dense_forest_attend
from sandlot.train.forest.forest import Forest, forest_of
from sandlot.train.forest.part_attention import Places, part_attention, parts_if_faster
from sandlot.train.forest.parts import STEP, cut_forest

PADDING = 3
"""Tokens after the forest's own."""
ROWS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=6)


def of_ids(rows: list[list[int]]) -> Forest:
    return forest_of([np.array(ids, np.int32) for ids in rows])


def results(forest: Forest, attend) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(len(forest) + PADDING, heads, 4, dtype=torch.float64, generator=draw, requires_grad=True)
        for heads in (4, 2, 2)
    )
    out = attend(0, q, k, v)[: len(forest)]
    sent = torch.randn(out.shape, dtype=torch.float64, generator=draw)
    return [out, *torch.autograd.grad((out * sent).sum(), (q, k, v))]


@given(rows=ROWS, step=st.integers(1, 4), worth=st.sampled_from([0, 4, 10**6]))
def test_parts_give_what_the_forest_gives(rows, step, worth):
    forest = of_ids(rows)
    alone = np.arange(len(forest), len(forest) + PADDING) + 1
    plain = results(forest, dense_forest_attend(torch.tensor(np.concatenate((forest.last, alone)))))
    parts = cut_forest(forest, step=step, worth=worth)
    found = results(forest, part_attention(parts, len(forest) + PADDING, torch.device("cpu")))
    for one, other in zip(plain, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_rows_of_one_length_that_share_nothing_are_not_copied():
    forest = of_ids([[number] * STEP for number in range(3)])
    places = Places(cut_forest(forest), len(forest), torch.device("cpu"))
    x = torch.randn(len(forest), 2, 4)
    assert places.gather(x).data_ptr() == x.data_ptr()
    assert places.take(x) is x


def test_with_slow_masks_long_trunks_are_parts_and_with_fast_ones_only_rows_side_by_side():
    apart = of_ids([[number] * STEP for number in range(3)])
    assert parts_if_faster(apart, masks_are_slow=True) is not None
    assert parts_if_faster(apart, masks_are_slow=False) is not None
    long = of_ids([[9] * 32 * STEP + [number] * 4 * STEP for number in range(8)])
    assert parts_if_faster(long, masks_are_slow=True).trunks
    assert parts_if_faster(long, masks_are_slow=False) is None
    uneven = of_ids([[number] * (STEP + number) for number in range(1, 4)])
    assert parts_if_faster(uneven, masks_are_slow=False) is None
