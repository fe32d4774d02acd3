"""Crashes that did not decide how a rollout ended are shown with the health of a run."""

from builders.rows import scored
from sandlot.analysis.health.crashes import crashes
from sandlot.analysis.health.item import HealthMark

CRASH = "buy: KeyError at tools.py:12 in buy"


def test_a_run_without_crashes_is_fine():
    assert crashes([scored("one", 0)]).mark is HealthMark.OK


def test_crashes_are_counted_by_tool_and_place_and_by_task():
    rows = [scored(f"task-{number % 3}", number, crashes=(CRASH,) if number < 6 else ()) for number in range(12)]
    item = crashes(rows)
    assert item.mark is HealthMark.WARN
    assert item.said == f"6 of 12 rollouts were graded after a crash of the environment: {CRASH} (6 rollouts of 3 tasks)"
    assert item.figures == {CRASH: {"rollouts": 6, "tasks": 3}}
    assert item.look == ("task-0/0",)


def test_what_agents_break_inside_their_own_sandboxes_is_shown_and_fails_nothing():
    rows = [scored(f"task-{number}", number, crashes=("work: server, in the sandbox",)) for number in range(8)]
    assert crashes(rows).mark is HealthMark.WARN


def test_a_crash_that_would_stop_a_run_fails_its_health():
    rows = [scored(f"task-{number}", number, crashes=(CRASH,), started=float(number)) for number in range(8)]
    assert crashes(rows).mark is HealthMark.FAIL
