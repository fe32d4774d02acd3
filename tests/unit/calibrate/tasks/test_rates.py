import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.calibrate.tasks.rates import error_of_fixed, fixed_with_same_error, rates_at, rates_over
from sandlot.calibrate.tasks.rule import UNKNOWN, Belief, Rule, masses, region_placed

SHORT = Rule(cap=9, confidence=0.8)
FAMILY = Belief(0.35 * 14.8, 0.65 * 14.8)


def by_every_sequence(rule: Rule, prior: Belief, rate: float) -> dict[str, float]:
    """The slow obvious twin: all sequences of passes and failures, each played until the rule stops it."""
    found = dict.fromkeys(("below", "inside", "above", "borderline", "rollouts"), 0.0)
    for sequence in itertools.product((0, 1), repeat=rule.cap):
        passed = 0
        region = None
        for scored, luck in enumerate(sequence, 1):
            passed += luck
            region = region_placed(rule, prior, passed, scored)
            if region is not None:
                break
        chance = rate ** sum(sequence) * (1 - rate) ** (rule.cap - sum(sequence))
        found[region.value if region else "borderline"] += chance
        found["rollouts"] += chance * scored
    return found


@settings(max_examples=10, deadline=None)
@given(st.floats(0, 1), st.sampled_from([UNKNOWN, Belief(2, 3), FAMILY]))
def test_rates_are_those_of_every_sequence_played_out(rate, prior):
    rates = rates_at(SHORT, prior, rate)
    assert {name: getattr(rates, name) for name in by_every_sequence(SHORT, prior, rate)} == pytest.approx(
        by_every_sequence(SHORT, prior, rate), abs=1e-9
    )


@pytest.mark.parametrize("prior", [UNKNOWN, FAMILY])
def test_rates_over_a_family_are_what_simulated_tasks_show(prior):
    rng, rule, times = Random(3), Rule(), 2000
    wrong = error = borderline = rollouts = 0
    for _ in range(times):
        rate = rng.betavariate(FAMILY.a, FAMILY.b)
        passed = scored = 0
        while (region := region_placed(rule, prior, passed, scored)) is None and scored < rule.cap:
            passed += rng.random() < rate
            scored += 1
        called = region or masses(rule, prior.after(passed, scored)).likeliest
        wrong += region is not None and region is not rule.region(rate)
        error += called is not rule.region(rate)
        borderline += region is None
        rollouts += scored
    rates = rates_over(rule, prior, FAMILY)
    shown = [rates.wrong, rates.error, rates.borderline]
    assert [count / times for count in (wrong, error, borderline)] == pytest.approx(shown, abs=0.03)
    assert rollouts / times == pytest.approx(rates.rollouts, abs=0.8)


def test_a_matched_prior_errs_no_more_than_the_confidence_allows():
    rates = rates_over(Rule(), FAMILY, FAMILY)
    assert rates.wrong <= 0.1 * (1 - rates.borderline)


def test_a_mismatched_prior_errs_more_than_the_confidence_says():
    """Why the rates are computed and not assumed."""
    rates = rates_over(Rule(), UNKNOWN, FAMILY)
    assert rates.wrong > 0.1


def test_the_grader_is_reckoned_with():
    """A task nobody can do passes three times in ten by the grader's fault: unknown to the rule, that looks like the band."""
    erring = Rule(false_positive=0.3)
    assert rates_at(Rule(), UNKNOWN, erring.observed(0.0)).inside > 0.35
    assert rates_at(erring, UNKNOWN, 0.0).inside < 0.05


def test_a_task_on_an_edge_is_wrong_on_neither_side():
    rates = rates_at(Rule(), UNKNOWN, 0.5)
    assert rates.wrong == pytest.approx(rates.below)


@pytest.mark.parametrize("family", [FAMILY, Belief(1, 1), Belief(0.8, 1.2)])
def test_the_baseline_is_the_first_number_that_errs_no_more(family):
    rates = rates_over(Rule(), family, family)
    fixed = fixed_with_same_error(lambda n: error_of_fixed(Rule(), family, family, n), error=rates.error)
    assert fixed is not None
    assert fixed.error <= rates.error < error_of_fixed(Rule(), family, family, fixed.rollouts - 1)
    assert fixed.rollouts > 1.3 * rates.rollouts


def test_an_error_nobody_reaches_has_no_baseline():
    assert fixed_with_same_error(lambda scored: 1 / scored, error=0.0) is None
