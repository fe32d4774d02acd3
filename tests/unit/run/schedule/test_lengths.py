import math
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.run.schedule.lengths import LengthPrior, Lengths

ENDED = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 100_000)), max_size=60)


def slow_estimates(ended: list[tuple[int, int]]) -> tuple[float | None, float | None]:
    """The variances within and between groups, from all lengths at once."""
    groups: dict[int, list[float]] = {}
    for group, length in ended:
        groups.setdefault(group, []).append(math.log(length))
    spare = len(ended) - len(groups)
    if spare <= 0:
        return None, None
    within = sum((value - fmean(values)) ** 2 for values in groups.values() for value in values) / spare
    if len(groups) < 2:
        return within, None
    noise = within * fmean(1 / len(values) for values in groups.values())
    return within, max(0.0, variance([fmean(values) for values in groups.values()]) - noise)


@given(ENDED)
def test_running_sums_give_what_all_lengths_at_once_give(ended):
    lengths = Lengths()
    for group, length in ended:
        lengths.add(group, length)
    within, between = slow_estimates(ended)
    assert lengths.within == (within if within is None else pytest.approx(within, abs=1e-6))
    assert lengths.between == (between if between is None else pytest.approx(between, abs=1e-6))
    assert 0.0 <= lengths.reliability <= 1.0


@given(ENDED, st.integers(0, 5))
def test_a_group_is_expected_between_its_own_mean_and_that_of_all(ended, group):
    lengths = Lengths()
    for member, length in ended:
        lengths.add(member, length)
    expected = lengths.mean_log_of(group)
    if not ended:
        assert expected is None
        return
    by_group: dict[int, list[float]] = {}
    for member, length in ended:
        by_group.setdefault(member, []).append(math.log(length))
    overall = fmean(fmean(values) for values in by_group.values())
    own = fmean(by_group[group]) if group in by_group else overall
    assert min(own, overall) - 1e-6 <= expected <= max(own, overall) + 1e-6


def test_siblings_that_are_alike_are_reliable_and_others_are_not():
    alike, different = Lengths(), Lengths()
    for group, length in [(0, 100), (0, 110), (1, 9000), (1, 9100)]:
        alike.add(group, length)
    for group, length in [(0, 100), (0, 9000), (1, 110), (1, 9100)]:
        different.add(group, length)
    assert alike.reliability > 0.95
    assert different.reliability < 0.05


def test_a_prior_holds_until_rollouts_have_ended():
    lengths = Lengths(LengthPrior(mean_log=8.0, between=0.6, within=0.1))
    assert (lengths.mean_log_of(3), lengths.within, lengths.between) == (8.0, 0.1, 0.6)
    for number in range(400):
        lengths.add(number % 40, 100)
    assert lengths.mean_log_of(3) == pytest.approx(math.log(100), abs=0.5)
    assert lengths.within == pytest.approx(0.0, abs=0.01)
