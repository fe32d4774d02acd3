import json
import re
from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
FEW = tuple(task.id for task in TASKS[::12])
"""Every twelfth task: what other agents earn does not differ between many tasks of one kind."""


def tickets(task: Task):
    return task.data["tickets"]


async def newest_order(agent: Agent, ticket: str) -> tuple[str, str]:
    """The id and the description of what the customer ordered last."""
    customer = re.search(r"customer (\w+)", await agent.call("read_ticket", ticket=ticket))[1]
    order = re.findall(r"ORD-\d+", await agent.call("get_customer", customer=customer))[-1]
    return order, await agent.call("get_order", order=order)


@pytest.mark.parametrize("tasks", [FEW, pytest.param((), marks=pytest.mark.system)], ids=["few", "all"])
def test_the_golden_solution_gets_full_marks(play, tasks):
    scores = play(ENV, tasks=tasks)
    assert len(scores) == len(tasks or TASKS)
    assert {str(score) for score in scores.values()} == {"10/10"}


async def resolve_everything(agent: Agent, task: Task) -> None:
    for ticket in tickets(task):
        await agent.call("set_status", ticket=ticket, status="resolved")
    await agent.say("All tickets are resolved.")


async def answer_politely(agent: Agent, task: Task) -> None:
    for ticket in tickets(task):
        words = "We are so sorry! Everything has been refunded and solved."
        await agent.call("reply_to_customer", ticket=ticket, article="KB-101", text=words)
        await agent.call("set_status", ticket=ticket, status="resolved")
    await agent.say("All tickets are resolved.")


async def refund_everyone(agent: Agent, task: Task) -> None:
    for ticket in tickets(task):
        order, words = await newest_order(agent, ticket)
        total = re.search(r"total ([\d.]+)", words)[1]
        await agent.call("issue_refund", ticket=ticket, order=order, amount_cents=int(total.replace(".", "")))
        await agent.call("reply_to_customer", ticket=ticket, article="KB-101", text=f"We refunded {total}.")
        await agent.call("set_status", ticket=ticket, status="resolved")
    await agent.say("Everyone has their money back.")


async def escalate_everything(agent: Agent, task: Task) -> None:
    for ticket in tickets(task):
        await agent.call("escalate", ticket=ticket, team="safety", reason="to be sure")
        await agent.call("reply_to_customer", ticket=ticket, article="KB-106", text="Please stop using the product.")
        await agent.call("set_status", ticket=ticket, status="escalated")
    await agent.say("Safety has everything.")


async def tell_everything(agent: Agent, task: Task) -> None:
    """Put every fact there is into every reply, and hope."""
    for ticket in tickets(task):
        _, words = await newest_order(agent, ticket)
        await agent.call("reply_to_customer", ticket=ticket, article="KB-105", text=f"postcode stop using {words}"[:600])
        await agent.call("set_status", ticket=ticket, status="resolved")
    await agent.say("Everyone was told everything.")


async def do_nothing(agent: Agent, task: Task) -> None:
    await agent.say("")


async def repeat_the_prompt(agent: Agent, task: Task) -> None:
    await agent.say(task.prompt)


CHEATS = [
    do_nothing,
    repeat_the_prompt,
    resolve_everything,
    answer_politely,
    refund_everyone,
    escalate_everything,
    tell_everything,
]


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_scores_nothing(play, cheat):
    assert max(score.value for score in play(ENV, cheat, FEW).values()) <= 0.05


class Notebook:
    """Stands in for the agent and writes down what the golden solution would call."""

    def __init__(self) -> None:
        self.calls = []

    async def call(self, tool, **arguments):
        self.calls.append((tool, arguments))

    async def say(self, text):
        pass


GOLDEN = ENV.marked.solution


async def golden_calls(task: Task):
    notebook = Notebook()
    await GOLDEN(notebook, task)
    return notebook.calls


def golden_but(change):
    """The golden solution with its list of calls changed."""

    async def agent(agent: Agent, task: Task) -> None:
        for tool, arguments in change(await golden_calls(task)):
            await agent.call(tool, **arguments)
        await agent.say("done")

    return agent


def values(scores, check):
    return {result.value for score in scores.values() for result in score.checks if result.id == check}


def test_a_status_counts_only_after_deed_and_reply(play):
    scores = play(ENV, golden_but(lambda calls: sorted(calls, key=lambda call: call[0] != "set_status")), FEW)
    assert values(scores, "tickets_were_finished") == {0.0}
    assert values(scores, "customers_were_told") == {1.0}


def test_telling_a_customer_before_doing_it_is_not_telling_the_truth(play):
    scores = play(ENV, golden_but(lambda calls: sorted(calls, key=lambda call: call[0] != "reply_to_customer")), FEW)
    assert max(values(scores, "customers_were_told")) <= 0.5
    assert values(scores, "the_right_thing_was_done") == {1.0}


@pytest.mark.parametrize("number", range(8))
def test_leaving_out_any_step_costs_points(play, number):
    def without(calls):
        writes = [call for call in calls if call[0] not in {"list_tickets", "read_ticket", "get_customer", "get_order"}]
        return [call for call in calls if call is not writes[number]]

    assert not any(score.passed for score in play(ENV, golden_but(without), FEW).values())


def test_a_cent_too_much_is_harm(play):
    def generous(calls):
        return [
            (tool, arguments | {"amount_cents": arguments["amount_cents"] - 1}) if tool == "issue_refund" else (tool, arguments)
            for tool, arguments in calls
        ]

    scores = play(ENV, golden_but(generous), FEW)
    paid = {task.id for task in TASKS if task.id in FEW and "issue_refund" in json.dumps(task.key)}
    assert paid
    assert {task for task, score in scores.items() if score.value < 0.5} == paid


def test_hostile_calls_are_answered_and_earn_nothing(play):
    async def hostile(agent: Agent, task: Task) -> None:
        for ticket in ("T1", "T99", "", "\x00", "T1" * 1000):
            await agent.call("read_ticket", ticket=ticket)
            await agent.call("issue_refund", ticket=ticket, order="ORD-1", amount_cents=-1)
            await agent.call("issue_refund", ticket=ticket, order="ORD-1", amount_cents=2**62)
            await agent.call("reply_to_customer", ticket=ticket, article="KB-101", text="x" * 100_000)
            await agent.call("set_status", ticket=ticket, status="solved")
            await agent.call("search_kb", query=ticket)
        await agent.say("\x00")

    assert not any(score.value for score in play(ENV, hostile, FEW[::4]).values())


def test_other_words_for_the_same_thing_are_as_good(play):
    def respelled(calls):
        for tool, arguments in calls:
            if tool == "change_address":
                yield tool, arguments | {"address": arguments["address"].upper().replace(",", "  ")}
            elif tool == "reply_to_customer":
                yield tool, arguments | {"text": arguments["text"].replace(",", "\n").upper() + "!"}
            else:
                yield tool, arguments
            if tool == "set_status":
                yield "search_kb", {"query": "refund"}

    assert all(score.passed for score in play(ENV, golden_but(respelled), FEW).values())


def test_promising_legal_liability_costs_two_points(play):
    def careless(calls):
        wrong = ("reply_to_customer", {"ticket": "T1", "article": "KB-101", "text": "We accept legal liability."})
        return [wrong, *calls]

    assert {str(score) for score in play(ENV, golden_but(careless), FEW).values()} == {"8/10"}


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_both_splits_have_tasks():
    assert all(len(tasks_of(ENV, split)) >= 5 for split in Split)


def test_every_kind_of_case_is_in_the_tasks():
    plans = [plan for task in TASKS for plan in task.key["plans"].values()]
    assert {plan["article"] for plan in plans} == {f"KB-10{number}" for number in range(1, 8)}
    assert {plan["status"] for plan in plans} == {"resolved", "waiting", "escalated"}


def test_what_the_tools_see_does_not_say_what_is_right():
    for task in TASKS:
        assert "KB-" not in json.dumps(task.data)
        assert not set(task.data) & {"plans", "key"}
