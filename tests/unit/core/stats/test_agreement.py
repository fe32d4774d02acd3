import itertools
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.stats.agreement import (
    bootstrap,
    cohen_kappa,
    fleiss_kappa,
    flip_rate,
    precision_and_recall,
    prediction_powered,
    rank_change,
)

WORDS = ("no", "partly", "yes")
verdicts = st.lists(st.sampled_from(WORDS), min_size=2, max_size=6)
pairs = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)), min_size=1, max_size=20)


@given(st.lists(verdicts, min_size=2, max_size=10))
def test_a_flip_is_a_pair_of_verdicts_that_differ(items):
    """The slow obvious twin: all ordered pairs of asking and asking again."""
    shares = []
    for item in items:
        both = list(itertools.permutations(item, 2))
        shares.append(sum(a != b for a, b in both) / len(both))
    assert flip_rate(items).value == pytest.approx(sum(shares) / len(shares))


def test_what_was_asked_once_says_nothing_about_flips():
    assert flip_rate([["yes"], ["no"]]).value is None


def test_fleiss_example_of_wikipedia_is_reproduced():
    """Ten items, fourteen raters, five categories: kappa is 0.210."""
    table = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    items = [[str(word) for word, count in enumerate(row) for _ in range(count)] for row in table]
    assert fleiss_kappa(items) == pytest.approx(0.210, abs=5e-4)


def test_cohen_example_of_wikipedia_is_reproduced():
    """Fifty proposals, two readers: 20 both yes, 15 both no, 5 and 10 apart: kappa is 0.4."""
    seen = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    assert cohen_kappa(seen) == pytest.approx(0.4)


@given(pairs)
def test_kappa_is_agreement_beyond_that_of_shuffled_partners(seen):
    """The slow obvious twin: chance agreement is that of every first with every second."""
    chance = sum(a == b for (a, _), (_, b) in itertools.product(seen, seen)) / len(seen) ** 2
    found = cohen_kappa(seen)
    if chance == 1:
        assert found is None
    else:
        assert found == pytest.approx((sum(a == b for a, b in seen) / len(seen) - chance) / (1 - chance))


def test_verdicts_that_never_vary_have_no_kappa():
    assert fleiss_kappa([["yes", "yes"], ["yes", "yes"]]) is None
    assert cohen_kappa([("yes", "yes")] * 9) is None
    assert cohen_kappa([]) is None


def test_a_bootstrap_draws_items_and_covers_what_it_should():
    """Doubling every verdict of an item adds no information, so the interval stays as wide."""
    rng = Random(2)
    items = [[(word, word if rng.random() < 0.8 else "no")] for word in rng.choices(("yes", "no"), k=60)]

    def kappa(drawn):
        return cohen_kappa([pair for item in drawn for pair in item])

    single, doubled = bootstrap(items, kappa), bootstrap([item * 2 for item in items], kappa)
    assert (single.low, single.value, single.high) == pytest.approx((doubled.low, doubled.value, doubled.high))
    assert single.low < single.value < single.high


def test_where_there_is_too_little_the_interval_says_so():
    assert bootstrap([("yes", "yes"), ("yes", "yes")], cohen_kappa).value is None
    rare = bootstrap([("yes", "yes")] * 40 + [("no", "no")], cohen_kappa)
    assert (rare.value, rare.low, rare.high) == (1.0, 1.0, 1.0)
    assert bootstrap([("yes", "yes"), ("no", "no")], cohen_kappa).note


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_precision_and_recall_are_shares_of_what_was_said_and_of_what_is(seen):
    precision, recall = precision_and_recall(seen)
    said, so = [right for told, right in seen if told], [told for told, right in seen if right]
    assert precision.value == (sum(said) / len(said) if said else None)
    assert recall.value == (sum(so) / len(so) if so else None)


def test_what_moves_one_way_only_is_not_chance():
    biased, noisy = rank_change([(0, 1)] * 8 + [(1, 1)] * 30), rank_change([(0, 1)] * 4 + [(1, 0)] * 4 + [(1, 1)] * 30)
    assert biased.p_value == pytest.approx(2 * 0.5**8)
    assert noisy.p_value == 1.0
    assert (biased.better, biased.worse, biased.asked) == (8, 0, 38)


def test_a_corrected_mean_is_unbiased_and_its_interval_covers():
    """A judge that says yes too often: its own mean is wrong, the corrected one covers the truth as often as it says."""
    rng, covered, off = Random(4), 0, 0.0
    for _ in range(400):
        truth = [float(rng.random() < 0.3) for _ in range(200)]
        judge = [1.0 if right or rng.random() < 0.4 else 0.0 for right in truth]
        found = prediction_powered(judge[60:], list(zip(judge[:60], truth[:60], strict=True)))
        covered += found.low <= 0.3 <= found.high
        off += found.value - 0.3
    assert abs(off / 400) < 0.01
    assert 0.9 < covered / 400 < 0.98


def test_a_good_judge_narrows_the_interval():
    rng = Random(6)
    truth = [float(rng.random() < 0.4) for _ in range(500)]
    alone = prediction_powered([], [(right, right) for right in truth[:50]])
    helped = prediction_powered(truth[50:], [(right, right) for right in truth[:50]])
    assert helped.high - helped.low < 0.5 * (alone.high - alone.low)


def test_without_labels_there_is_no_corrected_mean():
    assert prediction_powered([1.0, 0.0], []).value is None
    assert prediction_powered([1.0], [(1.0, 0.0)]).high == math.inf
