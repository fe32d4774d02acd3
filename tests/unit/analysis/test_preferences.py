"""Which of two rollouts is better: drawn blind and repeatably, stored one per line, agreed by majority."""

import pytest

import sandlot
from sandlot.analysis.preferences import (
    FILE,
    Choice,
    Preference,
    Preferences,
    RolloutPair,
    add_preference,
    agreed_preferences,
    agreements_on,
    draw_pairs,
    read_preferences,
)


def told(better, by="ann", task="t", left=0, right=1):
    return Preference(task=task, left=left, right=right, choice=better, by=by, at=0.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sandlot.run(
        "arithmetic",
        "scripted:mixed:0.5",
        group=4,
        tasks=[f"arithmetic-{n}" for n in range(10)],
        runs=tmp_path_factory.mktemp("runs"),
    )


def test_pairs_are_of_one_task_differ_and_are_the_same_every_time(run):
    pairs = draw_pairs(run)
    assert pairs == draw_pairs(sandlot.Run(run.path))
    assert len({pair.key for pair in pairs}) == len(pairs) == 30, "three of each of ten tasks"
    assert len({pair.task for pair in pairs[:10]}) == 10, "one of every task first"
    assert all(pair.left != pair.right for pair in pairs)
    assert 0 < sum(pair.left < pair.right for pair in pairs) < len(pairs), "sides are drawn"
    assert draw_pairs(run, seed=1) != pairs


def test_the_last_answer_of_a_person_counts_and_damaged_lines_are_named(tmp_path):
    pair = RolloutPair(task="t", left=1, right=0)
    add_preference(tmp_path, pair, Choice.LEFT, by="ann", at=1.0)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"{]\n")
    add_preference(tmp_path, RolloutPair(task="t", left=0, right=1), Choice.LEFT, by="ann", at=2.0)
    answers = read_preferences(tmp_path)
    assert answers.damaged == (2,)
    assert [each.better for each in answers.counting] == [0]


def test_the_majority_decides_and_ties_are_left_out():
    split = Preferences(given=(told("left"), told("right", by="bob")))
    assert agreed_preferences(split) == []
    most = Preferences(given=(*split.given, told("right", by="cy", left=1, right=0)))
    assert agreed_preferences(most) == [("t", 0, 1)]
    equal = Preferences(given=(told("left"), told("equal", by="bob")))
    assert agreed_preferences(equal) == []


def test_agreement_does_not_depend_on_the_side():
    given = [told(Choice.LEFT, task=f"t{number}") for number in range(6)]
    given += [told(Choice.RIGHT, by="bob", task=f"t{number}", left=1, right=0) for number in range(6)]
    (found,) = agreements_on(given)
    assert (found.both, found.agreed) == (6, 6)
