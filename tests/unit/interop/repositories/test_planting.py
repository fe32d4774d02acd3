from collections import Counter
from dataclasses import replace

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.baseline import Baseline, sorted_out, unsteady_functions
from sandlot.interop.repositories.mutation import BugKind
from sandlot.interop.repositories.package import hidden_tests
from sandlot.interop.repositories.planting import (
    candidates,
    confirmed,
    follows,
    gradable,
    graded_tests,
    guardable_tests,
    judged,
)
from sandlot.interop.repositories.suite import JobResult, TestReport
from sandlot.interop.repositories.verified import require_end
from worlds.repair import LEDGER, TESTS

PATH = "src/ledger/sums.py"
LINES = {number: (f"t::line{number}", "t::all") for number, line in enumerate(LEDGER.splitlines(), 1) if line.startswith("    ")}
SECONDS = {"t::all": 0.2} | {tests[0]: 0.01 for tests in LINES.values()}
BASE = Baseline(SECONDS, {PATH: LINES}, {})


def result(*outcomes: tuple[str, str], finished: bool = True) -> JobResult:
    reports = tuple(TestReport(test, outcome, 0.01, {"message": "assert 1 == 2", "depth": 1}) for test, outcome in outcomes)
    return JobResult(reports=reports, not_collected={}, lines={}, finished=finished, late=False, seconds=0.1)


def test_candidates_have_exactly_the_tests_that_run_their_lines_first():
    """Slow twin: for each candidate, look at every line and every test."""
    found = list(candidates({PATH: LEDGER}, BASE))
    assert len(found) > 20
    for each in found:
        last = each.mutation.line + LEDGER.count("\n", each.mutation.start, each.mutation.end)
        at = {test for test in SECONDS for line in range(each.mutation.line, last + 1) if test in LINES.get(line, ())}
        assert at
        assert set(each.tests[: len(at)]) == at
        assert set(each.tests) <= set(SECONDS)


def test_candidates_are_spread_over_functions_and_the_same_every_time():
    first = [(each.place, each.mutation) for each in candidates({PATH: LEDGER}, BASE)]
    assert first == [(each.place, each.mutation) for each in candidates({PATH: LEDGER}, BASE)]
    assert len({place for place, _ in first[:3]}) == 3
    kinds = Counter(mutation.kind for _, mutation in first)
    assert kinds[BugKind.BODY] >= 2


def test_how_long_quick_tests_took_does_not_change_the_candidates():
    slower = Baseline(
        {test: seconds + 0.05 * (number % 2) for number, (test, seconds) in enumerate(SECONDS.items())}, BASE.lines, {}
    )
    assert list(candidates({PATH: LEDGER}, slower)) == list(candidates({PATH: LEDGER}, BASE))


def test_a_line_that_no_test_runs_has_no_candidate():
    only = Baseline({"t::all": 0.1}, {PATH: {8: ("t::all",)}}, {})
    assert {each.mutation.line for each in candidates({PATH: LEDGER}, only)} <= {8, 7, 6}


def test_a_bug_is_kept_only_if_some_tests_fail_and_others_pass():
    candidate = next(iter(candidates({PATH: LEDGER}, BASE)))
    tests = candidate.tests
    sure = frozenset(SECONDS)
    assert judged(candidate, result(*((test, "passed") for test in tests)), BASE, sure)[1] == "no test notices"
    assert judged(candidate, result(finished=False), BASE, sure)[1] == "does not end, or ends the test run"
    assert judged(candidate, result(*((test, "failed") for test in tests)), BASE, frozenset())[0] is None
    bug, why = judged(candidate, result((tests[0], "failed"), *((test, "passed") for test in tests[1:])), BASE, sure)
    assert (bug is not None, why) == (True, "")
    assert bug.fail_to_pass == (tests[0],)
    assert set(bug.pass_to_pass) == set(tests[1:])


def test_an_issue_is_written_from_a_failure_that_says_something():
    candidate = next(iter(candidates({PATH: LEDGER}, BASE)))
    vague, telling, *others = sorted(SECONDS)
    said = {vague: "AssertionError", telling: "assert 'a long value' == 'and another one'"}
    reports = [TestReport(test, "failed", 0.01, {"message": text, "depth": 1}) for test, text in said.items()]
    done = result(*((test, "passed") for test in others))
    bug, _ = judged(candidate, replace(done, reports=(*reports, *done.reports)), BASE, frozenset(SECONDS))
    assert bug is not None
    assert bug.report.test == telling
    only_vague = replace(done, reports=(reports[0], *done.reports))
    assert judged(candidate, only_vague, BASE, frozenset(SECONDS)) == (None, "no failure says what is wrong")


def test_a_test_that_does_not_follow_its_added_assertion_is_not_used():
    plan = graded_tests(["t::a", "t::b"], ["t::c"])
    faithful = [(test, "failed" if bit is False else "passed") for test, bit in plan]
    assert follows(plan, result(*faithful)) == {"t::a", "t::b", "t::c"}
    always = [(test, "passed" if test == "t::b" else outcome) for test, outcome in faithful]
    assert follows(plan, result(*always)) == {"t::a", "t::c"}
    assert follows(plan, result(*faithful[1:])) == set()


def test_a_bug_without_the_test_of_its_issue_is_not_kept():
    candidate = next(iter(candidates({PATH: LEDGER}, BASE)))
    outcomes = [(candidate.tests[0], "failed"), *((test, "passed") for test in candidate.tests[1:])]
    bug, _ = judged(candidate, result(*outcomes), BASE, frozenset(SECONDS))
    assert bug is not None
    assert confirmed(bug, frozenset(SECONDS)) == bug
    assert confirmed(bug, frozenset(SECONDS) - {bug.report.test}) is None


@pytest.fixture
def bug():
    candidate = next(iter(candidates({PATH: LEDGER}, BASE)))
    outcomes = [(test, "failed" if place < 2 else "passed") for place, test in enumerate(candidate.tests)]
    found, _ = judged(candidate, result(*outcomes), BASE, frozenset(SECONDS))
    assert found is not None
    return found


def graded(bug, *, repaired, passing=()):
    """What a grading of the bug does; the tests `passing` pass whenever their bit says so."""
    plan = graded_tests(bug.fail_to_pass, bug.pass_to_pass)
    return result(
        *((test, "passed" if bit is None or (bit and (repaired or test in passing)) else "failed") for test, bit in plan)
    )


def test_a_bug_is_kept_if_a_repair_gets_all_marks_and_doing_nothing_none(bug):
    plan = graded_tests(bug.fail_to_pass, bug.pass_to_pass)
    assert gradable(bug, plan, graded(bug, repaired=True), graded(bug, repaired=False)) == (bug, "")
    assert gradable(bug, plan, graded(bug, repaired=False), graded(bug, repaired=False))[0] is None
    assert gradable(bug, plan, graded(bug, repaired=True), graded(bug, repaired=True))[0] is None
    cut_off = replace(graded(bug, repaired=False), finished=False)
    assert gradable(bug, plan, graded(bug, repaired=True), cut_off)[0] is None


def test_a_test_that_passes_without_a_repair_is_not_used(bug):
    told, other = bug.report.test, next(test for test in bug.fail_to_pass if test != bug.report.test)
    plan = graded_tests(bug.fail_to_pass, bug.pass_to_pass)
    sure, _ = gradable(bug, plan, graded(bug, repaired=True), graded(bug, repaired=False, passing={other}))
    assert sure is not None
    assert sure.fail_to_pass == (told,)
    assert gradable(bug, plan, graded(bug, repaired=True), graded(bug, repaired=False, passing={told}))[0] is None


def test_a_test_that_fails_only_the_first_time_is_not_used(bug):
    """In a grading, the bit of the first time may be the one with which it should fail."""
    told = bug.report.test
    plan = graded_tests(bug.fail_to_pass, bug.pass_to_pass)
    unrepaired = list(graded(bug, repaired=False, passing={told}).reports)
    first = next(place for place, (test, _) in enumerate(plan) if test == told)
    unrepaired[first] = replace(unrepaired[first], outcome="failed")
    done = replace(graded(bug, repaired=False), reports=tuple(unrepaired))
    assert gradable(bug, plan, graded(bug, repaired=True), done)[0] is None


def test_a_run_that_was_cut_off_shows_no_failing_tests():
    require_end(result(("t::a", "failed")))
    with pytest.raises(ConfigError, match="do not run to their end"):
        require_end(result(("t::a", "passed"), finished=False))
    broken = replace(result(finished=False), not_collected={"conftest.py": "Traceback\nImportError: no name\n"})
    with pytest.raises(ConfigError, match=r"`conftest.py`: ImportError: no name"):
        require_end(broken)


def test_hidden_tests_are_taken_out_of_their_files():
    names = ["t.py::TestSplit::test_even", "t.py::test_total_of_rows[rows0-6]", "t.py::TestSplit::test_nobody"]
    text = TESTS.replace("import time\n", "import time\n\x0c\n", 1)  # a form feed is no line for Python
    for change in hidden_tests({"t.py": text}, names):
        text = text[: change["start"]] + change["text"] + text[change["end"] :]
    compile(text, "t.py", "exec")
    assert "test_total_of_rows" not in text
    assert "rows0" not in text
    assert "parametrize" not in text
    assert (
        "class TestSplit:\n    pass\n\n    def test_uneven(self):\n        assert split(10, 4) == [3, 3, 2, 2]\n\n    pass\n"
        in text
    )
    assert text.endswith("assert total([1]) == 2\n")


def test_only_functions_of_the_file_itself_can_be_guarded():
    text = "from other import Base\nclass TestA(Base):\n    def test_x(self):\n        assert 1\ndef test_y():\n    yield 1\n"
    tests = ["t.py::TestA::test_x", "t.py::TestA::test_inherited", "t.py::test_y", "t.py::TestA::test_x[a::b]"]
    assert guardable_tests({"t.py": text}, tests) == {"t.py::TestA::test_x", "t.py::TestA::test_x[a::b]"}


def test_tests_that_fail_in_another_order_or_measure_time_are_left_out():
    text = "import time\ndef test_slow():\n    time.sleep(0)\ndef test_good():\n    pass\n"
    assert unsteady_functions(text) == {"test_slow": "measures time"}
    names = ("good", "slow", "flaky", "bad", "skipped")
    first = result(*((f"t.py::test_{name}", "passed" if name in {"good", "slow", "flaky"} else "failed") for name in names))
    again = result(("t.py::test_good", "passed"), ("t.py::test_slow", "passed"), ("t.py::test_flaky", "failed"))
    found = sorted_out(first, again, {"t.py": text})
    assert list(found.seconds) == ["t.py::test_good"]
    assert found.left_out == {"measures time": 1, "fails in another order": 1, "fails on the right source": 2}


def test_tests_that_draw_their_input_are_left_out():
    text = """from hypothesis import given, strategies
import random

@given(strategies.text())
def test_drawn(text):
    pass

class TestMore:
    @hypothesis.given(1)
    @hypothesis.settings(max_examples=2)
    def test_also(self):
        pass

    def test_shuffled(self):
        random.shuffle([1])

def test_given_name():
    pass
"""
    why = "draws its input at random"
    assert unsteady_functions(text) == {"test_drawn": why, "TestMore::test_also": why, "TestMore::test_shuffled": why}
