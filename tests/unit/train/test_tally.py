"""The figures of several policies' updates in one step."""

import math

import pytest

from sandlot.train.tally import Update, joint_update


def update(tokens: int, loss: float, **figures: float) -> Update:
    plain = {"kl_behaviour": 0.0, "entropy": 1.0, "clipped": 0.0, "ratio_max": 1.0}
    return Update(loss=loss, norm=loss, tokens=tokens, computed=tokens, flat=2 * tokens, seconds=1.0, figures=plain | figures)


def test_means_are_over_the_tokens_of_all_and_the_largest_stay():
    joint = joint_update(
        [update(10, 1.0, entropy=2.0, ratio_max=3.0), update(30, 2.0, entropy=0.0, agreement=0.5), update(0, 9.0)]
    )
    assert (joint.loss, joint.figures["entropy"], joint.figures["agreement"]) == pytest.approx((1.75, 0.5, 0.5))
    assert (joint.norm, joint.figures["ratio_max"]) == (9.0, 3.0)
    assert (joint.tokens, joint.computed, joint.flat, joint.seconds) == (40, 40, 80, 3.0)


def test_one_update_is_itself():
    only = update(10, 0.1)
    assert joint_update([only]) is only


def test_nothing_learned_is_no_division_by_zero():
    assert joint_update([update(0, 0.0), update(0, 0.0)]).loss == 0.0


def test_policies_that_diverge_in_both_directions_have_no_joint_loss():
    assert math.isnan(joint_update([update(10, math.inf), update(10, -math.inf)]).loss)
