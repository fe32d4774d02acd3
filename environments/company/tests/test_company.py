"""The desk's work: golden solutions get full marks, shortcuts do not, and everything repeats byte for byte."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from drive.company_players import GOLDEN, careless, claim_success, clumsy, do_nothing, golden_but, tell_everybody
from sandlot import Agent, Split, Task, load, run, tasks_of
from sandlot.env.apps import base_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
FAMILIES = sorted({task.key["family"] for task in TASKS})
ONE_OF_EACH = tuple(next(task.id for task in TASKS if task.key["family"] == family) for family in FAMILIES)
FEW = ONE_OF_EACH[::8]


def family(task: str) -> str:
    return task.rsplit("-", 1)[0].replace("-", ".", 1)


# -- what there is -----------------------------------------------------------------------------------------------------


def test_there_are_tasks_in_every_trade():
    trades = Counter(task.tags[0] for task in TASKS)
    assert len(TASKS) >= 150
    assert len(trades) >= 10
    assert min(trades.values()) >= 10
    assert len(FAMILIES) >= 50
    assert len({task.prompt for task in TASKS}) == len(TASKS)
    assert {task.tags[2] for task in TASKS} == {"easy", "medium", "hard"}


def test_every_task_has_20_to_150_checks_and_penalties():
    for task in TASKS:
        checks = ENV.marked.rubrics[task.rubric].checks
        assert 20 <= len(checks) <= 150, (task.id, len(checks))
        assert sum(check.points for check in checks if check.points < 0) <= -14
        points = sum(check.points for check in checks if check.points > 0)
        idle = [check for check in checks if check.points > 0 and check.ref in {"checks:only_these", "checks:record_kept"}]
        assert all(check.requires for check in idle), task.id
        assert sum(check.points for check in idle) <= points / 2


def test_both_splits_have_tasks_of_every_trade():
    heldout = {task.tags[0] for task in tasks_of(ENV, Split.HELDOUT)}
    assert heldout == {task.tags[0] for task in TASKS}


def test_the_key_is_not_in_what_the_world_sees():
    for task in TASKS:
        assert "key" not in task.data
        assert task.key["family"] in FAMILIES


# -- golden ------------------------------------------------------------------------------------------------------------


def test_the_golden_solution_gets_full_marks(play):
    scores = play(ENV, tasks=FEW)
    assert len(scores) == len(FEW)
    assert {name: str(score) for name, score in scores.items() if not score.passed} == {}


@pytest.mark.system
def test_the_golden_solution_gets_full_marks_on_every_task(play):
    scores = play(ENV)
    assert len(scores) == len(TASKS)
    assert {name: str(score) for name, score in scores.items() if not score.passed} == {}


# -- shortcuts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cheat", "most"), [(do_nothing, 0.0), (claim_success, 0.0), (tell_everybody, 0.15)])
def test_a_shortcut_earns_next_to_nothing(play, cheat, most):
    scores = play(ENV, cheat, tasks=FEW)
    assert {name: score.value for name, score in scores.items() if score.value > most} == {}


WRITES = {"send_email", "slack_post_message"}


def test_letters_with_every_known_fact_are_not_full_marks(play):
    def dump(tool, arguments):
        if tool == "send_email":
            arguments["body"] += (
                "\nAlso: INV-2401 €1.00, INV-2402 €2.00, PO-3001, SUP-1201, 1 January 2026, D-2001, ENG-501, INC-011"
            )
        return arguments

    scores = play(ENV, golden_but(dump), tasks=ONE_OF_EACH[::5])
    assert sum(score.passed for score in scores.values()) <= len(scores) / 3


def test_a_wrong_receiver_costs_more_than_the_mail_is_worth(play):
    def astray(tool, arguments):
        if tool == "send_email":
            arguments["cc"] = [*arguments.get("cc", []), "rival@competitor.example"]
        return arguments

    wrong = play(ENV, golden_but(astray), tasks=FEW)
    mailed = [name for name, score in wrong.items() if score.value < 1]
    assert len(mailed) >= len(FEW) - 2
    assert all(wrong[name].value <= 0.9 for name in mailed)


def test_reading_more_than_needed_does_no_harm(play):
    async def curious(agent: Agent, task: Task) -> None:
        await agent.call("search_emails", query="invoice", maxResults=5)
        await agent.call("jira_search", jql="project = SUP", limit=5)
        await agent.call("slack_get_users", limit=5)
        await GOLDEN(agent, task)

    assert all(score.passed for score in play(ENV, curious, tasks=FEW[:4]).values())


def test_hostile_calls_are_answered_and_earn_nothing(play):
    async def hostile(agent: Agent, task: Task) -> None:
        for text in ("", "\x00", "a" * 100_000, "'; drop table issue; --", "{}", "../../etc/passwd"):
            await agent.call("search_emails", query=text)
            await agent.call("jira_search", jql=text)
            await agent.call("jira_get_issue", issue_key=text)
            await agent.call("confluence_search", query=text)
            await agent.call("slack_post_message", channel_id=text, text=text)
            await agent.call("list-invoices", page=-1, invoiceNumbers=[text])
            await agent.call("hubspot-search-objects", objectType=text)
            await agent.call("wait", minutes=-5)
        await agent.say("\x00")

    assert not any(score.value for score in play(ENV, hostile, tasks=FEW[:2]).values())


# -- scores spread -----------------------------------------------------------------------------------------------------


def mean(scores) -> float:
    return sum(score.value for score in scores.values()) / len(scores)


@pytest.mark.system
def test_scores_rise_with_the_share_of_the_work_that_is_done(play):
    chosen = ONE_OF_EACH[::2]
    steps = [mean(play(ENV, clumsy(share), tasks=chosen)) for share in (0.8, 0.5, 0.2)]
    monkey = [mean(play(ENV, careless, tasks=chosen)), mean(play(ENV, GOLDEN, tasks=chosen))]
    ladder = [*steps, *monkey]
    assert ladder == sorted(ladder), ladder
    assert ladder[0] < 0.35
    assert ladder[-2] < 0.95, "telling the whole firm costs points"
    assert ladder[-1] == 1.0


# -- every fact can be found -------------------------------------------------------------------------------------------


@pytest.mark.system
def test_every_id_date_and_name_that_is_asked_for_was_seen_before(tmp_path):
    """What the golden solution writes, a tool or the prompt has shown."""
    states = next(
        function for name, function in vars(sys.modules[ENV.marked.tasks.__module__]).items() if name == "checks"
    ).states
    seen = 0
    for trace in run(ENV, "scripted:golden", tasks=ONE_OF_EACH, runs=tmp_path):
        messages = [node.message for node in trace.nodes if node.message.role in {"tool", "user"}]
        text = "\n".join(
            [*(message.text for message in messages), *(each.text for message in messages for each in message.results)]
        )
        parts = [text[place : place + 15_000] for place in range(0, len(text), 14_000)]
        for check in ENV.marked.rubrics[trace.task].checks:
            value = check.args.get("value")
            fact = check.args.get("fact") or (value.get("fact") if isinstance(value, dict) else None)
            if fact and check.points > 0 and fact.partition(":")[0] in {"id", "date", "time", "name"}:
                seen += 1
                assert any(states(part, fact) for part in parts), (trace.task, check.id)
    assert seen > 100


# -- the same bytes ----------------------------------------------------------------------------------------------------


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, TASKS)


@pytest.mark.system
def test_two_cold_starts_have_the_same_bytes_of_state():
    code = (
        "import sys, json, sandlot; from sandlot.env.apps import base_of;"
        " print(json.dumps(dict(base_of(sandlot.load(sys.argv[1])).digests), sort_keys=True))"
    )
    command = [sys.executable, "-c", code, str(HERE)]
    done = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]  # noqa: S603 - our own code
    assert done[0] == done[1]
    assert msgspec.json.decode(done[0]) == dict(base_of(ENV).digests)
