import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sandlot.train.forest.forest import cut_rows, forest_of, pack_numbers

ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=8)


def arrays(rows):
    return [np.array(row, dtype=np.int32) for row in rows]


@given(ROWS)
def test_a_forest_holds_each_distinct_prefix_once(rows):
    forest = forest_of(arrays(rows))
    assert len(forest) == len({tuple(row[: n + 1]) for row in rows for n in range(len(row))})


@given(ROWS)
def test_every_row_runs_through_its_own_ids_at_its_own_positions(rows):
    forest = forest_of(arrays(rows))
    for row, path in zip(rows, forest.paths, strict=True):
        assert forest.ids[path].tolist() == row
        assert forest.depth[path].tolist() == list(range(len(row)))
        assert forest.parent[path].tolist() == [-1, *path[:-1].tolist()]


@given(ROWS)
def test_a_token_sees_exactly_its_ancestors_and_itself(rows):
    forest = forest_of(arrays(rows))
    for q in range(len(forest)):
        ancestors, at = set(), q
        while at >= 0:
            ancestors.add(at)
            at = int(forest.parent[at])
        assert {k for k in range(len(forest)) if k <= q < forest.last[k]} == ancestors


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 12))
def test_packs_keep_the_order_and_the_budget(sizes, budget):
    together = pack_numbers(sizes, budget)
    assert [number for pack in together for number in pack] == list(range(len(sizes)))
    assert all(len(pack) == 1 or sum(sizes[number] for number in pack) <= budget for pack in together)


@given(ROWS, st.integers(1, 20))
def test_cuts_hold_every_row_once_know_their_forests_and_keep_the_budget(rows, budget):
    found = cut_rows(arrays(rows), budget)
    assert sorted(row for cut in found for row in cut.rows) == list(range(len(rows)))
    for cut in found:
        assert cut.size == len(forest_of(arrays([rows[row] for row in cut.rows])))
        assert cut.size <= budget or len(cut.rows) == 1


@given(ROWS)
def test_a_group_that_fits_is_not_cut(rows):
    assert len(cut_rows(arrays(rows), len(forest_of(arrays(rows))))) == 1
