"""Adding up what costs nothing, and making small what was found."""

from sandlot.audit.probes.search.climbing import largest_free, smallest


def trying(holds):
    tried = []

    async def each(sets):
        tried.extend(map(tuple, sets))
        return [holds(set(parts)) for parts in sets]

    return each, tried


async def test_a_large_free_set_leaves_out_the_one_that_costs_with_others():
    free, _ = trying(lambda parts: not {3, 5} <= parts)
    found = await largest_free(range(8), free, rounds=12)
    assert len(found) == 7
    assert not {3, 5} <= set(found)


async def test_all_are_taken_at_once_where_they_are_free_together():
    free, tried = trying(lambda parts: True)
    assert await largest_free(range(5), free, rounds=5) == [0, 1, 2, 3, 4]
    assert len(tried) == 1


async def test_nothing_to_add_up_is_nothing():
    free, tried = trying(lambda parts: True)
    assert await largest_free([], free, rounds=5) == []
    assert tried == []


async def test_only_the_parts_that_are_needed_remain():
    shows, _ = trying(lambda parts: {2, 9} <= parts)
    assert sorted(await smallest(range(12), shows, rounds=20)) == [2, 9]


async def test_rounds_bound_the_search():
    shows, tried = trying(lambda parts: {0, 15} <= parts)
    found = await smallest(range(16), shows, rounds=1)
    assert {0, 15} <= set(found)
    assert len(tried) <= 2
