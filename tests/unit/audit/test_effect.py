"""Severity by what an optimiser gains, and the order of findings."""

import pytest

from sandlot.audit.effect import AuditLimits, Direction, direction_of, effect_line, read_limits, weigh
from sandlot.audit.finding import Finding, Severity, Witness, make_finding
from sandlot.audit.reason import declared
from sandlot.core.errors import ConfigError

WITNESS = Witness(inputs={}, expected="", observed="")


def finding(code: str, effect: float | None = None, severity: Severity = Severity.HIGH) -> Finding:
    return make_finding(code, "t", WITNESS, severity=severity, effect=effect, reason=declared("an adversary"))


def test_accepted_wrong_work_comes_first_then_refused_right_work_then_the_rest():
    mixed = [finding("D01.stale"), finding("D13.golden", 0.9), finding("D22.near", 0.1), finding("D02.empty", 0.3)]
    assert [each.code for each in weigh(mixed, AuditLimits())] == ["D02.empty", "D22.near", "D13.golden", "D01.stale"]
    assert [direction_of(each) for each in mixed] == [
        Direction.OTHER,
        Direction.REFUSES_RIGHT,
        Direction.ACCEPTS_WRONG,
        Direction.ACCEPTS_WRONG,
    ]


@pytest.mark.parametrize(
    ("code", "effect", "severity"),
    [
        ("D02.empty", 0.01, Severity.LOW),
        ("D02.empty", 0.1, Severity.HIGH),
        ("D02.empty", 0.6, Severity.BLOCKER),
        ("D02.empty", None, Severity.HIGH),
        ("D22.spelling", 0.01, Severity.HIGH),
        ("D22.spelling", 0.9, Severity.HIGH),
    ],
)
def test_the_severity_follows_from_the_effect_and_the_direction(code: str, effect: float | None, severity: Severity):
    (found,) = weigh([finding(code, effect)], AuditLimits())
    assert found.severity is severity


def test_points_for_form_stay_minor_whatever_they_sum_up_to():
    (found,) = weigh([finding("D02.empty", 0.15, Severity.LOW)], AuditLimits())
    assert not found.grave


def test_an_author_may_state_other_limits_and_mistakes_in_them_are_named(tmp_path):
    file = tmp_path / "audit.toml"
    file.write_text("[limits]\naccepts_wrong = 0.2\nrefuses_right = 0.1\n")
    (kept, dropped) = weigh([finding("D22.spelling", 0.05), finding("D02.empty", 0.3)], read_limits(file))
    assert (kept.grave, dropped.grave) == (True, False)
    assert read_limits(None) == AuditLimits()
    for text, word in (("[limits]\naccepts = 1", "accepts_wrong, collapse"), ("[limits]\ncollapse = 7", "a share from 0 to 1")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=word):
            read_limits(file)


def test_the_largest_effect_of_each_direction_is_one_line():
    found = [finding("D02.empty", 0.25), finding("D02.echo", 0.75), finding("D13.golden", 0.1), finding("D01.stale")]
    assert effect_line(found) == "expected reward without the work: 75% (D02.echo), loss of right work: 10% (D13.golden)"
    assert effect_line([]) == ""
