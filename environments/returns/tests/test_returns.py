import re
from pathlib import Path

import pytest

from sandlot import Agent, Scored, Split, Task, load, run, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
SOME = [task.id for task in TASKS[:24]]


@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_gets_full_marks(play, tasks):
    assert {str(score) for score in play(ENV, tasks=tasks).values()} == {"4/4"}


def test_some_tasks_are_held_out_and_all_of_them_differ():
    assert 10 <= len(tasks_of(ENV, Split.HELDOUT)) <= 40
    assert len({task.data["customer"]["number"] for task in TASKS}) == len(TASKS)


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, TASKS)


async def never_ask(agent: Agent, task: Task) -> None:
    await agent.call("find_order", number="123456")
    await agent.say("You get 0.00 euros back.")


async def always_pay(agent: Agent, task: Task) -> None:
    number = re.search(r"\d{6}", await agent.say("What is your order number?"))[0]
    price = re.search(r"([\d.]+) euros", await agent.call("find_order", number=number))[1]
    await agent.call("settle", number=number, reason="broken", cents=int(price.replace(".", "")))
    await agent.say(f"You get {price} euros back.")


async def promise(agent: Agent, task: Task) -> None:
    await agent.say(f"You get {task.key['cents'] / 100:.2f} euros back.")


def test_who_does_not_ask_or_only_promises_gets_nothing(play):
    for agent in (never_ask, promise):
        assert {score.value for score in play(ENV, agent, SOME).values()} == {0.0}


def test_paying_everybody_is_right_only_for_what_is_broken(play):
    reasons = {task.id: task.key["reason"] for task in TASKS}
    scores = play(ENV, always_pay, SOME)
    assert {task for task, score in scores.items() if score.value == 1} == {task for task in SOME if reasons[task] == "broken"}


def test_the_scripted_customer_tells_nothing_unasked(play):
    words = []

    async def talk(agent: Agent, task: Task) -> None:
        words.append(agent.prompt)
        words.append(await agent.say("Hello there!"))
        words.append(await agent.say("One moment please."))

    play(ENV, talk, [TASKS[0].id])
    known = TASKS[0].data["customer"]
    assert len(words) == 3
    assert all(words)
    assert not any(known["number"] in each or known["story"] in each for each in words)


def test_somebody_else_can_play_the_customer(tmp_path):
    traces = list(run(ENV, "scripted:golden", user="scripted:persona", tasks=tuple(SOME), runs=tmp_path))
    assert {str(trace.outcome.score) for trace in traces if isinstance(trace.outcome, Scored)} == {"4/4"}
    assert len(traces) == len(SOME)
    assert {node.message.agent for trace in traces for node in trace.nodes if node.sampled} == {"agent", "user"}
    assert {trace.end for trace in traces} == {"done"}
