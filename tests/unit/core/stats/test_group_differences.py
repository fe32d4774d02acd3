"""Comparisons of two groups, each against a slow and obvious twin or a closed form."""

import math
from fractions import Fraction
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.stats.tests import (
    benjamini_hochberg,
    chi_square_tail,
    distribution_gap,
    fisher,
    holm,
    mix_difference,
    rank_difference,
)

values = st.lists(st.integers(0, 6), min_size=1, max_size=12)
counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200))
p_values = st.lists(st.floats(0, 1), max_size=8)


def every_dealing(hits: int, of: int, other_hits: int, of_others: int) -> float:
    """Deal all hits to all places in every possible way, and count the ways that give the first group so many."""
    total = of + of_others
    ways = [sum(place < of for place in dealt) for dealt in combinations(range(total), hits + other_hits)]
    return float(Fraction(sum(way >= hits for way in ways), len(ways)))


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_fishers_test_counts_every_dealing(hits, misses, other_hits, other_misses):
    exact = every_dealing(hits, hits + misses, other_hits, other_hits + other_misses)
    assert fisher(hits, hits + misses, other_hits, other_hits + other_misses, greater=True).p == pytest.approx(exact)


def test_fishers_test_takes_thousands_and_refuses_what_is_no_share():
    assert fisher(40, 50, 500, 10_000, greater=True).p < 1e-30
    assert fisher(0, 10, 5, 10, greater=True).p == pytest.approx(1.0)
    with pytest.raises(ValueError, match="are not shares"):
        fisher(3, 2, 0, 1)


def test_the_tail_of_chi_square_is_the_closed_form_where_there_is_one():
    for statistic in (0.01, 0.5, 1.0, 3.84, 10.0, 60.0):
        assert chi_square_tail(statistic, 1) == pytest.approx(math.erfc(math.sqrt(statistic / 2)))
        half = statistic / 2
        for degrees in (2, 4, 10, 40):  # even degrees: a sum of Poisson chances
            poisson = math.fsum(math.exp(-half) * half**k / math.factorial(k) for k in range(degrees // 2))
            assert chi_square_tail(statistic, degrees) == pytest.approx(poisson)
    assert chi_square_tail(0.0, 3) == 1.0


@settings(deadline=None)
@given(counts, counts)
def test_a_mix_differs_from_itself_by_nothing_and_sizes_stay_between_0_and_1(first, second):
    assert mix_difference(first, first).size == pytest.approx(0, abs=1e-6)
    found = mix_difference(first, second)
    assert 0 <= found.size <= 1
    assert 0 <= found.p_value <= 1
    assert found.size == pytest.approx(mix_difference(second, first).size)


def test_two_mixes_that_share_nothing_are_as_far_apart_as_can_be():
    found = mix_difference({"read": 50, "list": 50}, {"write": 80})
    assert found.size == pytest.approx(1)
    assert found.p_value < 1e-20


def test_rare_categories_are_counted_together():
    many = {f"tool-{n}": 1 for n in range(40)}
    found = mix_difference({"bash": 100, **many}, {"bash": 140})
    assert found.size == pytest.approx(mix_difference({"bash": 100, "rare": 40}, {"bash": 140}).size)


@settings(deadline=None)
@given(values, values)
def test_the_gap_of_two_distributions_is_the_largest_over_all_places(first, second):
    def below(group, place):
        return sum(value <= place for value in group) / len(group)

    largest = max(abs(below(first, place) - below(second, place)) for place in range(-1, 8))
    assert distribution_gap(first, second).size == pytest.approx(largest)


def test_two_draws_from_one_distribution_are_seldom_told_apart():
    rng = Random(5)
    draws = [distribution_gap([rng.random() for _ in range(80)], [rng.random() for _ in range(60)]) for _ in range(400)]
    assert sum(found.p_value < 0.05 for found in draws) / len(draws) < 0.08
    shifted = distribution_gap([rng.random() for _ in range(80)], [rng.random() + 0.5 for _ in range(60)])
    assert shifted.p_value < 1e-4
    assert shifted.size == pytest.approx(0.5, abs=0.15)


@settings(deadline=None)
@given(values, values)
def test_the_auc_counts_pairs(first, second):
    pairs = [(a > b) + (a == b) / 2 for a in first for b in second]
    assert rank_difference(first, second).size == pytest.approx(sum(pairs) / len(pairs))


def test_ranks_of_equal_values_say_nothing_and_of_separate_ones_everything():
    assert rank_difference([3.0] * 20, [3.0] * 30).p_value == 1.0
    found = rank_difference(range(100, 130), range(40))
    assert found.size == 1.0
    assert found.p_value < 1e-9


def test_groups_of_nobody_do_not_differ():
    for found in (distribution_gap([], [1.0]), rank_difference([1.0], []), mix_difference({}, {"a": 9})):
        assert found.p_value == 1.0


@settings(deadline=None)
@given(p_values)
def test_holm_steps_down_and_benjamini_hochberg_steps_up(found):
    ordered = sorted(found)
    count = len(found)
    for p, strict, lenient in zip(found, holm(found), benjamini_hochberg(found), strict=True):
        rank = ordered.index(p)
        last = rank + ordered.count(p) - 1
        assert strict == pytest.approx(max(min(1.0, (count - k) * ordered[k]) for k in range(last + 1)))
        assert lenient == pytest.approx(min(1.0, *(count * ordered[k] / (k + 1) for k in range(rank, count))))
        assert p <= lenient + 1e-12
        assert lenient <= strict + 1e-12
