"""Tasks come in proportion to their weights, and a training that is continued makes the same choices again."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.train.choices import TaskChoices
from sandlot.train.weights import GroupResult, TowardsBand

A = [Task(f"t{number}", prompt="", tags=("easy",) if number % 2 else ("hard",)) for number in range(6)]
B = [Task(f"t{number}", prompt="") for number in range(3)]
GOOD, BAD, MIDDLE = GroupResult(4, 4, 4.0), GroupResult(4, 0, 0.0), GroupResult(4, 2, 2.0)


def first(choices: TaskChoices, count: int) -> list[tuple[str, str, int]]:
    return [(choice.environment, choice.task.id, choice.before) for choice in map(choices.at, range(count))]


def test_every_task_comes_once_an_epoch_in_the_order_of_a_shuffle():
    found = first(TaskChoices({"a": A}, seed=3), 12)
    expected = []
    for epoch in range(2):  # the order that trainings have had from the start
        order = list(range(6))
        Random(f"3/{epoch}").shuffle(order)
        expected += [("a", A[number].id, epoch) for number in order]
    assert found == expected


def test_environments_have_the_same_share_however_many_tasks_they_have():
    found = Counter(env for env, _, _ in first(TaskChoices({"a": A, "b": B}, seed=0), 40))
    assert found == {"a": 20, "b": 20}


def test_an_environments_share_follows_its_weight():
    found = Counter(env for env, _, _ in first(TaskChoices({"a": A, "b": B}, seed=0, shares={"a": 3.0}), 40))
    assert found == {"a": 30, "b": 10}


def test_tasks_outside_the_band_become_rare_but_are_tried_again():
    choices = TaskChoices({"a": A}, seed=0, weigh=TowardsBand(low=0.2, high=0.8, explore=0.1))
    for number in range(6):
        choices.note_result(number, GOOD if choices.at(number).task.tags == ("easy",) else MIDDLE)
    choices.settle()
    found = Counter(A[int(task[1:])].tags[0] for _, task, _ in first(choices, 206)[6:])
    assert found["hard"] > 3 * found["easy"] > 0


def test_an_environment_that_is_solved_gets_fewer_groups():
    choices = TaskChoices({"a": A, "b": B}, seed=0, weigh=TowardsBand())
    for number in range(12):
        choices.note_result(number, GOOD if choices.at(number).environment == "a" else MIDDLE)
    choices.settle()
    found = Counter(env for env, _, _ in first(choices, 112)[12:])
    assert found["b"] > 2 * found["a"] > 0
    assert choices.means["b"] > choices.means["a"]


def test_a_result_counts_only_when_the_weights_trained_on_it_are_published():
    quiet, noted = (TaskChoices({"a": A}, seed=0, weigh=TowardsBand()) for _ in range(2))
    for number in range(6):
        noted.note_result(number, BAD if number % 2 else MIDDLE)
    assert first(noted, 18) == first(quiet, 18)


@given(st.integers(0, 99), st.integers(0, 20), st.integers(0, 20))
def test_a_training_that_is_continued_makes_the_same_choices(tmp_path_factory, seed, learned, ahead):
    """Also of groups that had started and were not learned from, with the weights that counted then."""
    rng = Random(seed)
    file = tmp_path_factory.mktemp("choices") / "choices.jsonl"
    results = [rng.choice([GOOD, BAD, MIDDLE]) for _ in range(40)]

    def sit(choices: TaskChoices, begin: int) -> list[tuple[str, str, int]]:
        for number in range(begin, 20):
            choices.at(number + ahead)
            choices.note_result(number, results[number])
            choices.settle()
        return first(choices, 40)

    whole = sit(TaskChoices({"a": A, "b": B}, seed=seed, weigh=TowardsBand()), 0)
    killed = TaskChoices({"a": A, "b": B}, seed=seed, weigh=TowardsBand(), file=file)
    for number in range(learned):
        killed.at(number + ahead)
        killed.note_result(number, results[number])
        killed.settle()
    with file.open("ab") as torn:
        torn.write(b'{"group": 5, "envir')
    continued = TaskChoices({"a": A, "b": B}, seed=seed, weigh=TowardsBand(), file=file)
    for number in range(learned):
        continued.note_result(number, results[number])
    continued.settle()
    assert sit(continued, learned) == whole


def test_choices_of_another_training_are_refused(tmp_path):
    TaskChoices({"a": A}, seed=0, file=tmp_path / "choices.jsonl").at(5)
    with pytest.raises(ConfigError, match="does not have"):
        TaskChoices({"a": A[:1]}, seed=0, file=tmp_path / "choices.jsonl").at(5)


@pytest.mark.parametrize(
    ("weigh", "message"),
    [
        (lambda records: [1.0], "1 weights for 6 tasks"),
        (lambda records: [0.0] * len(records), "above 0"),
        (lambda records: [float("nan")] * len(records), "nan"),
        (lambda records: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_wrong_weights_are_refused(weigh, message):
    with pytest.raises(ConfigError, match=message):
        TaskChoices({"a": A}, seed=0, weigh=weigh)


def test_a_hook_sees_no_key_of_a_task():
    seen = []

    def look(records):
        seen.extend(records)
        return [1.0] * len(records)

    TaskChoices({"a": [Task("t", prompt="", key={"answer": "secret"})]}, seed=0, weigh=look)
    assert [(record.task.id, record.task.key) for record in seen] == [("t", {})]


@pytest.mark.parametrize("wrong", [{"low": 0}, {"low": 0.6, "high": 0.5}, {"high": 1}, {"explore": 0}, {"groups": 0}])
def test_a_band_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigError):
        TowardsBand(**wrong)
