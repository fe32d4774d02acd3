"""A forest cut into trunks and rows: every token sees exactly the tokens before it, each once."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sandlot.train.forest.forest import forest_of
from sandlot.train.forest.parts import STEP, WORTH, cut_forest

ROWS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), min_size=1, max_size=8)


@given(rows=ROWS, step=st.integers(1, 4), worth=st.sampled_from([0, 4, 10**6]))
def test_a_token_sees_every_token_of_its_path_once(rows, step, worth):
    forest = forest_of([np.array(ids, np.int32) for ids in rows])
    parts = cut_forest(forest, step=step, worth=worth)
    seen: dict[int, Counter[int]] = {}
    for row in (row for batch in parts.rows for row in batch):
        for place, token in enumerate(row.tolist()):
            seen.setdefault(token, Counter(row[: place + 1].tolist()))  # its first place; others are left out
    for trunk in parts.trunks:
        for query in range(trunk.first, trunk.last):
            seen[query].update(trunk.keys.tolist())
    for path in forest.paths:
        for place, token in enumerate(path.tolist()):
            assert seen[token] == Counter(path[: place + 1].tolist())


def long_rows(shared: int, lengths: list[int]):
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 50, shared)
    return forest_of([np.concatenate((prompt, rng.integers(0, 50, length))).astype(np.int32) for length in lengths])


def test_a_long_prompt_is_a_trunk_and_nothing_is_computed_twice_but_its_end():
    forest = long_rows(4096 + 100, [1024] * 16)
    parts = cut_forest(forest)
    (trunk,) = parts.trunks
    assert (len(trunk.keys), trunk.first, trunk.last) == (4096, 4096, len(forest))
    assert parts.pairs < 1.1 * forest.seen


def test_a_short_prompt_is_no_trunk():
    forest = long_rows(STEP, [3500, 3600, 3500])
    assert 2 * STEP * STEP // 2 < WORTH
    assert not cut_forest(forest).trunks


def test_rows_of_very_different_lengths_are_not_padded_to_the_longest():
    forest = long_rows(0, [4000, 300, 300, 300])
    assert cut_forest(forest).pairs < 1.2 * forest.seen
