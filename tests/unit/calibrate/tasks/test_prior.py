from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.calibrate.tasks.prior import FEWEST, PRIOR, TRUTH, family_of_all, fit_family, priors
from sandlot.calibrate.tasks.rule import UNKNOWN, Belief, Rule, region_placed

counts = st.integers(0, 32).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def believed_anew(family: Belief, seen: list[tuple[int, int]]) -> tuple[float, float]:
    """The slow obvious twin: mean and strength of the mixture of what is believed of every task, one by one."""
    beliefs = [UNKNOWN] + [family.after(*each) for each in seen if each[1] > 0]
    mean = sum(belief.mean for belief in beliefs) / len(beliefs)
    square = sum(belief.variance + belief.mean**2 for belief in beliefs) / len(beliefs)
    return mean, mean * (1 - mean) / (square - mean**2) - 1


@given(st.lists(counts, max_size=12))
def test_a_family_gives_itself_back(seen):
    family = fit_family(tuple(sorted(Counter(seen).items())))
    if sum(scored > 0 for _, scored in seen) < FEWEST:
        assert family == UNKNOWN
        return
    mean, strength = believed_anew(family, seen)
    assert mean == pytest.approx(family.mean, abs=1e-6)
    if family.a + family.b < PRIOR.strongest * 0.999:
        assert strength == pytest.approx(family.a + family.b, rel=1e-3)
    else:
        assert strength > PRIOR.strongest * 0.99


@given(st.lists(counts, min_size=1, max_size=12), st.data())
def test_a_task_is_no_part_of_its_own_prior(seen, data):
    """Whatever one task shows, its own prior stays what it was."""
    families = dict.fromkeys(map(str, range(len(seen))), "all")
    before = priors({str(n): each for n, each in enumerate(seen)}, families)
    changed = {str(n): each for n, each in enumerate(seen)} | {"0": data.draw(counts)}
    assert priors(changed, families)["0"] == before["0"]


def test_families_do_not_hear_of_each_other():
    seen = {f"easy-{n}": (9, 10) for n in range(8)} | {f"hard-{n}": (1, 10) for n in range(8)}
    found = priors(seen, {task: task.split("-")[0] for task in seen})
    assert found["easy-0"].mean > 0.7
    assert found["hard-0"].mean < 0.3


def test_a_small_family_says_nothing():
    assert priors({str(n): (1, 4) for n in range(FEWEST)}, dict.fromkeys("01234", "all"))["0"] == UNKNOWN


def test_tasks_that_came_out_alike_are_no_certainty_to_a_prior_and_may_be_one_in_a_table():
    none = {str(n): (0, 4) for n in range(6)}
    assert 0 < family_of_all(none, PRIOR).mean < 0.2
    assert family_of_all(none, PRIOR).variance > 0.01
    assert family_of_all(none).mean < 0.02
    alike = {str(n): (3, 10) for n in range(1000)}
    prior, truth = family_of_all(alike, PRIOR), family_of_all(alike)
    assert prior.a + prior.b == pytest.approx(PRIOR.strongest)
    assert 100 < truth.a + truth.b < TRUTH.strongest


@pytest.mark.parametrize(("mean", "sd"), [(0.35, 0.15), (0.5, 0.29), (0.15, 0.12)])
def test_a_family_is_found_again_although_counting_stopped_where_it_pleased(mean, sd):
    strength = mean * (1 - mean) / sd**2 - 1
    rng, rule = Random(5), Rule()
    seen = {}
    for number in range(400):
        rate = rng.betavariate(mean * strength, (1 - mean) * strength)
        passed = scored = 0
        while region_placed(rule, UNKNOWN, passed, scored) is None and scored < rule.cap:
            passed += rng.random() < rate
            scored += 1
        seen[str(number)] = (passed, scored)
    family = family_of_all(seen)
    assert family.mean == pytest.approx(mean, abs=0.03)
    assert family.variance**0.5 == pytest.approx(sd, abs=0.04)
