import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.calibrate.tasks.allocate import Count, expected_gain, next_rollouts, num_wanted
from sandlot.calibrate.tasks.rule import UNKNOWN, Rule, masses, region_placed

RULE = Rule()


states = st.integers(0, 32).flatmap(lambda n: st.builds(Count, st.integers(0, n), st.just(n), st.integers(0, 8)))
tables = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), states, max_size=8)


@given(tables, st.one_of(st.none(), st.integers(0, 200)), st.integers(1, 64))
def test_nobody_gets_more_than_is_useful_and_all_together_no_more_than_is_left(counts, left, at_once):
    priors = dict.fromkeys(counts, UNKNOWN)
    given_out = next_rollouts(RULE, priors, counts, left=left, at_once=at_once)
    assert all(0 < more <= num_wanted(RULE, UNKNOWN, counts[task]) for task, more in given_out.items())
    assert all(counts[task].taken + more <= RULE.cap for task, more in given_out.items())
    if left is not None:
        assert sum(given_out.values()) <= left


@given(tables)
def test_nothing_is_given_out_only_when_there_is_nothing_to_do(counts):
    given_out = next_rollouts(RULE, dict.fromkeys(counts, UNKNOWN), counts, left=10_000, at_once=4)
    assert bool(given_out) == any(num_wanted(RULE, UNKNOWN, count) for count in counts.values())


def test_a_task_that_never_gives_a_score_is_left_alone_after_the_start():
    assert num_wanted(RULE, UNKNOWN, Count(failed=3)) == 1
    assert num_wanted(RULE, UNKNOWN, Count(failed=4)) == 0


def test_failed_rollouts_count_against_the_cap_and_not_for_the_rate():
    assert num_wanted(RULE, UNKNOWN, Count(passed=4, scored=10, failed=22)) == 0
    assert num_wanted(RULE, UNKNOWN, Count(passed=3, scored=3, failed=1)) == 1


@given(st.integers(4, 31).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.integers(1, 6))
def test_a_gain_is_what_every_way_to_go_on_adds(counts, more):
    """The slow obvious twin: one rollout after the other, both ways."""
    passed, scored = counts

    def best(k: int, n: int, left: int) -> float:
        belief = UNKNOWN.after(k, n)
        if left == 0:
            found = masses(RULE, belief)
            return found.of(found.likeliest)
        return belief.mean * best(k + 1, n + 1, left - 1) + (1 - belief.mean) * best(k, n + 1, left - 1)

    expected = (best(passed, scored, more) - best(passed, scored, 0)) / more
    assert expected_gain(RULE, UNKNOWN, Count(passed, scored), more) == pytest.approx(expected, abs=1e-9)
    assert expected >= -1e-12  # more data are never expected to tell less


def test_with_little_left_it_goes_where_it_tells_most():
    counts = {"hopeless": Count(16, 31), "nearly": Count(0, 4), "placed": Count(4, 4)}
    assert region_placed(RULE, UNKNOWN, 4, 4) is not None
    assert next_rollouts(RULE, dict.fromkeys(counts, UNKNOWN), counts, left=2, at_once=1) == {"nearly": 1}


def test_every_task_is_begun_before_any_goes_on():
    counts = {"a": Count(1, 4), "b": Count(), "c": Count()}
    assert next_rollouts(RULE, dict.fromkeys(counts, UNKNOWN), counts, left=6, at_once=6) == {"b": 4, "c": 2}
