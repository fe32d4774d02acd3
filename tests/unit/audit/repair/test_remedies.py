"""What each remedy makes of a grader: the text that it proposes is run on right and wrong answers."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.repair import fairer, stricter
from sandlot.audit.repair.edits import CodeChange
from sandlot.audit.repair.grading_code import GradingFunction, grading_functions
from sandlot.audit.repair.rubric_files import changes_of_rubrics, required_first
from sandlot.audit.subject import Description
from sandlot.core.task import Task


def finding(code: str = "D13.golden", observed: str = "", check: str | None = None) -> Finding:
    witness = Witness(inputs={}, expected="", observed=observed)
    return Finding(
        code=code, title="t", layer=Layer.GRADER, probe="p", severity=Severity.HIGH, standing=Confidence.LEAD,
        check=check, witness=witness,
    )  # fmt: skip


def grader(text: str) -> tuple[str, GradingFunction]:
    text = inspect.cleandoc(text) + "\n"
    about = Description(name="grading:score", kind="grader", fingerprint="f", tasks=(Task("a"),), sources={"grading.py": text})
    (function,) = grading_functions(about, {"grading.py": text}, finding())
    return text, function


def scored(text: str, changes: Iterator[CodeChange], *calls: tuple[str, object]) -> list[list[object]]:
    """What each changed version gives for each call; changes that do not fit are left out."""
    found = []
    for change in changes:
        changed = change.apply(text)
        if changed is not None:
            space: dict[str, Callable[..., object]] = {}
            exec(changed, space)
            found.append([space["score"](*call) for call in calls])
    return found


def test_a_key_inside_the_answer_is_compared_with_the_whole():
    text, code = grader("""
        def score(answer, expected):
            return expected in answer
    """)
    calls = (("5", "5"), ("5.", "5"), ("1 5 9", "5"), ("-5", "5"))
    assert scored(text, stricter.whole_answer(code), *calls)[0] == [True, True, False, False]


def test_the_only_number_of_an_answer_may_have_words_around_it():
    text, code = grader("""
        def score(answer, expected):
            return float(expected in answer)
    """)
    calls = (("It is 5.", "5"), ("1 5 9", "5"), ("-5", "5"))
    assert scored(text, stricter.whole_answer(code), *calls)[-1] == [1.0, 0.0, 0.0]


def test_a_pattern_matches_all_of_the_answer():
    text, code = grader(r"""
        import re

        def score(answer, expected):
            return re.search(rf"{expected}( km)?", answer) is not None
    """)
    calls = (("5 km ", "5"), ("15 km", "5"), ("5 km or 6 km", "5"))
    assert scored(text, stricter.whole_pattern(code), *calls)[0] == [True, False, False]


def test_a_tolerance_becomes_smaller_step_by_step():
    text, code = grader("""
        def score(answer, expected):
            return abs(float(answer) - expected) <= 0.5
    """)
    found = scored(text, stricter.narrower(code), ("5.04", 5), ("5.4", 5))
    assert found[:2] == [[True, False], [False, False]]


def test_numbers_are_compared_before_they_are_cut():
    text, code = grader("""
        def score(answer, expected):
            return int(float(answer)) == int(expected)
    """)
    assert scored(text, stricter.narrower(code), ("5.0", 5), ("5.9", 5)) == [[True, False]]


def test_an_answer_is_read_as_a_value_and_not_run():
    text, code = grader("""
        def score(answer, expected):
            try:
                return eval(answer) == expected
            except (ValueError, SyntaxError):
                return False
    """)
    calls = (("5", 5), ("type('E', (), {'__eq__': lambda s, o: True})()", 5))
    assert scored(text, stricter.literal(code), *calls)[0] == [True, False]


def test_nothing_but_what_is_wanted_may_be_there():
    text, code = grader("""
        def score(answer, expected):
            return set(expected) <= set(answer.split())
    """)
    assert scored(text, stricter.same_set(code), ("a b", ["a", "b"]), ("a b c", ["a", "b"])) == [[True, False]]


def test_an_error_on_a_strange_answer_means_not_met_and_no_other_error_does():
    text, code = grader("""
        def score(answer, expected):
            return abs(float(answer) - expected) < 0.1
    """)
    changes = list(fairer.not_met_on_error(code, finding("D09.crash", "ValueError: could not convert string to float: 'x'")))
    assert scored(text, iter(changes), ("5", 5), ("x", 5))[0] == [True, 0.0]
    assert "except ValueError:" in (changes[0].apply(text) or "")


def test_an_error_joins_those_that_mean_not_met():
    text, code = grader("""
        def score(answer, expected):
            try:
                value = 10 / int(answer)
            except ValueError:
                return False
            return value == expected
    """)
    change = next(fairer.not_met_on_error(code, finding("D09.crash", "ZeroDivisionError: division by zero")))
    assert "except (ValueError, ZeroDivisionError):" in (change.apply(text) or "")
    assert scored(text, iter([change]), ("2", 5), ("0", 5)) == [[True, False]]


def test_an_error_pays_nothing():
    text, code = grader("""
        def score(answer, expected):
            try:
                return float(answer) == expected
            except ValueError:
                return 0.5
    """)
    assert scored(text, fairer.default_of_nothing(code), ("5", 5), ("x", 5)) == [[True, 0.0]]


def test_what_is_done_to_the_answer_is_done_to_the_key():
    text, code = grader("""
        def score(answer, expected):
            return answer.strip().lower() == expected
    """)
    assert scored(text, fairer.both_sides(code), ("paris", "Paris"), ("Rome", "Paris"))[0] == [True, False]


def test_texts_that_stand_for_numbers_are_compared_by_value():
    text, code = grader("""
        def score(answer, expected):
            return answer.strip() == str(expected)
    """)
    assert scored(text, fairer.by_value(code), ("1,250.50", 1250.5), ("1250.6", 1250.5)) == [[True, False]]


def test_a_reward_stays_in_its_range_and_is_not_rounded():
    text, code = grader("""
        def score(answer, expected):
            return round(len(answer) / expected)
    """)
    assert scored(text, fairer.bounded(code), ("aaaaaa", 3)) == [[1.0]]
    assert scored(text, fairer.unrounded(code), ("a", 4)) == [[0.25]]


RUBRIC = """{
  "format": 1,
  "checks": [
    {"kind": "python", "id": "total", "ref": "sandlot:answer_number", "args": {"value": "$key.n", "tolerance": 5.0}},
    {"kind": "python", "id": "words", "ref": "sandlot:answer_matches", "args": {"pattern": "paid"}},
    {"kind": "python", "id": "note", "ref": "sandlot:file_contains", "args": {"path": "/n", "text": "paid"}}
  ]
}
"""


@pytest.mark.parametrize(
    ("check", "line"),
    [
        ("total", '"tolerance": 0.5'),
        ("words", '"pattern": "^\\\\s*(?:paid)\\\\.?\\\\s*$"'),
        ("note", '"ref": "sandlot:file_equals"'),
    ],
)
def test_a_rubric_file_gets_the_strict_form_of_a_check_and_stays_as_it_is_elsewhere(check: str, line: str):
    change = next(changes_of_rubrics({"rubrics/default.json": RUBRIC}, finding(check=check)))
    changed = change.apply(RUBRIC)
    assert changed is not None
    assert line in changed
    assert sum(old != new for old, new in zip(RUBRIC.splitlines(), changed.splitlines(), strict=True)) == 1


def test_a_check_of_a_rubric_file_may_require_another_one():
    (change,) = required_first({"rubrics/default.json": RUBRIC}, finding(check="words"), ("total",))
    assert '{"requires": ["total"], "kind": "python", "id": "words"' in (change.apply(RUBRIC) or "")


def test_an_import_that_is_needed_comes_first_and_only_once():
    change = CodeChange("a.py", "w", (), ("import re",))
    assert change.apply('"""Doc."""\n\nimport os\n') == '"""Doc."""\n\nimport re\nimport os\n'
    assert change.apply("import re\n") is None
    assert change.apply("x = 1\n") == "import re\n\nx = 1\n"
