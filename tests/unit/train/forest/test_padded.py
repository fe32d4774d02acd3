"""Forests are filled up to few sizes, and not by much."""

from sandlot.train.forest.attention import BLOCK, padded_size


def test_few_sizes_are_used_and_little_is_wasted():
    sizes = {padded_size(count) for count in range(1, 200_000, 37)}
    assert len(sizes) < 256
    for count in range(1, 200_000, 37):
        size = padded_size(count)
        assert size >= count
        assert size % BLOCK == 0
        assert size <= count * 1.0625 + BLOCK or count <= 32 * BLOCK


def test_a_size_is_its_own():
    assert padded_size(1) == BLOCK
    assert padded_size(BLOCK + 1) == 2 * BLOCK
    assert padded_size(65 * BLOCK) == 68 * BLOCK
    assert all(padded_size(padded_size(count)) == padded_size(count) for count in range(1, 100_000, 101))
