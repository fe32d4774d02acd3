import math
from random import Random

import pytest

from sandlot.run.schedule.job import RolloutJob
from sandlot.run.schedule.lengths import Lengths
from sandlot.run.schedule.policies import (
    Adaptive,
    Fifo,
    GroupContext,
    KnownLengths,
    LeastAttained,
    LongestRemaining,
    expected_rest,
)


def order(policy, jobs: list[RolloutJob], lengths: Lengths) -> list[int]:
    return [job.index for job in sorted(jobs, key=lambda job: policy.key(job, lengths))]


def jobs_with(*attained: int) -> list[RolloutJob]:
    return [RolloutJob(index, index // 2, 10, attained=tokens) for index, tokens in enumerate(attained)]


def test_fifo_keeps_the_order_and_least_attained_does_not():
    jobs = jobs_with(50, 0, 70, 10)
    assert order(Fifo(), jobs, Lengths()) == [0, 1, 2, 3]
    assert order(LeastAttained(), jobs, Lengths()) == [1, 3, 0, 2]


def test_a_probe_of_each_group_comes_first_then_the_longest_group():
    lengths = Lengths()
    lengths.add(0, 100)
    lengths.add(1, 5000)
    assert order(GroupContext(2), jobs_with(0, 0, 0, 0, 0, 0), lengths) == [0, 2, 4, 5, 3, 1]


def test_adaptive_is_least_attained_service_while_siblings_tell_nothing():
    jobs = jobs_with(50, 0, 70, 10)
    assert order(Adaptive(), jobs, Lengths()) == order(LeastAttained(), jobs, Lengths())
    noise = Lengths()
    for group, length in [(0, 100), (0, 9000), (1, 110), (1, 9100)]:
        noise.add(group, length)
    assert order(Adaptive(), jobs, noise) == order(LeastAttained(), jobs, Lengths())


def test_adaptive_serves_the_long_group_first_where_siblings_are_alike():
    lengths = Lengths()
    for group, length in [(0, 100), (0, 110), (1, 9000), (1, 9100)]:
        lengths.add(group, length)
    assert order(Adaptive(), jobs_with(0, 10, 500, 600), lengths) == [2, 3, 0, 1]


def test_foresight_serves_the_longest_rest_first():
    assert order(KnownLengths([100, 900, 80, 1000]), jobs_with(0, 850, 0, 10), Lengths()) == [3, 0, 2, 1]


def test_the_longest_expected_rest_comes_first():
    lengths = Lengths()
    for group, length in [(0, 100), (0, 110), (1, 9000), (1, 9100)]:
        lengths.add(group, length)
    assert order(LongestRemaining(), jobs_with(0, 90, 0, 8000), lengths) == [2, 3, 0, 1]


@pytest.mark.parametrize(("mean", "deviation", "attained"), [(8.0, 0.5, 0), (8.0, 0.5, 1000), (8.0, 0.5, 6000), (6.0, 1.0, 3000)])
def test_the_expected_rest_is_the_mean_of_the_draws_that_are_longer(mean, deviation, attained):
    rng = Random(0)
    longer = [draw - attained for _ in range(200_000) if (draw := rng.lognormvariate(mean, deviation)) > attained]
    assert expected_rest(mean, deviation, attained) == pytest.approx(sum(longer) / len(longer), rel=0.05)


def test_the_expected_rest_far_above_all_experience_is_finite():
    rests = [expected_rest(1.0, 0.1, attained) for attained in (1000, 2000, 4000)]
    assert all(math.isfinite(rest) and rest > 0 for rest in rests)
    assert rests == sorted(rests)
