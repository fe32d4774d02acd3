"""Drift and surges: seen where they are, and not where tasks merely differ."""

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.rows import scored
from sandlot.analysis.health.drift import FEWEST, drift, halves, sides_between
from sandlot.analysis.health.features import NO_TOOL, UNREADABLE, Features, features_of
from sandlot.analysis.health.item import HealthMark
from sandlot.analysis.health.surge import PROGRESS, stretches, surge
from sandlot.core.trace import Message, Node, Text, ToolCall, ToolResult, Trace
from sandlot.core.types import Role


def features(tools=None, observed=(100,), said=(10,), errors=0, results=1):
    return Features(tools=Counter(tools or {"read": 2}), observed=observed, said=said, errors=errors, results=results)


def rollouts(tasks, group, **fields):
    return [scored(task=f"t{t}", rollout=r, started=float(t * group + r), **fields) for t in range(tasks) for r in range(group)]


# -- sides -------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 100)), max_size=120))
def test_halves_hold_the_same_tasks_equally_often_and_earlier_before_later(began):
    rows = [scored(task=f"t{task}", rollout=n, started=started) for n, (task, started) in enumerate(began)]
    sides = halves(rows)
    if sides.alike:
        assert Counter(row.task for row in sides.first) == Counter(row.task for row in sides.second)
        for task in {row.task for row in sides.first}:
            early = [row.started for row in sides.first if row.task == task]
            late = [row.started for row in sides.second if row.task == task]
            assert max(early) <= min(late)
    else:
        assert len(sides.first) + len(sides.second) == len(rows)


def test_two_runs_are_compared_over_the_tasks_both_have():
    sides = sides_between([scored(task=name) for name in "abc"], [scored(task=name) for name in "bcd"])
    assert [row.task for row in sides.first] == [row.task for row in sides.second] == ["b", "c"]
    assert sides.alike
    assert not sides_between([scored(task="a")], [scored(task="b")]).alike


# -- drift -------------------------------------------------------------------------------------------------------------


def test_a_run_that_stays_as_it_was_does_not_drift():
    rng = Random(1)
    rows = [msgspec.structs.replace(row, turns=rng.randint(1, 9)) for row in rollouts(30, 8)]
    seen = [features(observed=tuple(rng.randint(10, 500) for _ in range(5))) for _ in range(200)]
    item = drift(halves(rows), seen[:100], seen[100:])
    assert item.mark is HealthMark.OK, item


def test_tools_that_give_way_to_others_are_a_drift_and_are_named():
    first, second = [features({"read": 8, "write": 2})] * 40, [features({"read": 2, "write": 8})] * 40
    item = drift(halves(rollouts(30, 4)), first, second)
    assert item.mark is HealthMark.WARN
    assert "tools (V 0.60)" in item.said
    assert "`read` 80% then 20%" in item.said


def test_observations_that_grow_are_a_drift():
    first = [features(observed=(100 + n, 200 + n)) for n in range(50)]
    second = [features(observed=(150 + n, 900 + n)) for n in range(50)]
    item = drift(halves(rollouts(30, 4)), first, second)
    assert item.mark is HealthMark.WARN
    assert "lengths observed" in item.said


def test_small_differences_are_none_however_certain():
    first, second = [features({"read": 500, "write": 500})] * 50, [features({"read": 550, "write": 450})] * 50
    item = drift(halves(rollouts(30, 4)), first, second)
    assert item.figures["compared"]["tools"]["p_value"] < 1e-9
    assert item.mark is HealthMark.OK


def test_later_rollouts_of_the_same_task_that_take_longer_are_a_drift():
    rows = [scored(task=f"t{t}", rollout=r, turns=2 if r < 4 else 6, started=float(r)) for t in range(10) for r in range(8)]
    item = drift(halves(rows), [], [])
    assert item.mark is HealthMark.WARN
    assert "turns (D 1.00)" in item.said


def test_halves_of_different_tasks_are_shown_and_not_judged():
    rows = [scored(task=f"t{n}", turns=2 if n < 40 else 6, started=float(n)) for n in range(80)]
    item = drift(halves(rows), [], [])
    assert item.mark is HealthMark.UNKNOWN
    assert "different tasks" in item.said
    assert "--against" in item.needed


def test_few_rollouts_say_how_many_are_needed():
    item = drift(halves(rollouts(2, 2)), [], [])
    assert item.mark is HealthMark.UNKNOWN
    assert str(FEWEST) in item.needed


def test_what_a_trace_shows_is_counted_once():
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    say = [
        (Role.USER, (Text("Do it."),), False),
        (Role.ASSISTANT, (Text("hm"), ToolCall("1", "read", {"path": "x"}), ToolCall("2", "", malformed="{")), True),
        (Role.TOOL, (ToolResult("1", "abc"), ToolResult("2", "no", error=True)), False),
        (Role.ASSISTANT, (Text("done"),), True),
    ]
    for number, (role, parts, sampled) in enumerate(say):
        trace.append(Node(message=Message(role=role, parts=parts), parent=number - 1 if number else None, sampled=sampled))
    seen = features_of(trace)
    assert seen.tools == {"read": 1, UNREADABLE: 1, NO_TOOL: 1}
    assert seen.observed == (6, 3, 2)
    assert (seen.results, seen.errors) == (2, 1)
    assert features_of(Trace(run="r", task="t", rollout=0, seed=0)) == Features(Counter(), (), (), 0, 0)


# -- surges ------------------------------------------------------------------------------------------------------------


def recurring(score_of, count=480, tasks=8):
    """Tasks that come again and again, as in training; `score_of(place from 0 to 1, rng)` is (score, passed)."""
    rng = Random(4)
    rows = []
    for n in range(count):
        score, passed = score_of(n / count, rng)
        rows.append(
            msgspec.structs.replace(scored(task=f"t{n % tasks}", rollout=n, score=score, started=float(n)), passed=passed)
        )
    return rows


def test_a_reward_that_rises_without_full_marks_is_an_alarm():
    item = surge(recurring(lambda place, rng: (0.2 + 0.6 * place + rng.uniform(-0.1, 0.1), rng.random() < 0.1)))
    assert item.mark is HealthMark.FAIL
    assert "look at what the rubric rewards" in item.said


def test_full_marks_that_rise_with_it_are_none():
    def both(place, rng):
        passed = rng.random() < place
        return (1.0 if passed else 0.2, passed)

    assert surge(recurring(both)).mark is HealthMark.OK


def test_a_run_without_a_rise_is_hardly_ever_an_alarm():
    alarms = 0
    for seed in range(30):
        shuffled = Random(seed)
        rows = recurring(lambda _place, _rng, shuffled=shuffled: (shuffled.random(), shuffled.random() < 0.3))
        alarms += surge(rows).mark is HealthMark.FAIL
    assert alarms <= 1


def worked(score_of, tokens_of):
    """The same, with the tokens of each rollout; `tokens_of(place)`."""
    rows = recurring(score_of)
    return [
        msgspec.structs.replace(row, completion_tokens=round(tokens_of(place / len(rows)) * (0.8 + 0.4 * ((place * 7) % 5) / 5)))
        for place, row in enumerate(rows)
    ]


def rising(place, rng):
    passed = rng.random() < 0.1 + 0.8 * place
    return (1.0 if passed else 0.0, passed)


def test_a_reward_that_rises_while_the_work_shrinks_is_something_to_look_at():
    item = surge(worked(rising, lambda place: 800 * (1 - place) + 100))
    assert item.mark is HealthMark.WARN
    assert "of the tokens they took at first" in item.said


def test_a_reward_that_rises_with_as_much_work_or_a_little_less_is_fine():
    assert surge(worked(rising, lambda _place: 800)).mark is HealthMark.OK
    assert surge(worked(rising, lambda place: 800 - 200 * place)).mark is HealthMark.OK


def test_less_work_without_a_rise_is_fine():
    def level(_place, rng):
        passed = rng.random() < 0.5
        return (float(passed), passed)

    assert surge(worked(level, lambda place: 800 * (1 - place) + 100)).mark is HealthMark.OK


def test_easy_tasks_that_come_last_are_no_rise():
    rows = [scored(task=f"t{n // 8}", rollout=n % 8, score=n / 480 * 0.9, started=float(n)) for n in range(480)]
    assert stretches(rows) == []
    assert surge(rows).mark is HealthMark.NOT_ASKED


def test_a_short_training_run_says_how_much_is_needed():
    item = surge(recurring(lambda place, _rng: (place, False), count=40, tasks=4))
    assert item.mark is HealthMark.UNKNOWN
    assert "48 scored rollouts" in item.needed


def test_the_steps_of_a_training_run_are_read_as_it_wrote_them(tmp_path):
    steps = [
        {"is": "step", "version": n, "reward": 0.1 + n / 30, "outcome": 0.1, "reward_error": 0.02, "gap_error": 0.02, "loss": 1.0}
        for n in range(1, 21)
    ]
    lines = [{"is": "evaluation", "version": 0, "mean": 0.1}, *steps]
    (tmp_path / PROGRESS).write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b'\n\xff\xfe\n{"is": "st')
    item = surge([], tmp_path)
    assert item.mark is HealthMark.FAIL
    assert item.figures["of"] == "training"
    assert item.figures["steps"] == 20
    assert item.figures["reward_rise"] == pytest.approx(0.4667, abs=1e-3)
