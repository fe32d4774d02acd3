from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of

ENV = load(Path(__file__).parents[1])
SOME = tuple(task.id for task in tasks_of(ENV)[::10])


def played(tmp_path, monkeypatch, **prices: str):
    """Every tenth task, with each seat saying these texts one after the other."""

    async def say(agent: Agent, task: Task) -> None:
        for text in prices[agent.seat].split():
            await agent.say(text)

    monkeypatch.setattr(ENV.marked, "solution", say)
    return list(run(ENV, "scripted:golden", tasks=SOME, runs=tmp_path))


@pytest.mark.parametrize("tasks", [SOME, pytest.param((), marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_divides_all_that_there_is(tmp_path, tasks):
    for trace in run(ENV, "scripted:golden", tasks=tasks, runs=tmp_path):
        shares = [record.score.value for record in trace.seats.values()]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) > 0.45
        assert trace.reward == pytest.approx(0.5)


def test_what_one_gains_on_the_price_the_other_loses(tmp_path, monkeypatch):
    for trace in played(tmp_path, monkeypatch, seller="55", buyer="58"):
        assert trace.evidence.state["deal"] == 55
        assert sum(record.score.value for record in trace.seats.values()) == pytest.approx(1.0)


def test_without_a_deal_nobody_gets_anything(tmp_path, monkeypatch):
    for trace in played(tmp_path, monkeypatch, seller="90 80", buyer="20 30"):
        assert [record.score.value for record in trace.seats.values()] == [0.0, 0.0]


@pytest.mark.parametrize("text", ["-5", "fifty", "55 60", "\uff19\uff19", "9999", "1e3", ""])
def test_what_is_not_a_price_ends_the_talk(tmp_path, monkeypatch, text):
    async def say(agent: Agent, task: Task) -> None:
        await agent.say(text if agent.seat == "seller" else "999")

    monkeypatch.setattr(ENV.marked, "solution", say)
    for trace in run(ENV, "scripted:golden", rollouts=10, runs=tmp_path):
        assert trace.evidence.state["deal"] is None
        assert not any(record.score.value for record in trace.seats.values())


def test_a_deal_beyond_ones_limit_earns_nothing(tmp_path, monkeypatch):
    for trace in played(tmp_path, monkeypatch, seller="999", buyer="999"):
        assert trace.seats["buyer"].score.value == 0.0


def test_nobody_is_told_the_limit_of_the_other(tmp_path, monkeypatch):
    tasks = {task.id: task for task in tasks_of(ENV)}
    for trace in played(tmp_path, monkeypatch, seller="55", buyer="50"):
        task = tasks[trace.task]
        first = {seat: trace.nodes[record.nodes[0]].message.text for seat, record in trace.seats.items()}
        assert f"It cost you {task.key['seller']}." in first["seller"]
        assert "cost" not in first["buyer"]
        assert "worth" not in first["seller"]


def test_both_splits_have_tasks():
    assert 40 <= len(tasks_of(ENV, Split.HELDOUT)) <= 80
    assert len(tasks_of(ENV)) == 300
