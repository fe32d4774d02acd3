import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.calibrate.tasks.rule import UNKNOWN, Belief, Region, Rule, fewest_more, masses, region_placed
from sandlot.core.errors import ConfigError

RULE = Rule()
beliefs = st.builds(Belief, st.floats(0.3, 30), st.floats(0.3, 30))
seen = st.integers(0, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def drawn(belief: Belief, rule: Rule, times: int = 20_000) -> dict[Region, float]:
    """The slow obvious twin: draw rates, see where they lie."""
    rng = Random(1)
    found = dict.fromkeys(Region, 0)
    for _ in range(times):
        shown = rng.betavariate(belief.a, belief.b)
        low, high = rule.observed(rule.low), rule.observed(rule.high)
        found[Region.BELOW if shown < low else Region.ABOVE if shown > high else Region.INSIDE] += 1
    return {region: count / times for region, count in found.items()}


@pytest.mark.parametrize("rule", [RULE, Rule(low=0.0, high=0.7), Rule(false_positive=0.1, false_negative=0.2)])
@pytest.mark.parametrize("belief", [UNKNOWN, Belief(3, 9), Belief(20, 12)])
def test_masses_are_what_draws_from_the_belief_show(belief, rule):
    found = masses(rule, belief)
    assert {region: found.of(region) for region in Region} == pytest.approx(drawn(belief, rule), abs=0.015)


@given(beliefs)
def test_masses_make_one(belief):
    found = masses(RULE, belief)
    assert found.below + found.inside + found.above == pytest.approx(1, abs=1e-9)


@given(beliefs, st.integers(0, 12))
def test_the_chances_of_what_comes_next_make_one_and_agree_with_the_chain_rule(belief, count):
    chances = [belief.chance(passed, count) for passed in range(count + 1)]
    assert math.fsum(chances) == pytest.approx(1, abs=1e-9)
    assert chances[-1] == pytest.approx(belief.power(count), rel=1e-9)


def test_a_belief_has_the_moments_of_its_distribution():
    assert Belief(2, 6).mean == 0.25
    assert Belief(2, 6).variance == pytest.approx(0.25 * 0.75 / 9)


def test_nothing_is_decided_before_the_start():
    assert region_placed(RULE, UNKNOWN, 3, 3) is None
    assert region_placed(RULE, UNKNOWN, 4, 4) is Region.ABOVE


@given(beliefs, seen)
def test_the_fewest_further_rollouts_lose_nothing_against_looking_after_each(prior, counts):
    passed, scored = counts
    more = fewest_more(RULE, prior, passed, scored)
    stopped = scored >= RULE.cap or region_placed(RULE, prior, passed, scored) is not None
    assert (more == 0) == stopped
    for step in range(1, more):  # whatever comes, a look in between would not have ended it
        assert all(region_placed(RULE, prior, passed + luck, scored + step) is None for luck in range(step + 1))
    assert more <= max(0, RULE.cap - scored)


@given(st.floats(0, 1), st.floats(0, 0.4), st.floats(0, 0.4))
def test_correcting_undoes_what_the_grader_did(rate, false_positive, false_negative):
    rule = Rule(false_positive=false_positive, false_negative=false_negative)
    assert rule.corrected(rule.observed(rate)) == pytest.approx(rate, abs=1e-9)


def test_a_rate_below_what_false_passes_alone_would_show_is_zero():
    assert Rule(false_positive=0.2).corrected(0.1) == 0.0


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"low": 0.5, "high": 0.2}, "rising"),
        ({"high": 1.2}, "rising"),
        ({"low": math.nan}, "rising"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"start": 0}, "start"),
        ({"start": 40}, "start"),
        ({"threshold": math.inf}, "threshold"),
        ({"false_positive": 0.6, "false_negative": 0.4}, "no information"),
        ({"false_negative": -0.1}, "no information"),
        ({"false_positive": math.nan}, "no information"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(fields, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Rule(**fields)
