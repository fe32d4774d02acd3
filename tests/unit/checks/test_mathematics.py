"""Answers that are mathematics, beyond the examples of the checks."""

import pytest

from sandlot.checks import same_math


@pytest.mark.parametrize(("more", "met"), [({}, True), ({"ordered": False}, True), ({"ordered": True}, False)])
def test_a_list_may_be_in_any_order_unless_it_is_asked_for(more, met):
    assert same_math("3, 1", "1, 3", **more) == (met, "")


@pytest.mark.parametrize(("more", "met"), [({}, False), ({"tolerance": 0.02}, True)])
def test_a_number_is_exact_unless_a_tolerance_is_given(more, met):
    assert same_math("0.33", "1/3", **more) == (met, "")
