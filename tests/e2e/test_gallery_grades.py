"""The gallery's flawed grades: flat, silent, crashing, moody or narrow where the clean twin is not."""

import pytest

from sandlot import Agent, Failed, Task
from sandlot.core.crashes import crashes_in
from sandlot.core.ports.grading import Judge
from sandlot.core.task import split_of
from sandlot.core.types import Side, Split
from sandlot.env.taskset import tasks_of
from worlds.gallery import PLACE, doing, fresh, judge_for, played, rows, saying, values


async def unknown_account(agent: Agent, task: Task) -> None:
    accounts = {"paper": "4400", "fuel": "4510", "meals": "4650", "travel": "4670", "postage": "4910"}
    for place, row in enumerate(task.key["receipts"]):
        await agent.call("book", account=accounts[row["for"]] if place else "9999", cents=row["cents"])


async def two_quantities(agent: Agent, task: Task) -> None:
    for article, pieces in [*task.key["pieces"].items()][:2]:
        await agent.call("enter", article=article, pieces=pieces)


async def all_but_one(agent: Agent, task: Task) -> None:
    for parcel, size in [*task.key["classes"].items()][1:]:
        await agent.call("put", parcel=parcel, size=size)


async def as_the_schema_says(agent: Agent, task: Task) -> None:
    for dish, count in task.key["bill"].items():
        await agent.call("add_dish", dish=dish, quantity=count)


DIFFERENT = {
    "swallowed-check-error": (unknown_account, 0.0, 0.5),
    "default-when-late": (saying("A" * 2000), 0.5, 0.0),
    "rounded-share": (two_quantities, 0.0, 1 / 3),
    "penalty-below-the-floor": (all_but_one, 0.0, 5 / 6),
    "fractions-cost-half": (saying(lambda task: task.key["fraction"]), 0.5, 1.0),
    "spelled-one-way": (saying(lambda task: f"{task.key['euros']:,.2f} EUR"), 0.0, 1.0),
}
"""What an agent does, and what each twin gives for it."""


@pytest.mark.parametrize("name", DIFFERENT)
async def test_the_same_work_is_worth_something_else_in_the_broken_twin(name):
    play, broken, clean = DIFFERENT[name]
    assert set(values(await played(fresh(name, "broken"), play))) == {broken}
    assert values(await played(fresh(name, "clean"), play)) == pytest.approx([clean] * len(tasks_of(fresh(name, "clean"))))


async def test_what_the_schema_asks_for_is_not_what_the_handler_reads():
    assert max(values(await played(fresh("schema-beside-the-handler", "broken"), as_the_schema_says))) < 1.0
    assert set(values(await played(fresh("schema-beside-the-handler", "clean"), as_the_schema_says))) == {1.0}


CRASHES = {
    "number-or-crash": (saying("twelve"), Side.GRADER),
    "last-row-of-nothing": (saying(""), Side.GRADER),
    "declared-value-crashes": (doing(("prioritise", {"job": "J1", "priority": "urgent"})), Side.ENVIRONMENT),
}


@pytest.mark.parametrize("name", CRASHES)
async def test_an_odd_deed_breaks_the_broken_twin_only(name):
    play, side = CRASHES[name]
    for trace in await played(fresh(name, "broken"), play):
        if side is Side.ENVIRONMENT:  # graded all the same
            assert crashes_in(trace)
            continue
        assert isinstance(trace.outcome, Failed)
        assert trace.outcome.side is side
    assert set(values(await played(fresh(name, "clean"), play))) == {0.0}


async def half_the_meters(agent: Agent, task: Task) -> None:
    for meter, used in [*task.key["used"].items()][:4]:
        await agent.call("enter", meter=meter, used=used)


REPEATED = {
    "spot-check": half_the_meters,
    "no-answer-twice": saying(lambda task: task.key["phrase"]),
    "asked-for-a-feeling": saying("It comes."),
}


@pytest.mark.parametrize("name", REPEATED)
async def test_the_same_work_gets_different_grades_in_the_broken_twin_only(name):
    async def grades(twin: str, judge: Judge | None) -> set[float]:
        env = fresh(name, twin)
        return set(values(await played(env, REPEATED[name], tasks=tasks_of(env)[:1] * 24, judge=judge)))

    judge = judge_for(name)
    assert len(await grades("broken", judge)) > 1
    assert len(await grades("clean", judge)) == 1


async def test_a_judge_that_compares_believes_whatever_comes_first():
    judge = judge_for("first-one-wins")
    assert set(values(await played(fresh("first-one-wins", "broken"), saying("no"), judge=judge))) == {1.0}
    assert set(values(await played(fresh("first-one-wins", "clean"), saying("no"), judge=judge))) == {0.0}


# -- what is asked and shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["same-questions-held-out", "few-questions-many-tasks"])
async def test_held_out_questions_are_those_of_training_in_the_broken_twin_only(name):
    for twin, contaminated in (("broken", True), ("clean", False)):
        asked = {Split.TRAIN: set(), Split.HELDOUT: set()}
        env = fresh(name, twin)
        splits = {task.id: split_of(task) for task in tasks_of(env)}
        for trace in await played(env):
            asked[splits[trace.task]].add(" ".join(trace.nodes[-2].message.text.lower().split()))
        assert asked[Split.HELDOUT]
        assert bool(asked[Split.TRAIN] & asked[Split.HELDOUT]) is contaminated


def test_a_word_that_is_wanted_is_told_in_the_clean_twin_only():
    assert "REF/7C-44" not in fresh("unspoken-reference", "broken").system
    assert "REF/7C-44" in fresh("unspoken-reference", "clean").system


def test_chat_markup_stands_in_the_prompts_of_the_broken_twin_only():
    assert all("<|im_start|>" in task.prompt for task in tasks_of(fresh("template-in-the-prompt", "broken")))
    assert not any("<|" in task.prompt for task in tasks_of(fresh("template-in-the-prompt", "clean")))


def distance(mock: list, real: list) -> float:
    """How far two samples of one field are apart, 0 to 1: of numbers and lengths the largest gap between their distributions."""
    gaps = abs(mock.count(None) / len(mock) - real.count(None) / len(real))
    left, right = ([value for value in side if value is not None] for side in (mock, real))
    if isinstance(right[0], str) and len(set(right)) > 20:
        left, right = [len(value) for value in left], [len(value) for value in right]
    if isinstance(right[0], str):
        return max(gaps, *(abs(left.count(word) / len(left) - right.count(word) / len(right)) for word in {*left, *right}))
    steps = (abs(sum(a <= x for a in left) / len(left) - sum(b <= x for b in right) / len(right)) for x in {*left, *right})
    return max(gaps, *steps)


@pytest.mark.parametrize(
    ("name", "records"), [("tidy-contacts", "contacts"), ("flat-amounts", "orders"), ("steady-readings", "readings")]
)
def test_the_broken_twins_data_is_far_from_the_real_sample(name, records):
    real = rows(PLACE / name / "real.jsonl")
    farthest = {}
    for twin in ("broken", "clean"):
        mock = [row for task in tasks_of(fresh(name, twin)) for row in task.data[records]]
        assert all(set(row) == set(real[0]) for row in mock)
        farthest[twin] = max(distance([row[field] for row in mock], [row[field] for row in real]) for field in real[0])
    assert farthest["broken"] > 0.3
    assert farthest["clean"] < 0.12
