import itertools
import math
from collections import Counter
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.stats import tests as comparisons

NUMBERS = st.lists(st.integers(0, 8).map(float), min_size=1, max_size=12)
PS = st.lists(st.floats(0, 1), max_size=20)


def gap(left: list[float], right: list[float]) -> Fraction:
    """The slow obvious twin: both distribution functions at every value."""
    return max(
        abs(Fraction(sum(v <= x for v in left), len(left)) - Fraction(sum(v <= x for v in right), len(right)))
        for x in left + right
    )


# -- numbers


@given(NUMBERS, NUMBERS)
def test_the_gap_is_the_largest_difference_of_the_distribution_functions(left, right):
    assert comparisons.ks(left, right).effect == pytest.approx(float(gap(left, right)))


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 5000))
def test_the_exact_chance_of_a_gap_counts_all_orders(n, m, seed):
    drawn = Random(seed).sample(range(1000), n + m)
    left, right = [float(v) for v in drawn[:n]], [float(v) for v in drawn[n:]]
    seen = gap(left, right)
    pool = sorted(left + right)
    gaps = [
        gap([pool[i] for i in chosen], [pool[i] for i in range(n + m) if i not in chosen])
        for chosen in itertools.combinations(range(n + m), n)
    ]
    assert comparisons.ks(left, right).p == pytest.approx(sum(g >= seen for g in gaps) / len(gaps))


def test_the_limit_distribution_meets_the_exact_one():
    rng = Random(1)
    left = [rng.gauss(0, 1) for _ in range(190)]
    right = [rng.gauss(0.2, 1) for _ in range(200)]
    exact = comparisons.ks(left, right)
    assert comparisons.kolmogorov_tail(exact.effect * math.sqrt(190 * 200 / 390)) == pytest.approx(exact.p, rel=0.2)


def test_the_kolmogorov_distribution_has_its_known_values():
    assert comparisons.kolmogorov_tail(1.3581) == pytest.approx(0.05, abs=1e-4)
    assert comparisons.kolmogorov_tail(1.6276) == pytest.approx(0.01, abs=1e-4)
    assert comparisons.kolmogorov_tail(0.8276) == pytest.approx(0.5, abs=1e-3)
    assert comparisons.kolmogorov_tail(0) == 1
    assert comparisons.kolmogorov_tail(1e-3) == pytest.approx(1)


def test_numbers_drawn_alike_are_seldom_called_different():
    rng = Random(5)
    surprising = sum(
        comparisons.ks([rng.random() for _ in range(250)], [rng.random() for _ in range(250)]).p < 0.05 for _ in range(200)
    )
    assert surprising <= 20


def test_far_numbers_are_far():
    far = comparisons.ks([1.0] * 300, [2.0] * 300)
    assert far.effect == 1
    assert far.p < 1e-12


@pytest.mark.parametrize(("left", "right"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0])])
def test_numbers_that_cannot_be_compared_are_refused(left, right):
    with pytest.raises(ValueError):
        comparisons.ks(left, right)


# -- categories


def test_the_chi_square_distribution_has_its_closed_forms():
    for x in (0.1, 1.0, 5.0, 30.0):
        assert comparisons.chi_square_tail(x, 1) == pytest.approx(math.erfc(math.sqrt(x / 2)), rel=1e-10)
        assert comparisons.chi_square_tail(x, 2) == pytest.approx(math.exp(-x / 2), rel=1e-10)
        assert comparisons.chi_square_tail(x, 4) == pytest.approx(math.exp(-x / 2) * (1 + x / 2), rel=1e-10)
    assert comparisons.chi_square_tail(0, 3) == 1
    assert comparisons.chi_square_tail(1e4, 3) == 0


@given(st.integers(1, 400), st.floats(0, 1000))
def test_the_chi_square_distribution_agrees_with_its_recursion(degrees, x):
    """Two more degrees of freedom add one term of the density."""
    term = math.exp(degrees / 2 * math.log(x / 2) - x / 2 - math.lgamma(degrees / 2 + 1)) if x / 2 else 0.0
    more = comparisons.chi_square_tail(x, degrees) + term
    assert comparisons.chi_square_tail(x, degrees + 2) == pytest.approx(more, abs=1e-10)


def test_a_table_of_two_by_two_is_the_two_share_test():
    table = comparisons.chi_square([[30, 70], [45, 55]])
    assert table.p == pytest.approx(math.erfc(0.15 / math.sqrt(0.375 * 0.625 * 0.02) / math.sqrt(2)))  # the z test of two shares
    assert table.effect == pytest.approx(abs(30 * 55 - 70 * 45) / math.sqrt(75 * 125 * 100 * 100))


@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=2, max_size=4))
def test_turning_a_table_changes_nothing(table):
    turned = comparisons.chi_square([list(column) for column in zip(*table, strict=True)])
    straight = comparisons.chi_square(table)
    assert (turned.effect, turned.p) == (pytest.approx(straight.effect), pytest.approx(straight.p))
    assert 0 <= straight.effect <= 1


def test_a_table_with_nothing_to_compare_says_nothing():
    assert comparisons.chi_square([]) == comparisons.TestResult(0.0, 1.0)
    assert comparisons.chi_square([[3, 0], [9, 0]]) == comparisons.TestResult(0.0, 1.0)
    assert comparisons.chi_square([[5, 0], [0, 5]]).effect == 1


@pytest.mark.parametrize("table", [[[1, 2], [3]], [[1, -1], [2, 2]]])
def test_a_table_that_is_none_is_refused(table):
    with pytest.raises(ValueError, match="rows"):
        comparisons.chi_square(table)


def test_no_degrees_of_freedom_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        comparisons.chi_square_tail(1.0, 0)


# -- shares


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fishers_test_agrees_with_counting_every_table(n, m, data):
    k, l = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))  # noqa: E741
    chances = {
        c: Fraction(math.comb(n, c) * math.comb(m, k + l - c), math.comb(n + m, k + l))
        for c in range(max(0, k + l - m), min(n, k + l) + 1)
    }
    twin = sum(chance for chance in chances.values() if chance <= chances[k])
    assert comparisons.fisher(k, n, l, m).p == pytest.approx(float(twin))


def test_fishers_test_has_its_textbook_value():
    assert comparisons.fisher(3, 4, 1, 4).p == pytest.approx(34 / 70)
    assert comparisons.fisher(0, 0, 1, 4) == comparisons.TestResult(0.0, 1.0)
    assert comparisons.fisher(900, 1000, 10, 1000).p < 1e-300


@pytest.mark.parametrize("shares", [(2, 1, 0, 1), (-1, 1, 0, 1)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ValueError, match="0 <= k <= n"):
        comparisons.fisher(*shares)


# -- distributions


WORDS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1)


@given(WORDS, WORDS)
def test_jensen_shannon_is_the_entropy_of_the_mixture_less_the_entropies(left, right):
    def entropy(shares: list[float]) -> float:
        return -sum(p * math.log2(p) for p in shares if p)

    p = {w: left.get(w, 0) / sum(left.values()) for w in "abcdef"}
    q = {w: right.get(w, 0) / sum(right.values()) for w in "abcdef"}
    twin = entropy([(p[w] + q[w]) / 2 for w in p]) - (entropy(list(p.values())) + entropy(list(q.values()))) / 2
    assert comparisons.jensen_shannon(left, right) == pytest.approx(twin, abs=1e-12)
    assert comparisons.jensen_shannon(left, right) == comparisons.jensen_shannon(right, left)


def test_nothing_in_common_is_one_bit():
    assert comparisons.jensen_shannon(Counter("aab"), Counter("ccd")) == 1
    assert comparisons.jensen_shannon({"a": 2}, {"a": 7}) == 0
    with pytest.raises(ValueError, match="both sides"):
        comparisons.jensen_shannon({}, {"a": 1})


# -- many questions


@given(PS)
def test_holm_rejects_what_the_steps_reject(ps):
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for place, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
            if (len(ps) - place) * ps[at] > level:
                break
            rejected.add(at)
        assert {at for at, p in enumerate(comparisons.holm(ps)) if p <= level} == rejected


@given(PS)
def test_benjamini_hochberg_believes_all_below_the_last_under_the_line(ps):
    for level in (0.01, 0.05, 0.3):
        ordered = sorted(ps)
        under = [p for place, p in enumerate(ordered, 1) if len(ps) * p / place <= level]
        believed = {at for at, p in enumerate(ps) if under and p <= under[-1]}
        assert {at for at, p in enumerate(comparisons.benjamini_hochberg(ps)) if p <= level} == believed


def test_corrections_have_their_textbook_values():
    assert comparisons.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert comparisons.benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert comparisons.holm([]) == comparisons.benjamini_hochberg([]) == []
