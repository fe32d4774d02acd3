import itertools
import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.stats import intervals as stats
from sandlot.core.stats.intervals import Interval, Sums


def counts(largest: int = 60):
    return st.integers(1, largest).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def binomial(k: int, n: int, p: float) -> float:
    """The slow obvious twin: the chance of at most k of n."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def sums_of(groups: list[list[float]]) -> list[Sums]:
    return [Sums(len(group), math.fsum(group)) for group in groups]


# -- quantiles and distributions


def test_quantiles_lie_between_neighbours():
    assert stats.quantile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert stats.quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert stats.quantile([7.0], 0.99) == 7.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_with_the_share_and_stay_inside(values, one, other):
    ordered = sorted(values)
    low, high = (stats.quantile(ordered, share) for share in sorted((one, other)))
    assert low <= high + 1e-9 * max(1.0, abs(high))
    assert ordered[0] <= stats.quantile(ordered, one) <= ordered[-1] + 1e-9 * max(1.0, abs(ordered[-1]))


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1), ([1.0], math.nan)])
def test_a_quantile_that_does_not_exist_is_refused(values, share):
    with pytest.raises(ValueError):
        stats.quantile(values, share)


@given(counts(40), st.floats(0.001, 0.999))
def test_the_beta_distribution_agrees_with_summed_binomials(kn, p):
    k, n = kn
    if k < n:
        assert stats.beta_cdf(p, k + 1, n - k) == pytest.approx(1 - binomial(k, n, p), abs=1e-10)


@given(st.floats(0.3, 2000), st.floats(0.3, 2000), st.floats(0.001, 0.999))
def test_the_beta_distribution_and_its_mirror_make_one(a, b, x):
    assert stats.beta_cdf(x, a, b) + stats.beta_cdf(1 - x, b, a) == pytest.approx(1, abs=1e-9)


def test_the_beta_distribution_agrees_with_adding_up_thin_slices():
    a, b, low, high, slices = 2.5, 6.5, 0.2, 0.5, 100_000
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    width = (high - low) / slices
    middle = (low + (i + 0.5) * width for i in range(slices))
    assert stats.beta_cdf(high, a, b) - stats.beta_cdf(low, a, b) == pytest.approx(
        scale * width * sum(x ** (a - 1) * (1 - x) ** (b - 1) for x in middle)
    )


def test_beta_of_a_million_counts_still_converges():
    assert stats.beta_cdf(0.5, 500_000, 500_000) == pytest.approx(0.5, abs=1e-9)


def test_an_impossible_beta_is_refused():
    with pytest.raises(ValueError, match="positive"):
        stats.beta_cdf(0.5, 0, 1)


def test_widths_are_those_of_the_printed_tables():
    assert stats.normal_width(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert stats.normal_width(0.99) == pytest.approx(2.575829, abs=1e-6)
    printed = {1: 12.7062, 2: 4.3027, 5: 2.5706, 10: 2.2281, 30: 2.0423, 120: 1.9799, 1_000_000: 1.9600}
    for degrees, width in printed.items():
        assert stats.t_width(degrees, 0.95) == pytest.approx(width, abs=1e-4)


# -- shares


def test_known_shares_have_their_known_intervals():
    assert (stats.wilson(2, 8).low, stats.wilson(2, 8).high) == pytest.approx((0.0715, 0.5907), abs=1e-4)
    assert stats.wilson(0, 16).high == pytest.approx(0.1936, abs=1e-4)


@given(st.floats(0.001, 0.999), st.floats(0.5, 50), st.floats(0.5, 50))
def test_a_beta_quantile_has_its_share_below_it(share, a, b):
    assert stats.beta_cdf(stats.beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=1e-6)


@given(counts(500))
def test_a_share_lies_in_its_interval_and_the_mirror_is_the_mirror(kn):
    k, n = kn
    interval, mirror = stats.wilson(k, n), stats.wilson(n - k, n)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert (1 - mirror.high, 1 - mirror.low) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_nothing_counted_says_nothing():
    for interval in (stats.wilson(0, 0), stats.clustered_share([])):
        assert interval == Interval(None, 0.0, 1.0, "no data")


@pytest.mark.parametrize(("k", "n"), [(3, 2), (-1, 4), (math.nan, 4)])
def test_impossible_shares_are_refused(k, n):
    with pytest.raises(ValueError, match="not a share"):
        stats.wilson(k, n)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_choices_with_a_pass(nck):
    n, c, k = nck
    passes = [i < c for i in range(n)]
    choices = list(itertools.combinations(passes, k))
    assert stats.pass_at_k(n, c, k) == pytest.approx(float(Fraction(sum(any(choice) for choice in choices), len(choices))))


def test_pass_at_k_of_more_rollouts_than_there_are_is_refused():
    with pytest.raises(ValueError, match="pass@9 from 1 of 8"):
        stats.pass_at_k(8, 1, 9)


# -- means


def test_with_one_value_a_cluster_the_mean_has_the_textbook_t_interval():
    interval = stats.clustered_mean(sums_of([[1.0], [2.0], [3.0], [4.0]]))
    half = 3.182446 * math.sqrt(5 / 3 / 4)
    assert (interval.value, interval.low, interval.high) == pytest.approx((2.5, 2.5 - half, 2.5 + half), abs=1e-5)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=8))
def test_the_mean_lies_in_its_interval_and_the_interval_in_its_bounds(groups):
    interval = stats.clustered_mean(sums_of(groups), bounds=(0, 1))
    assert 0 <= interval.low <= interval.value + 1e-9
    assert interval.value - 1e-9 <= interval.high <= 1


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=6), st.integers(2, 5))
def test_copying_every_rollout_of_every_task_adds_no_knowledge(groups, copies):
    once, often = (stats.clustered_mean(sums_of(each), bounds=(0, 1)) for each in (groups, [g * copies for g in groups]))
    assert (often.low, often.high) == pytest.approx((once.low, once.high), abs=1e-6)


def test_one_task_says_nothing_about_others():
    for interval in (stats.clustered_mean([Sums(64, 32.0)], bounds=(0, 1)), stats.clustered_share([Sums(64, 32)])):
        assert (interval.value, interval.low, interval.high) == (0.5, 0, 1)
        assert "one task" in interval.note


def test_tasks_that_all_came_out_alike_leave_room_for_those_not_seen():
    interval = stats.clustered_mean([Sums(4, 4.0)] * 16, bounds=(0, 1))
    assert (interval.value, interval.high) == (1.0, 1.0)
    assert interval.low == pytest.approx(1 - 0.2059, abs=1e-4)
    assert "the same result" in interval.note


def test_a_share_of_tasks_that_all_passed_counts_each_task_once():
    assert stats.clustered_share([Sums(100, 100)] * 16).low == pytest.approx(1 - 0.1936, abs=1e-4)


def test_a_share_with_one_rollout_a_task_is_close_to_wilson():
    clustered, plain = stats.clustered_share([Sums(1, i % 4 == 0) for i in range(400)]), stats.wilson(100, 400)
    assert (clustered.low, clustered.high) == pytest.approx((plain.low, plain.high), abs=0.002)


def drawn_tasks(rng: Random, tasks: int, rollouts: int) -> list[Sums]:
    """Tasks of Beta(2, 3) difficulty: the mean is 0.4, and rollouts of one task resemble each other."""
    shares = [rng.betavariate(2, 3) for _ in range(tasks)]
    return [Sums(rollouts, sum(rng.random() < share for _ in range(rollouts))) for share in shares]


@pytest.mark.parametrize(("tasks", "rollouts"), [(8, 8), (40, 4)])
def test_clustered_intervals_cover_the_truth_where_naive_ones_do_not(tasks, rollouts):
    rng = Random(20)
    draws = [drawn_tasks(rng, tasks, rollouts) for _ in range(600)]

    def covered(interval):
        return interval.low <= 0.4 <= interval.high

    means = sum(covered(stats.clustered_mean(draw, bounds=(0, 1))) for draw in draws) / len(draws)
    shares = sum(covered(stats.clustered_share(draw)) for draw in draws) / len(draws)
    naive = sum(covered(stats.wilson(sum(s.total for s in draw), tasks * rollouts)) for draw in draws) / len(draws)
    assert 0.925 <= means <= 0.98
    assert 0.925 <= shares <= 0.985
    assert naive < 0.91


def test_a_share_over_very_few_tasks_still_covers_the_truth():
    rng = Random(21)
    intervals = [stats.clustered_share(drawn_tasks(rng, 4, 16)) for _ in range(600)]
    assert sum(interval.low <= 0.4 <= interval.high for interval in intervals) / 600 >= 0.935


# -- comparisons


@given(st.lists(st.integers(-4, 4), max_size=8))
def test_sign_flips_agree_with_trying_every_pattern(differences):
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    seen = abs(sum(differences))
    share = sum(abs(sum(s * d for s, d in zip(pattern, differences, strict=True))) >= seen for pattern in patterns) / len(
        patterns
    )
    assert stats.sign_flip(differences) == pytest.approx(share)


def test_drawn_flips_agree_with_the_exact_binomial_and_repeat():
    differences = [1.0] * 22 + [-1.0] * 8
    exact = 2 * binomial(8, 30, 0.5)
    assert stats.sign_flip(differences) == pytest.approx(exact, abs=0.004)
    assert stats.sign_flip(differences) == stats.sign_flip(differences)


def test_the_normal_limit_meets_the_drawn_flips():
    rng = Random(5)
    many = [rng.gauss(0.05, 1) for _ in range(1_500)]
    rounded = [round(value, 2) or 0.01 for value in many]  # few enough sizes to be drawn
    assert stats.sign_flip(many) == pytest.approx(stats.sign_flip(rounded), abs=0.02)


def test_without_a_difference_nothing_is_surprising():
    assert stats.sign_flip([]) == stats.sign_flip([0.0, 0.0]) == stats.mcnemar(0, 0) == 1.0


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_agrees_with_summed_binomials(one, other):
    assert stats.mcnemar(one, other) == pytest.approx(
        min(1, 2 * binomial(min(one, other), one + other, 0.5)) if one + other else 1
    )


def test_sign_flips_call_alike_sides_different_as_rarely_as_they_say():
    rng = Random(11)
    surprised = sum(stats.sign_flip([rng.choice((-1, 0, 1)) * rng.random() for _ in range(10)]) <= 0.05 for _ in range(400))
    assert surprised / 400 <= 0.075
