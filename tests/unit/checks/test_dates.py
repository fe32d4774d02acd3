"""Dates and durations, beyond the examples of the checks."""

from fractions import Fraction

import pytest

from sandlot.checks import duration_equals
from sandlot.checks.dates import read_duration


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1:30", "two readings"),
        ("1 h 1 h", "is not a duration"),
        ("30 min 1 h", "is not a duration"),
        ("2 months", "is not a duration"),
        ("", "it has 0 characters"),
        ("1" * 150 + " s", "it has 152 characters"),
        ("1:30:00.5", Fraction(10801, 2)),
        ("P1DT1S", Fraction(86401)),
        ("P", "is not a duration"),
        ("1,5 h", "is not a duration"),
    ],
)
def test_a_duration_has_one_reading_or_says_why_not(text, read, evidence_of):
    found = read_duration(text)
    assert read in found if isinstance(read, str) else found == read
    evidence = evidence_of({"/d.txt": text.encode()})
    assert duration_equals(evidence, "90 min", path="/d.txt")[0] is (found == 5400)
    if isinstance(read, str):
        with pytest.raises(ValueError, match="`value` is not a duration"):
            duration_equals(evidence, text, path="/d.txt")
