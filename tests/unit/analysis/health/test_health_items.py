"""Each question about a run's health, with rows that answer it one way and the other."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.rows import cancelled, failed, row, scored
from sandlot.analysis.health.failures import ENVIRONMENT_LIMIT, failures, rollouts_needed
from sandlot.analysis.health.item import Health, HealthItem, HealthMark
from sandlot.analysis.health.latency import duration_text, latency
from sandlot.analysis.health.resolution import resolution
from sandlot.analysis.health.survivors import survivors
from sandlot.analysis.health.timeouts import timeouts
from sandlot.core.limits import Limits
from sandlot.core.stats.intervals import wilson

LIMITS = Limits(time_s=10.0, grade_s=2.0)


def limits_of(_task):
    return LIMITS


def unknown(_task):
    return None


# -- failures ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 40))
def test_the_rollouts_needed_are_the_fewest_whose_interval_lies_below_the_limit(count):
    needed = rollouts_needed(count)
    assert wilson(count, needed).high <= ENVIRONMENT_LIMIT
    assert needed == 1 or wilson(count, needed - 1).high > ENVIRONMENT_LIMIT


def test_a_clean_run_needs_so_many_rollouts_before_it_is_called_fine():
    needed = rollouts_needed(0)
    assert needed == math.ceil(19 * 1.959963984540054**2)
    few, _ = failures(scored(rollout=n) for n in range(needed - 1))
    assert few.mark is HealthMark.UNKNOWN
    assert str(needed) in few.needed
    assert failures(scored(rollout=n) for n in range(needed))[0].mark is HealthMark.OK


def test_one_failure_in_five_fails_and_names_the_side():
    rows = [failed(rollout=n, side="grader") if n % 5 == 0 else scored(rollout=n) for n in range(100)]
    item, model = failures(rows)
    assert item.mark is HealthMark.FAIL
    assert "20 grader" in item.said
    assert item.figures["by_side"]["grader"]["failed"] == 20
    assert item.figures["over_limit"].startswith("8 of 36 rollouts failed on the grader side")
    assert item.look[0] == "t/0"
    assert model.mark is HealthMark.OK


def test_failures_that_may_still_be_chance_are_a_warning():
    item, _ = failures([failed(rollout=0), *(scored(rollout=n) for n in range(1, 60))])
    assert item.mark is HealthMark.WARN


def test_the_models_failures_are_counted_apart_and_an_operators_stops_not_at_all():
    rows = [failed(rollout=n, side="model", kind="timeout") if n % 2 else scored(rollout=n) for n in range(100)]
    item, model = failures([*rows, *(cancelled(rollout=200 + n) for n in range(50))])
    assert item.mark is HealthMark.OK
    assert item.figures["rollouts"] == 100
    assert model.mark is HealthMark.FAIL
    assert "50 of 100" in model.said


def test_a_run_that_broke_late_is_noticed_though_its_rate_is_low():
    rows = [*(scored(rollout=n) for n in range(2000)), *(failed(rollout=2000 + n) for n in range(30))]
    item, _ = failures(rows)
    assert item.figures["rate"] < 0.02
    assert item.mark is HealthMark.FAIL
    assert "21 of 400 rollouts" in item.said


def test_failures_that_were_stored_first_because_they_ended_first_are_counted_in_the_order_of_starts():
    fast = [failed(task=f"f{n}", started=50.0 * n) for n in range(10)]
    item, _ = failures([*fast, *(scored(task=f"t{n}", started=float(n)) for n in range(1000))])
    assert item.figures["over_limit"] is None
    assert item.mark is HealthMark.OK


def test_nothing_at_all_is_not_fine():
    item, _ = failures([])
    assert item.mark is HealthMark.UNKNOWN


# -- latency -----------------------------------------------------------------------------------------------------------


def test_grading_near_its_deadline_is_a_warning_with_the_slowest_to_look_at():
    rows = [scored(rollout=n, phases={"grade": 1.9 if n < 2 else 0.01}) for n in range(40)]
    item = latency(rows, limits_of)
    assert item.mark is HealthMark.WARN
    assert item.figures["near_deadline"] == 2
    assert item.figures["max_s"] == 1.9
    assert item.look == ("t/0", "t/1")
    assert latency(rows[2:], limits_of).mark is HealthMark.OK


def test_one_overrun_is_enough_and_no_known_deadline_is_said():
    rows = [scored(rollout=n, phases={"grade": 0.01}) for n in range(500)]
    assert latency([*rows, failed(side="grader", kind="timeout", phases={"grade": 2.0})], limits_of).mark is HealthMark.WARN
    assert "does not record its deadline" in latency(rows, unknown).said
    assert latency(rows[:3], limits_of).mark is HealthMark.UNKNOWN


@pytest.mark.parametrize(("seconds", "word"), [(2e-5, "20 us"), (0.0163, "16 ms"), (12.34, "12.3 s")])
def test_times_are_spoken_in_a_fitting_unit(seconds, word):
    assert duration_text(seconds) == word


# -- time-outs ---------------------------------------------------------------------------------------------------------


def timed(rollout, seconds, score, **fields):
    return scored(rollout=rollout, score=score, phases={"model": seconds, "grade": 0.01}, **fields)


def test_zeros_that_pile_up_at_the_agents_deadline_fail():
    quick = [timed(n, 1 + n / 100, n % 4 > 0) for n in range(80)]
    item = timeouts([*quick, *(timed(100 + n, 9.9, 0.0) for n in range(8))], limits_of)
    assert item.mark is HealthMark.FAIL
    assert "the agent's time limit" in item.said
    assert item.look[0] == "t/100"


def test_an_end_that_says_it_ran_out_of_time_is_the_agents_own():
    quick = [timed(n, 1 + n / 100, n % 4 > 0) for n in range(80)]
    slow = [timed(100 + n, 10.0, 0.0, end="time_limit") for n in range(8)]
    item = timeouts([*quick, *slow], limits_of)
    assert item.mark is HealthMark.OK
    assert item.figures["time_limit"] == 8


def test_a_wall_that_nobody_declared_is_found():
    rng = Random(2)
    quick = [scored(rollout=n, score=n % 3 > 0, phases={"grade": rng.uniform(0.1, 0.5)}) for n in range(90)]
    walled = [scored(rollout=200 + n, score=0.0, phases={"grade": 2.0 + n / 1000}) for n in range(10)]
    item = timeouts([*quick, *walled], unknown)
    assert item.mark is HealthMark.WARN
    assert "the longest grading (2.0 s)" in item.said


def test_rollouts_that_waited_together_for_a_busy_machine_are_no_wall():
    rng = Random(2)
    rows = [scored(rollout=n, score=n >= 8, phases={"grade": 0.093 if n < 8 else rng.uniform(0.01, 0.09)}) for n in range(90)]
    assert timeouts(rows, unknown).mark is HealthMark.OK
    alike = [scored(rollout=n, score=n >= 8, phases={"grade": 4.0 if n < 8 else rng.uniform(3, 3.9)}) for n in range(90)]
    assert timeouts(alike, unknown).mark is HealthMark.OK


def test_slow_rollouts_that_are_worth_as_much_are_fine():
    rows = [timed(n, 9.9 if n < 10 else 1.0, n % 2) for n in range(80)]
    assert timeouts(rows, limits_of).mark is HealthMark.OK
    assert timeouts(rows[:5], limits_of).mark is HealthMark.UNKNOWN


def test_runs_without_a_wall_are_hardly_ever_called_bad():
    bad = 0
    for seed in range(200):
        rng = Random(seed)
        rows = [timed(n, rng.lognormvariate(0, 0.5), rng.random() < 0.5) for n in range(100)]
        bad += timeouts(rows, limits_of).mark is HealthMark.FAIL
    assert bad <= 4


# -- survivors ---------------------------------------------------------------------------------------------------------


def test_failures_among_the_long_ones_are_a_bias():
    rng = Random(0)
    kept = [scored(rollout=n, turns=rng.randint(1, 8)) for n in range(200)]
    lost = [failed(rollout=300 + n, turns=rng.randint(6, 12)) for n in range(20)]
    item = survivors([*kept, *lost])
    assert item.mark is HealthMark.WARN
    assert "take more turns" in item.said
    assert item.figures["auc"]["turns"] > 0.8


def test_failures_that_were_cut_short_are_none():
    rng = Random(0)
    kept = [scored(rollout=n, turns=rng.randint(4, 8), calls=3) for n in range(200)]
    lost = [failed(rollout=300 + n, turns=0, calls=0, completion_tokens=0) for n in range(20)]
    assert survivors([*kept, *lost]).mark is HealthMark.OK


def test_failures_of_the_hard_tasks_are_a_bias_though_they_are_short():
    rows = [scored(task=f"t{n % 40}", rollout=n, score=float(n % 40 < 30)) for n in range(400)]
    lost = [failed(task=f"t{30 + n % 10}", rollout=900 + n, turns=0, calls=0, completion_tokens=0) for n in range(30)]
    item = survivors([*rows, *lost])
    assert item.mark is HealthMark.WARN
    assert "harder tasks" in item.said


def test_few_failures_bend_nothing_and_few_survivors_say_nothing():
    assert survivors([failed(), *(scored(rollout=n) for n in range(1, 100))]).mark is HealthMark.OK
    assert survivors([failed(rollout=n) for n in range(20)]).mark is HealthMark.UNKNOWN
    assert survivors([]).mark is HealthMark.OK


# -- resolution --------------------------------------------------------------------------------------------------------


def pointed(rollout, points, score, task="t"):
    return row(task, rollout, outcome="scored", score=score, points=points, possible=10.0, passed=score >= 1)


def test_rewards_that_were_clipped_are_told():
    rows = [pointed(n, -3.0 if n % 4 == 0 else n % 10, 0.0 if n % 4 == 0 else (n % 10) / 10) for n in range(60)]
    item = resolution(rows)
    assert item.mark is HealthMark.WARN
    assert "25% of rewards were clipped" in item.said
    assert item.figures["clipped"] == 15


def test_levels_lost_to_rounding_are_told():
    rows = [pointed(n, 5 + n % 5, 0.5 if n % 5 < 4 else 1.0) for n in range(60)]
    item = resolution(rows)
    assert item.mark is HealthMark.WARN
    assert "5 different sums of points became 2 different rewards" in item.said


def test_penalties_that_end_at_zero_are_no_lost_levels():
    rows = [pointed(n, -1.0 - n % 5 if n == 0 else n % 10, max(0.0, (n % 10) / 10)) for n in range(60)]
    assert resolution(rows).mark is HealthMark.OK


def test_a_gate_that_zeroes_is_not_clipping():
    rows = [pointed(n, n % 10, 0.0 if n % 2 else (n % 10) / 10) for n in range(60)]
    assert resolution(rows).figures["clipped"] == 0


def test_saturation_is_told_of_a_model_and_not_of_a_script():
    rows = [scored(task=f"t{n % 10}", rollout=n) for n in range(60)]
    assert resolution(rows).mark is HealthMark.WARN
    assert resolution(rows, scripted=True).mark is HealthMark.OK
    assert resolution(rows[:5]).mark is HealthMark.UNKNOWN


def test_groups_without_spread_are_counted():
    rows = [scored(task=f"t{n % 10}", rollout=n, score=float(n % 10 > 4)) for n in range(60)]
    item = resolution(rows)
    assert item.figures["groups"] == item.figures["groups_without_spread"] == 10
    assert "nothing can be learned" in item.said


# -- the whole ---------------------------------------------------------------------------------------------------------


def health(*marks, rollouts=10, planned=10):
    names = ("failures", "drift", "surge")
    items = tuple(HealthItem(name=name, mark=mark, said="") for name, mark in zip(names, marks, strict=False))
    return Health(
        run="r",
        environment="e",
        model="m",
        rollouts=rollouts,
        planned=planned,
        complete=rollouts >= planned,
        rows=10,
        traces=0,
        seed=0,
        items=items,
    )


def test_the_verdict_is_the_worst_mark_and_what_is_missing_is_never_fine():
    assert health(HealthMark.OK, HealthMark.OK).exit_code == 0
    assert health(HealthMark.OK, HealthMark.UNKNOWN).exit_code == 0
    assert health(HealthMark.OK, HealthMark.WARN).exit_code == 0
    assert health(HealthMark.OK, HealthMark.WARN).verdict is HealthMark.WARN
    assert health(HealthMark.UNKNOWN, HealthMark.OK).exit_code == 3
    assert health(HealthMark.OK, rollouts=9).exit_code == 3
    assert health(HealthMark.UNKNOWN, HealthMark.FAIL).exit_code == 1
    assert health().exit_code == 3
