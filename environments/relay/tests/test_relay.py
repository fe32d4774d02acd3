from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of

ENV = load(Path(__file__).parents[1])
SOME = tuple(task.id for task in tasks_of(ENV) if task.id.endswith("-01"))
"""One task of every pair of halves."""


@pytest.mark.parametrize("tasks", [SOME, pytest.param((), marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_gets_full_marks_for_both(tmp_path, tasks):
    traces = list(run(ENV, "scripted:golden", tasks=tasks, runs=tmp_path, at_once=16))
    assert len(traces) == (len(tasks) or 270)
    assert all(record.score.passed for trace in traces for record in trace.seats.values())


async def nothing(agent: Agent, task: Task) -> None:
    await agent.say("Done.")


async def only_reading(agent: Agent, task: Task) -> None:
    await agent.call("bash", command="cat /data/*")
    await agent.say("Done.")


async def deleting(agent: Agent, task: Task) -> None:
    await agent.call("bash", command="rm -f /data/*")
    await agent.say("Done.")


@pytest.mark.parametrize("agent", [nothing, only_reading, deleting])
def test_these_agents_score_zero(play, agent):
    assert not any(score.value for score in play(ENV, agent, tasks=SOME).values())


def test_the_second_half_alone_earns_nothing(play):
    async def only_right(agent: Agent, task: Task) -> None:
        if agent.seat == "right":
            await agent.call("bash", command=task.key["right"])
        await agent.say("Done.")

    assert not any(score.value for score in play(ENV, only_right, tasks=SOME).values())


def test_a_first_half_that_comes_too_late_keeps_the_second_from_its_result(play):
    async def late(agent: Agent, task: Task) -> None:
        if agent.seat == "left":
            await agent.call("bash", command="cat /data/*")
        await agent.call("bash", command=task.key[agent.seat])
        await agent.say("Done.")

    assert {score.points for score in play(ENV, late, tasks=SOME).values()} == {4.0}


def test_neither_is_told_the_half_of_the_other(tmp_path):
    for trace in run(ENV, "scripted:golden", tasks=SOME, runs=tmp_path):
        task = next(task for task in tasks_of(ENV) if task.id == trace.task)
        for seat, other in (("left", "right"), ("right", "left")):
            text = " ".join(trace.nodes[number].message.text for number in trace.seats[seat].nodes)
            assert task.data[seat] in text
            assert task.data[other] not in text


def test_both_splits_have_tasks():
    assert 40 <= len(tasks_of(ENV, Split.HELDOUT)) <= 75
