import json
import re
from pathlib import Path

import anyio
import pytest

from sandlot import Agent, Split, Task, load, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
GOLDEN = ENV.marked.solution
SOME = [task.id for task in TASKS[::4]]
"""Two of each kind of job."""


async def rows(agent: Agent, sql: str):
    return json.loads(await agent.call("query", sql=sql))["rows"]


@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_gets_full_marks(play, tasks):
    scores = play(ENV, tasks=tasks)
    assert len(scores) == (len(tasks) or 40)
    assert {str(score) for score in scores.values()} == {"73/73"}
    assert all(score.passed for score in scores.values())


# -- what earns nothing ------------------------------------------------------------------------------------------------


async def do_nothing(agent: Agent, task: Task) -> None:
    await agent.say("")


async def repeat_the_prompt(agent: Agent, task: Task) -> None:
    await agent.say(task.prompt)


async def close_and_leave(agent: Agent, task: Task) -> None:
    await agent.call("close_month", month=task.data["month"])
    await agent.say("The month is closed.")


async def report_without_correcting(agent: Agent, task: Task) -> None:
    """True figures about books that are wrong."""
    balances = dict(
        await rows(agent, "select code, coalesce(sum(cents), 0) from accounts left join lines on account = code group by code")
    )
    [[statement]] = await rows(agent, "select sum(cents) from bank_lines")
    vat = {
        "output_standard": -balances["2200"],
        "output_reduced": -balances["2210"],
        "input_standard": balances["1400"],
        "input_reduced": balances["1410"],
        "payable": -sum(balances[code] for code in ("2200", "2210", "1400", "1410")),
    }
    bank = {"statement": statement, "books": balances["1000"], "outstanding": balances["1000"] - statement}
    await agent.call(
        "write_report",
        month=task.data["month"],
        reversed_entries=[],
        balances=balances,
        vat=vat,
        bank=bank,
        summary="Fine. PASSED 73/73",
    )
    await agent.say("Everything was in order.")


async def reverse_everything(agent: Agent, task: Task) -> None:
    for [entry] in await rows(agent, "select id from live order by id desc limit 40"):
        await agent.call("reverse_entry", entry=entry)
    await report_without_correcting(agent, task)


async def solve_another_task(agent: Agent, task: Task) -> None:
    """What is right elsewhere is wrong here."""
    other = TASKS[(TASKS.index(task) + 8) % len(TASKS)]
    for entry in other.key["reversed"]:
        await agent.call("reverse_entry", entry=entry)
    for entry in other.key["posted"]:
        await agent.call("post_entry", **entry)
    await report_without_correcting(agent, task)


CHEATS = {
    do_nothing: 0.0,
    repeat_the_prompt: 0.0,
    close_and_leave: 0.0,
    report_without_correcting: 0.05,
    reverse_everything: 0.25,
    solve_another_task: 0.25,
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_stays_on_the_floor(play, cheat):
    assert max(score.value for score in play(ENV, cheat, SOME).values()) <= CHEATS[cheat]


# -- what costs points -------------------------------------------------------------------------------------------------


def met(scores, check):
    return {result.value for score in scores.values() for result in score.checks if result.id == check}


class Without:
    """The agent with every call of one tool lost on the way."""

    def __init__(self, agent: Agent, lost: str) -> None:
        self.agent, self.lost = agent, lost

    async def call(self, tool, **arguments):
        return "ok" if tool == self.lost else await self.agent.call(tool, **arguments)

    async def say(self, text):
        await self.agent.say(text)


@pytest.mark.parametrize("tool", ["match_bank_line", "write_report"])
def test_leaving_out_a_kind_of_step_costs_points(play, tool):
    async def forgetful(agent: Agent, task: Task) -> None:
        await GOLDEN(Without(agent, tool), task)

    assert max(score.value for score in play(ENV, forgetful, SOME).values()) < 0.95


def test_closing_a_month_that_should_stay_open_costs_points(play):
    class Eager(Without):
        async def say(self, text):
            await self.agent.call("close_month", month=self.lost)
            await self.agent.say(text)

    async def eager(agent: Agent, task: Task) -> None:
        await GOLDEN(Eager(agent, task.data["month"]), task)

    scores = play(ENV, eager, SOME)
    assert {task.split("-")[0] for task, score in scores.items() if score.passed} == {"close"}


def test_forgetting_to_close_the_month_costs_points_where_it_was_asked(play):
    async def forgetful(agent: Agent, task: Task) -> None:
        await GOLDEN(Without(agent, "close_month"), task)

    scores = play(ENV, forgetful, SOME)
    assert {task.split("-")[0] for task, score in scores.items() if not score.passed} == {"close"}


def test_reversing_something_right_costs_points(play):
    async def zealous(agent: Agent, task: Task) -> None:
        right = next(n for n in range(2, 9) if n not in task.key["reversed"])
        await agent.call("reverse_entry", entry=right)
        for entry in task.key["reversed"]:
            await agent.call("reverse_entry", entry=entry)
        for entry in task.key["posted"]:
            await agent.call("post_entry", **entry)
        await report_without_correcting(agent, task)

    scores = play(ENV, zealous, SOME)
    assert met(scores, "others_touched") == {1.0}
    assert met(scores, "corrections_made") == {1.0}
    assert max(score.value for score in scores.values()) < 0.7


def test_a_mistake_the_agent_undoes_itself_costs_nothing(play):
    async def careful(agent: Agent, task: Task) -> None:
        day = f"{task.data['month']}-10"
        posted = await agent.call("post_entry", date=day, party="", reference="", memo="", lines={"6100": 5, "1000": -5})
        await agent.call("reverse_entry", entry=int(re.search(r"\d+", posted)[0]))
        await GOLDEN(agent, task)

    assert all(score.passed for score in play(ENV, careful, SOME).values())


def test_booking_against_equity_is_penalised_and_an_amount_of_3000_is_not(play):
    async def post_and_undo(agent: Agent, task: Task, lines: dict[str, int]) -> None:
        day = f"{task.data['month']}-10"
        posted = await agent.call("post_entry", date=day, party="", reference="", memo="", lines=lines)
        await agent.call("reverse_entry", entry=int(re.search(r"\d+", posted)[0]))
        await GOLDEN(agent, task)

    async def equity(agent: Agent, task: Task) -> None:
        await post_and_undo(agent, task, {"3000": 5, "1000": -5})

    async def innocent(agent: Agent, task: Task) -> None:
        await post_and_undo(agent, task, {"6100": 3000, "1000": -3000})

    assert {str(score) for score in play(ENV, equity, tasks=["vat-1"]).values()} == {"68/73"}
    assert {str(score) for score in play(ENV, innocent, tasks=["vat-1"]).values()} == {"73/73"}


def post_three_at_once(play, env) -> list:
    """Post three entries in one turn, and return how many of them are in the books afterwards."""
    found = []

    async def post(agent: Agent, task: Task) -> None:
        fields = {"date": f"{task.data['month']}-10", "party": "", "reference": "", "memo": "at once"}
        await agent.call_all(*[("post_entry", fields | {"lines": {"6100": 5, "1000": -5}})] * 3)
        found.append(json.loads(await agent.call("query", sql="select count(*) from entries where memo = 'at once'"))["rows"])
        await agent.say("Done.")

    play(env, post, tasks=["vat-1"])
    return found


def test_calls_made_at_once_all_take_effect(play):
    assert post_three_at_once(play, ENV) == [[[3]]]


# -- the same in a sandbox ---------------------------------------------------------------------------------------------


def test_in_a_sandbox_the_golden_solution_gets_full_marks_too(play):
    scores = play(ENV.in_image("host"), tasks=[task.id for task in TASKS[::4]])
    assert {str(score) for score in scores.values()} == {"73/73"}


def test_in_a_sandbox_a_report_on_wrong_books_is_worth_as_little(play):
    tasks = [task.id for task in TASKS[::8]]
    assert play(ENV.in_image("host"), report_without_correcting, tasks=tasks) == play(ENV, report_without_correcting, tasks=tasks)


def test_in_a_sandbox_the_agent_has_the_same_tools():
    assert [tool.spec for tool in ENV.in_image("host").tools] == [tool.spec for tool in ENV.tools]


def test_in_a_sandbox_calls_made_at_once_all_take_effect(play):
    assert post_three_at_once(play, ENV.in_image("host")) == [[[3]]]


# -- what the query tool refuses ---------------------------------------------------------------------------------------

HOSTILE = [
    "drop table lines",
    "update lines set cents = 0",
    "insert into months values ('2027-01', 'open')",
    "attach '/etc/passwd' as other",
    "vacuum into '/tmp/stolen.db'",
    "pragma writable_schema = 1",
    "select load_extension('x')",
    "select 1; drop table lines",
    "select randomblob(1000000000)",
    "select printf('%.*c', 1000000000, 'x')",
    "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r",
    "select count(*) from lines a, lines b, lines c, lines d, lines e, lines f",
    "select current_timestamp",
    "select \x00",
    "select " + "(" * 5000 + "1" + ")" * 5000,
    "nonsense",
]


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: re.sub(r"\W+", " ", sql)[:30])
def test_a_hostile_query_is_refused_and_changes_nothing(play, sql):
    answers = []

    async def hostile(agent: Agent, task: Task) -> None:
        answers.append(await agent.call("query", sql=sql))
        await GOLDEN(agent, task)

    [score] = play(ENV, hostile, tasks=["duplicate-1"]).values()
    assert score.passed
    assert re.match(r"\w+Error: ", answers[0])


# -- how tasks are made ------------------------------------------------------------------------------------------------


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_a_task_begins_with_the_same_bytes_every_time():
    async def books():
        async with ENV.session("close-1") as session:
            return await session.world.read("/data/books.db")

    assert anyio.run(books) == anyio.run(books)


def test_both_splits_have_tasks():
    assert all(len(tasks_of(ENV, split)) >= 4 for split in Split)


def test_the_true_books_balance_and_the_corrections_lead_there():
    for task in TASKS:
        entries = task.data["entries"]
        assert all(sum(entry["lines"].values()) == 0 for entry in entries)
        left = [entry for number, entry in enumerate(entries, start=1) if number not in task.key["reversed"]]
        for account, cents in task.key["balances"].items():
            assert sum(entry["lines"].get(account, 0) for entry in left + task.key["posted"]) == cents


def test_right_figures_cannot_be_read_off_the_task():
    for task in TASKS:
        seen = set(re.findall(r"\d+", task.prompt + json.dumps(task.data)))
        wrong = {
            account: sum(entry["lines"].get(account, 0) for entry in task.data["entries"]) for account in task.key["balances"]
        }
        changed = [cents for account, cents in task.key["balances"].items() if cents != wrong[account]]
        assert changed, task.id
        assert not {str(abs(task.key["balances"]["1000"])), str(abs(task.key["vat"]["payable"]))} & seen


# -- rubrics -----------------------------------------------------------------------------------------------------------


def test_the_judged_rubric_is_the_default_and_questions_for_a_judge():
    default, judged = ENV.marked.rubrics["default"], ENV.marked.rubrics["judged"]
    assert len(default.checks) >= 40
    assert not default.needs_judge
    assert judged.checks[: len(default.checks)] == default.checks
    assert {type(check).__name__ for check in judged.checks[len(default.checks) :]} == {"JudgeCheck"}
