import pytest

from sandlot.interop.repositories.issue_text import issue_of, says_something, topic_of
from sandlot.interop.repositories.suite import TestReport

TEST = 'def test_shows_days():\n    assert shown(2) == "2 days"\n\ndef test_turned():\n    assert "2 days" == shown(2)\n'


def report(message: str, line: int = 2, test: str = "tests/test_time.py::TestDays::test_shows_days[a-1]") -> TestReport:
    return TestReport(test, "failed", 0.1, {"message": message, "test_line": line, "depth": 1})


@pytest.mark.parametrize(
    ("message", "line", "got", "expected"),
    [
        ("AssertionError: assert '3 days' == '2 days'\n  \n  - 2 days\n  + 3 days", 2, "'3 days'", "'2 days'"),
        ("AssertionError: assert '2 days' == '3 days'\n  - x", 5, "'3 days'", "'2 days'"),
        ("assert 3 == 2\n +  where 3 = shown(2)", 2, "3", "2"),
        ("AssertionError: 'a' != 'b'\n- a\n+ b", 2, "'a'", "'b'"),
    ],
)
def test_expected_and_got_are_told_apart(message, line, got, expected):
    text = issue_of("humanize", report(message, line), TEST)
    assert f"Got:\n\n    {got}\n\nExpected:\n\n    {expected}" in text


def test_errors_are_told_in_words():
    assert "    TypeError: bad operand" in issue_of("p", report("TypeError: bad operand"), TEST)
    assert "    NotImplementedError" in issue_of("p", report("NotImplementedError"), TEST)
    assert "`ValueError` should be raised" in issue_of("p", report("Failed: DID NOT RAISE <class 'ValueError'>"), TEST)


def test_an_assertion_that_compares_nothing_is_told_by_what_was_called():
    text = issue_of("p", report("assert False\n +  where False = is_odd(3)\n +    where 3 = size('abc')"), TEST)
    assert "This\n\n    is_odd(3)\n\nis `False`. It should be true." in text
    assert "is `[1]`. It should be false." in issue_of("p", report("assert not [1]\n +  where [1] = found()"), TEST)


def test_a_changed_constant_may_be_the_value_that_is_seen():
    assert "    True" in issue_of("p", report("assert False is True"), TEST, change="True")


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: False is not true",
        "assert <function a at 0x7f0011223344> != <function a at 0x7f0011223344>",
    ],
)
def test_a_failure_that_says_nothing_is_known_as_such(message):
    assert not says_something(report(message))


def test_neither_the_test_nor_the_place_is_in_it():
    message = 'RuntimeError: in /work/repo/src/humanize/time.py:73, line 73 of "src/humanize/time.py"'
    text = issue_of("humanize", report(message), TEST, change="found += row")
    for told in ("test_time", "time.py", "73", "def ", "shown(2)", "/work"):
        assert told not in text
    assert "found += row" not in issue_of("p", report("assert 'found += row' == 2"), TEST, change="found += row")


def test_the_topic_is_in_words():
    assert topic_of("tests/test_time.py::TestNaturalDelta::test_minimum_unit[a::b]") == '"natural delta" / "minimum unit"'
    assert topic_of("tests/test_lru.py::TLRUCacheTest::test_ttl") == '"tlru cache" / "ttl"'
