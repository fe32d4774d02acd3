"""Two readers of the same rollouts: Cohen's kappa with an interval."""

import pytest

from sandlot.analysis.taxonomy import VERSION
from sandlot.analysis.triage.agreement import agreements_of
from sandlot.analysis.triage.labels import LabelledTrace


def given(by, *labels):
    return [
        LabelledTrace(taxonomy=VERSION, task="t", rollout=number, label=label, by=by, at=0.0)
        for number, label in enumerate(labels)
    ]


def test_kappa_of_two_readers_is_that_of_the_textbook():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.70, expected 0.50
    first = ["ok"] * 25 + ["model_wrong"] * 25
    second = ["ok"] * 20 + ["model_wrong"] * 5 + ["ok"] * 10 + ["model_wrong"] * 15
    (found,) = agreements_of([*given("ann", *first), *given("bob", *second)])
    assert (found.first, found.second, found.both, found.agreed) == ("ann", "bob", 50, 35)
    assert found.kappa.value == pytest.approx(0.4)
    assert 0.1 < found.kappa.low < 0.4 < found.kappa.high < 0.7


def test_only_what_both_read_counts_and_every_two_readers_are_compared():
    found = agreements_of([*given("ann", "ok", "ok", "infra"), *given("bob", "ok"), *given("cy", "ok", "model_wrong")])
    assert [(each.first, each.second, each.both, each.agreed) for each in found] == [
        ("ann", "bob", 1, 1),
        ("ann", "cy", 2, 1),
        ("bob", "cy", 1, 1),
    ]
    assert agreements_of(given("ann", "ok")) == ()
