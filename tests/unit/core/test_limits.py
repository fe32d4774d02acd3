import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.limits import Constraint, Limits, OnBreach


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_limit_that_is_no_limit_is_refused_by_name(value):
    with pytest.raises(ConfigError, match="limit `turns`"):
        Limits(turns=value)


def test_overrides_replace_and_unknown_ones_are_refused():
    assert Limits().but({"turns": 3}).turns == 3
    assert Limits().but({}) == Limits()
    with pytest.raises(ConfigError, match=r"unknown field `turn`.*limits: turns"):
        Limits().but({"turn": 3})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"where": {"amount": "("}}, "not a regular expression"),
        ({"at_most": -1}, "give numbers from 0 up"),
        ({"points": -2.0, "on_breach": "penalty"}, "give numbers from 0 up"),
        ({"on_breach": "penalty"}, "a penalty of 0 points"),
        ({"on_breach": "explode"}, "use refuse, penalty, end"),
    ],
)
def test_a_constraint_that_cannot_work_is_refused(fields, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Constraint(id="x", tool="*", **fields)


def test_a_constraint_says_what_it_is():
    assert Constraint(id="x", tool="pay", where={"to": "^me"}).describe() == "`pay` with to matching /^me/ is forbidden"
    assert Constraint(id="x", tool="*", at_most=2).describe() == "any tool may be called at most 2 times"
    assert Constraint(id="x", tool="*", on_breach="end").on_breach is OnBreach.END
