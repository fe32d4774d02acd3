import json
from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import rows
from sandlot.core.stats import intervals as stats
from sandlot.run.summary import Summary, summarise

MIXED = [
    rows.scored("a", 0, 1.0, tags=("easy", "sql"), seconds=9.0, phases={"model": 8.0, "tools": 1.0}),
    rows.scored("a", 1, 0.5, tags=("easy", "sql"), end="turn_limit"),
    rows.scored("b", 0, 0.0, split="heldout", end="refused", attempts=3),
    rows.failed("b", 1, side="grader", kind="timeout", split="heldout"),
    rows.failed("c", 0, side="sandbox", kind="crash", attempts=2),
    rows.cancelled("c", 1),
]


def any_row():
    keys = st.tuples(st.sampled_from("abcd"), st.integers(0, 99))
    return st.one_of(
        st.builds(
            lambda key, score, end: rows.scored(*key, score, end=end), keys, st.floats(0, 1), st.sampled_from(["done", "refused"])
        ),
        st.builds(lambda key, side: rows.failed(*key, side), keys, st.sampled_from(["environment", "model", "grader"])),
        st.builds(lambda key: rows.cancelled(*key), keys),
    )


def test_every_rollout_is_counted_once():
    summary = summarise(rows.tables(MIXED), cancelled=2)
    assert (summary.rollouts, summary.scored, summary.cancelled, summary.tasks) == (8, 3, 3, 3)
    assert summary.failed == {"environment": 0, "sandbox": 1, "model": 0, "grader": 1, "harness": 0}
    assert summary.kinds == {"grader/timeout": 1, "sandbox/crash": 1}
    assert summary.dropped == pytest.approx(5 / 8)
    assert summary.attempts == 9


def test_only_scored_rollouts_make_the_score():
    summary = summarise(rows.tables(MIXED))
    assert (summary.score.value, summary.pass_rate.value) == (0.5, pytest.approx(1 / 3))
    assert summary.score.low < 0.5 < summary.score.high
    assert summary.histogram == (1, 0, 0, 0, 0, 1, 0, 0, 0, 1)


def test_ends_times_and_costs_are_added_up():
    summary = summarise(rows.tables(MIXED))
    assert summary.ends == {"cut": 3, "done": 1, "turn_limit": 1, "refused": 1}
    assert (summary.turns, summary.calls, summary.prompt_tokens, summary.completion_tokens) == (12, 6, 600, 60)
    assert summary.usd == pytest.approx(0.06)
    assert list(summary.phases) == ["model", "tools"]
    assert (summary.phases["model"].seconds, summary.phases["model"].share) == (18.0, pytest.approx(0.75))
    assert (summary.durations.p50, summary.durations.longest) == (3.0, 9.0)


def test_the_slowest_come_first_with_the_phase_that_took_longest():
    many = [rows.scored("t", i, seconds=float(i % 37), phases={"model": 0.1, "tools": float(i % 37)}) for i in range(100)]
    summary = summarise(rows.tables([*MIXED, *many]))
    assert [slow.seconds for slow in summary.slowest] == [36.0, 36.0, 35.0, 35.0, 34.0]
    assert {slow.phase for slow in summary.slowest} == {"tools"}


def test_splits_and_tags_have_their_own_numbers():
    summary = summarise(rows.tables(MIXED))
    assert {name: (part.tasks, part.rollouts, part.scored) for name, part in summary.splits.items()} == {
        "heldout": (1, 2, 1),
        "train": (2, 4, 2),
    }
    assert set(summary.tags) == {"easy", "sql"}
    assert summary.tags["easy"].score.value == 0.75
    assert "one task" in summary.tags["easy"].score.note


def test_pass_at_k_counts_tasks_that_have_enough_scored_rollouts():
    three = (
        [rows.scored("a", i, float(i == 0)) for i in range(4)]
        + [rows.scored("b", i, 0.0) for i in range(2)]
        + [rows.failed("b", 2)]
    )
    at = {each.k: each for each in summarise(rows.tables(three)).pass_at}
    assert set(at) == {1, 2, 4}
    assert (at[1].share.value, at[1].tasks) == (pytest.approx(0.125), 2)
    assert (at[2].share.value, at[2].tasks) == (pytest.approx(0.25), 2)
    assert (at[4].share.value, at[4].tasks) == (1.0, 1)


def test_a_run_in_which_nothing_was_scored_has_no_score():
    summary = summarise(rows.tables([rows.failed(), rows.cancelled()]), verdict="stopped")
    assert summary.score.value is summary.pass_rate.value is None
    assert summary.pass_at == ()
    assert summary.machine_readable()["score"] == {"mean": None, "low": 0.0, "high": 1.0}


def test_a_run_without_rollouts_is_summed_up_too():
    summary = summarise([])
    assert (summary.rollouts, summary.dropped, summary.durations) == (0, 0.0, None)


def test_scores_outside_zero_to_one_widen_the_bounds_and_stay_in_the_histogram():
    summary = summarise(rows.tables([rows.scored("a", 0, -0.5), rows.scored("b", 0, 1.5)]))
    assert (summary.score.low, summary.score.high) == (-0.5, 1.5)
    assert summary.histogram == (1, *([0] * 8), 1)


def test_the_machine_readable_object_has_the_promised_keys_and_is_json():
    shown = summarise(rows.tables(MIXED), run="runs/x", verdict="incomplete", cpu_s=1.5, wall_s=2.5).machine_readable()
    assert list(shown) == [
        "run",
        "rollouts",
        "scored",
        "failed",
        "cancelled",
        "score",
        "pass_rate",
        "turns",
        "cpu_s",
        "wall_s",
        "verdict",
    ]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert (shown["run"], shown["verdict"], shown["cpu_s"], shown["wall_s"]) == ("runs/x", "incomplete", 1.5, 2.5)


def test_a_summary_can_be_written_down_and_read_again():
    summary = summarise(rows.tables(MIXED))
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary


@given(st.lists(any_row(), max_size=40), st.randoms())
def test_one_pass_agrees_with_counting_slowly_in_any_order(some, rng):
    summary = summarise(rows.tables(some))
    graded = [row for row in some if row.outcome == "scored"]
    assert summary.scored + sum(summary.failed.values()) + summary.cancelled == summary.rollouts == len(some)
    assert summary.ends == dict(Counter(row.end for row in some))
    assert sum(summary.histogram) == len(graded)
    assert sum(part.scored for part in summary.splits.values()) == len(graded)
    if graded:
        by_task = {row.task: [r.score for r in graded if r.task == row.task] for row in graded}
        slow = stats.clustered_mean([stats.Sums(len(v), sum(v)) for v in by_task.values()], bounds=(0, 1))
        assert (summary.score.value, summary.score.low, summary.score.high) == (slow.value, slow.low, slow.high), (
            "to the last bit"
        )
    rng.shuffle(some)
    assert summarise(rows.tables(some)).score.value == pytest.approx(summary.score.value)


def test_more_rollouts_of_the_same_tasks_do_not_pretend_to_know_other_tasks():
    rng = Random(0)
    shares = [rng.random() for _ in range(10)]
    few, many = (
        summarise(
            rows.tables(rows.scored(f"t{i}", r, float(rng.random() < p)) for i, p in enumerate(shares) for r in range(count))
        )
        for count in (10, 100)
    )
    assert many.pass_rate.high - many.pass_rate.low > 0.7 * (few.pass_rate.high - few.pass_rate.low)
