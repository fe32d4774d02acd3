from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, tasks_of

ENV = load(Path(__file__).parents[1])
SOME = [task.id for task in tasks_of(ENV)[::8]]


@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_answer_gets_full_marks(play, tasks):
    scores = play(ENV, tasks=tasks)
    assert len(scores) == (len(tasks) or 480)
    assert all(score.passed for score in scores.values())


def test_saying_nothing_scores_zero(play):
    async def nothing(agent: Agent, task: Task) -> None:
        await agent.say("")

    assert not any(score.value for score in play(ENV, nothing, SOME).values())


def test_no_constant_answer_is_right_more_often_than_chance(play):
    for constant in ("0", "1", "42", "100", "nan"):

        async def same(agent: Agent, task: Task, answer: str = constant) -> None:
            await agent.say(answer)

        assert sum(score.value for score in play(ENV, same, SOME).values()) <= 1


def test_a_list_of_every_number_is_not_an_answer(play):
    numbers = " ".join(str(number) for number in range(-100, 10_000))

    async def enumerate_all(agent: Agent, task: Task) -> None:
        await agent.say(numbers)

    assert not any(score.value for score in play(ENV, enumerate_all, SOME[::4]).values())


def test_both_splits_have_tasks():
    assert 70 <= len(tasks_of(ENV, Split.HELDOUT)) <= 130
    assert len(tasks_of(ENV, Split.TRAIN)) >= 64


def test_the_whole_environment_is_twenty_lines_at_most():
    assert len((Path(__file__).parents[1] / "environment.py").read_text().splitlines()) <= 20
