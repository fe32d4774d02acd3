"""Other spellings say the same number; near misses never do."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.audit.grader.spelling import near, same

UNITS = ("", " km", " kg", "%")


def value(text: str) -> tuple[Fraction, str]:
    """What a reader takes a text for: a number and its unit."""
    number, unit = re.fullmatch(r"\s*([-\d.,/]+(?:e[-+]\d+)?)\s*([a-z%]*)\.?\s*", text).groups()
    return Fraction(number.rstrip(".").replace(",", "")), unit


@st.composite
def numbers(draw) -> str:
    whole, part = draw(st.integers(0, 10**8)), draw(st.one_of(st.just(""), st.from_regex(r"\.[0-9]{1,4}", fullmatch=True)))
    return f"{draw(st.sampled_from(('', '-')))}{whole}{part}{draw(st.sampled_from(UNITS))}"


@given(numbers())
def test_the_same_number_stays_the_same(golden):
    assert {value(other.text) for other in same(golden)} == {value(golden)}


@given(numbers())
def test_what_is_near_is_something_else(golden):
    assert value(golden) not in {value(other.text) for other in near(golden) if other.kind != "denied"}


@given(st.fractions(min_value=-50, max_value=50, max_denominator=500).filter(lambda ratio: ratio.denominator > 1))
def test_a_fraction_is_its_decimal_number_only_where_that_ends(ratio):
    spelled = {
        other.kind: Fraction(other.text) for other in same(str(ratio)) if other.kind.startswith("a ") and "stop" not in other.kind
    }
    assert set(spelled.values()) <= {ratio}
    assert all(Fraction(other.text) != ratio for other in near(str(ratio)))


@pytest.mark.parametrize("golden", ["", "Dear customer,\nwe are sorry that it is late.", "x" * 60])
def test_nobody_knows_by_rule_how_prose_is_spelled_otherwise(golden):
    assert near(golden) == []
