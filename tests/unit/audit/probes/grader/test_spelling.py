"""Other spellings mean the same number; near misses never do."""

import datetime as dt
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.audit.probes.grader.spelling import near_misses, same_value

UNITS = ("", " km", " kg", "%")


def value(text: str) -> tuple[Fraction, str]:
    """The number and unit in a text."""
    number, unit = re.fullmatch(r"\s*([-\d.,/]+(?:e[-+]\d+)?)\s*([a-z%]*)\.?\s*", text).groups()
    return Fraction(number.rstrip(".").replace(",", "")), unit


@st.composite
def numbers(draw) -> str:
    whole, part = draw(st.integers(0, 10**8)), draw(st.one_of(st.just(""), st.from_regex(r"\.[0-9]{1,4}", fullmatch=True)))
    return f"{draw(st.sampled_from(('', '-')))}{whole}{part}{draw(st.sampled_from(UNITS))}"


@given(numbers())
def test_the_same_number_stays_the_same(golden):
    assert {value(other.text) for other in same_value(golden)} == {value(golden)}


@given(numbers())
def test_a_near_miss_is_another_number(golden):
    assert value(golden) not in {value(other.text) for other in near_misses(golden) if other.kind != "`not` before it"}


@given(st.fractions(min_value=-50, max_value=50, max_denominator=500).filter(lambda ratio: ratio.denominator > 1))
def test_a_fraction_is_its_decimal_number_only_where_that_ends(ratio):
    spelled = {
        other.kind: Fraction(other.text)
        for other in same_value(str(ratio))
        if other.kind.startswith("a ") and "stop" not in other.kind
    }
    assert set(spelled.values()) <= {ratio}
    assert all(Fraction(other.text) != ratio for other in near_misses(str(ratio)))


@pytest.mark.parametrize("golden", ["", "Dear customer,\nwe are sorry that it is late.", "x" * 60])
def test_prose_has_no_near_misses(golden):
    assert near_misses(golden) == []


@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.integers() | st.booleans() | st.text(max_size=8), min_size=1, max_size=5)
)
def test_an_object_in_another_spelling_is_equal_and_a_near_miss_is_not(golden):
    text = json.dumps(golden)
    assert all(json.loads(other.text) == golden and other.any_format for other in same_value(text))
    assert all(json.loads(other.text) != golden or other.text == text for other in near_misses(text))


@given(st.dates(min_value=dt.date(1900, 1, 1), max_value=dt.date(2100, 1, 1)))
def test_a_near_date_is_another_day(golden):
    others = {other.kind: dt.date.fromisoformat(other.text) for other in near_misses(golden.isoformat())}
    assert {"a day later", "a month later", "another year"} <= set(others)
    assert golden not in others.values()


@given(st.times())
def test_a_near_time_is_another_time(golden):
    text = f"{golden:%H:%M}"
    assert text not in {other.text for other in near_misses(text)}
    assert all(dt.time.fromisoformat(other.text) for other in near_misses(text))
