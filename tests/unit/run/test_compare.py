from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import rows
from sandlot.core.stats import intervals as stats
from sandlot.run.compare import RunComparison, Sameness, compare


def run_of(scores: dict[str, list[float]]):
    return [rows.scored(task, number, score) for task, values in scores.items() for number, score in enumerate(values)]


def test_a_run_against_itself_shows_nothing():
    run = run_of({"a": [1.0, 0.0], "b": [0.5], "c": [0.0]})
    comparison = compare(run, run)
    assert comparison.score.value == comparison.pass_rate.value == comparison.dropped.value == 0
    assert comparison.p_value == 1.0
    assert (comparison.improved, comparison.regressed, comparison.unchanged, comparison.tasks) == ((), (), 3, 3)


def test_tasks_that_changed_are_listed_with_the_largest_change_first():
    comparison = compare(
        run_of({"a": [0.0], "b": [0.0], "c": [1.0], "d": [0.5]}), run_of({"a": [0.2], "b": [1.0], "c": [0.0], "d": [0.5]})
    )
    assert [change.task for change in comparison.improved] == ["b", "a"]
    assert [(change.task, change.difference) for change in comparison.regressed] == [("c", -1.0)]
    assert comparison.unchanged == 1


def test_rollouts_of_the_same_number_are_paired_where_both_were_scored():
    first = [rows.scored("a", 0, 1.0), rows.scored("a", 1, 0.0), rows.failed("a", 2)]
    second = [rows.scored("a", 1, 1.0), rows.scored("a", 2, 0.0), rows.scored("a", 3, 0.0)]
    (change,) = compare(first, second).improved
    assert (change.first, change.second, change.rollouts) == (0.0, 1.0, 1)


def test_without_a_pair_the_means_of_the_task_are_compared():
    (change,) = compare([rows.scored("a", 0, 0.5)], [rows.scored("a", 1, 1.0), rows.scored("a", 2, 0.8)]).improved
    assert (change.first, change.second, change.rollouts) == (0.5, 0.9, 0)


def test_tasks_in_one_run_only_and_tasks_never_scored_are_named_and_not_compared():
    comparison = compare(
        [rows.scored("a"), rows.scored("both"), rows.failed("broken")],
        [rows.scored("z"), rows.scored("both"), rows.scored("broken")],
    )
    assert (comparison.only_first, comparison.only_second, comparison.unscored) == (("a",), ("z",), ("broken",))
    assert comparison.tasks == 1


def test_failures_are_never_scores_and_show_as_dropped():
    first = [rows.scored(f"t{i}", r, 0.5) for i in range(10) for r in range(2)]
    second = [rows.scored(f"t{i}", 0, 0.5) for i in range(10)] + [rows.failed(f"t{i}", 1) for i in range(10)]
    comparison = compare(first, second)
    assert comparison.score.value == 0.0
    assert comparison.dropped.value == 0.5


def test_a_clear_improvement_is_measured_and_told_from_chance():
    rng = Random(4)

    def drawn(share: float):
        return run_of({f"t{i}": [float(rng.random() < share) for _ in range(4)] for i in range(40)})

    comparisons = [compare(drawn(0.3), drawn(0.6)) for _ in range(25)]  # one draw may be unlucky, most are not
    assert sum(comparison.score.low <= 0.3 <= comparison.score.high for comparison in comparisons) >= 22
    assert sum(comparison.p_value <= 0.05 for comparison in comparisons) >= 23


def test_alike_runs_are_called_different_about_as_rarely_as_promised():
    rng = Random(8)

    def drawn():
        return run_of({f"t{i}": [float(rng.random() < i / 20) for _ in range(4)] for i in range(20)})

    comparisons = [compare(drawn(), drawn()) for _ in range(60)]
    assert sum(comparison.p_value <= 0.05 for comparison in comparisons) <= 8
    assert sum(comparison.score.low <= 0 <= comparison.score.high for comparison in comparisons) >= 50


def test_one_shared_task_says_nothing_about_others():
    comparison = compare(run_of({"a": [0.0] * 50}), run_of({"a": [1.0] * 50}))
    assert (comparison.score.value, comparison.score.low, comparison.score.high) == (1.0, -1.0, 1.0)
    assert comparison.p_value == 1.0


def test_nothing_in_common_is_not_an_error():
    comparison = compare(run_of({"a": [1.0]}), [])
    assert (comparison.tasks, comparison.score.value, comparison.p_value) == (0, None, 1.0)


def test_mcnemar_is_given_only_for_one_pair_a_task():
    first, second = {f"t{i}": [0.0] for i in range(6)}, {f"t{i}": [1.0] for i in range(6)}
    assert compare(run_of(first), run_of(second)).mcnemar_p == pytest.approx(stats.mcnemar(0, 6))
    assert compare(run_of(first | {"t0": [0.0, 0.0]}), run_of(second | {"t0": [1.0, 1.0]})).mcnemar_p is None
    alike = {f"both{i}": [1.0] for i in range(3)} | {"none": [0.0]}
    worse = compare(run_of(first | alike | {"lost": [1.0]}), run_of(second | alike | {"lost": [0.0]}))
    assert worse.mcnemar_p == pytest.approx(stats.mcnemar(1, 6)), "only the pairs that differ count"


@pytest.mark.parametrize(
    ("settings", "note"),
    [(Sameness(first="a" * 64, second="a" * 64), ""), (Sameness(first="a" * 64, second="b" * 64), "differ"), (None, "not known")],
)
def test_settings_that_are_not_known_to_be_the_same_are_noted(settings, note):
    comparison = compare([], [], settings=settings)
    assert note in comparison.note


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 1), st.floats(0, 1))))
def test_turning_the_runs_round_turns_the_sign(scores):
    first, second = (run_of({task: [pair[side]] for task, pair in scores.items()}) for side in (0, 1))
    there, back = compare(first, second), compare(second, first)
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.score.low, there.score.high) == pytest.approx((-back.score.high, -back.score.low), abs=1e-9)
    assert [change.task for change in there.improved] == [change.task for change in back.regressed]


def test_a_comparison_can_be_written_down_and_read_again():
    comparison = compare(run_of({"a": [0.0], "b": [1.0]}), run_of({"a": [1.0], "b": [1.0]}))
    assert msgspec.json.decode(msgspec.json.encode(comparison), type=RunComparison) == comparison
