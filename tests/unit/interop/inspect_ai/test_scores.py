import pytest

from sandlot.core.errors import ConfigError, GradeError
from sandlot.interop.gyms.source import ScoreRange
from sandlot.interop.inspect_ai.records import LogScore
from sandlot.interop.inspect_ai.scores import rubric_score


def score(scale=None, **values):
    return rubric_score({name: LogScore(value=value) for name, value in values.items()}, scale)


@pytest.mark.parametrize(
    ("value", "share"),
    [("C", 1), ("P", 0.5), ("I", 0), ("N", 0), (True, 1), (False, 0), (0.25, 0.25), ("0.5", 0.5), ("yes", 1), ("No", 0), (1, 1)],
)
def test_values_are_the_numbers_that_inspect_makes_of_them(value, share):
    assert score(match=value).value == share


def test_every_scorer_and_every_key_is_a_check_and_the_reward_is_their_mean():
    found = score(includes="C", parts={"a": 1, "b": "I"}, rest=[0.5])
    assert [(check.id, check.value, check.verdict.value) for check in found.checks] == [
        ("includes", 1.0, "met"),
        ("parts.a", 1.0, "met"),
        ("parts.b", 0.0, "not_met"),
        ("rest.0", 0.5, "partly"),
    ]
    assert (found.points, found.possible, found.value) == (2.5, 4.0, 0.625)


@pytest.mark.parametrize("value", [None, "well done", {}, [], {"a": {"b": 1}}, "nan", "inf", {"a": None, "b": 1}])
def test_what_is_no_number_is_no_score_and_not_a_zero(value):
    with pytest.raises(GradeError):
        score(judge=value)


def test_no_scores_are_no_score():
    with pytest.raises(GradeError, match="it has no scores"):
        score()


def test_a_value_on_another_scale_is_refused_until_the_scale_is_named():
    with pytest.raises(ConfigError, match=r"gave 7, which is no share of full marks.*score=LOW\.\.HIGH"):
        score(points=7)
    assert score(ScoreRange(0.0, 10.0), points=7).value == 0.7
    assert score(ScoreRange(-1.0, 1.0), points=-5).value == 0.0


def test_a_flood_of_values_is_refused():
    with pytest.raises(GradeError, match="more than 1,000 values"):
        score(parts=[1] * 1001)
