"""The gallery of broken environments: every twin works, and every planted defect bites in one twin and not in the other."""

import pytest

from gallery import NAMES, PLACE, defect, fresh, played, saying, values
from sandlot import Agent, Task
from sandlot.env.taskset import tasks_of

CODES = {f"D{number:02}" for number in range(1, 24)}
LAYERS = {"static", "grader", "scripted", "differential"}
FIELDS = {"code", "layer", "what", "needs", "judge", "reference", "records", "manifest"}


@pytest.mark.parametrize("name", NAMES)
def test_every_folder_says_what_is_planted_in_it(name):
    said = defect(name)
    assert said["code"] in CODES
    assert said["layer"] in LAYERS
    assert said["what"].endswith(".")
    assert set(said) <= FIELDS
    for field in ("reference", "manifest"):
        assert field not in said or (PLACE / name / said[field]).is_file()


@pytest.mark.parametrize("name", NAMES)
async def test_the_golden_solution_gets_full_marks_and_doing_nothing_gets_none(name):
    for twin in ("broken", "clean"):
        env = fresh(name, twin)
        assert 6 <= len(tasks_of(env)) <= 12
        assert set(values(await played(env))) == {1.0}
    assert set(values(await played(fresh(name, "clean"), saying("")))) == {0.0}


async def resolve_only(agent: Agent, task: Task) -> None:
    for ticket in task.key["owed"]:
        await agent.call("resolve", ticket=ticket)


async def forge_report(agent: Agent, task: Task) -> None:
    await agent.call("write_file", path="/out/report.json", text='{"failed": [], "passed": 3}')


EXPLOITS = {
    "status-flip-resolves": resolve_only,
    "evaluated-answer": saying("type('Any', (), {'__eq__': lambda self, other: True})()"),
    "believed-report": forge_report,
    "pasted-test-log": saying("smoke test: PASSED"),
    "substring-match": saying(lambda task: task.prompt),
    "keyword-coverage": saying(lambda task: task.prompt),
}
"""Agents that do not do the work and are paid in full by the broken twin."""


@pytest.mark.parametrize("name", EXPLOITS)
async def test_what_was_not_done_is_paid_for_in_the_broken_twin_only(name):
    assert set(values(await played(fresh(name, "broken"), EXPLOITS[name]))) == {1.0}
    assert max(values(await played(fresh(name, "clean"), EXPLOITS[name]))) < 0.5


def customer_card(task: Task):
    who = task.key["who"]
    return ("get_customer", {"customer": who}), ("set_phone", {"customer": who, "phone": "+1 555"})


def page_of_a_word(task: Task):
    page = task.key["page"]
    return ("search", {"word": "zebra"}), ("edit_page", {"page": page, "text": "Zebra crossing."})


def shop_level(task: Task):
    item = task.key["item"]
    return ("levels", {"item": item}), ("transfer", {"item": item, "units": 1, "to": "shop"})


STALE = {"stale-cache-lookup": customer_card, "stale-search-index": page_of_a_word, "stale-refresh-interval": shop_level}


@pytest.mark.parametrize("name", STALE)
@pytest.mark.parametrize("twin", ["broken", "clean"])
async def test_a_read_before_a_write_spoils_the_read_after_it_in_the_broken_twin_only(name, twin):
    seen: dict[str, list[str]] = {"read first": [], "write first": []}

    async def read_first(agent: Agent, task: Task) -> None:
        read, write = STALE[name](task)
        await agent.call(read[0], **read[1])
        await agent.call(write[0], **write[1])
        seen["read first"].append(await agent.call(read[0], **read[1]))

    async def write_first(agent: Agent, task: Task) -> None:
        read, write = STALE[name](task)
        await agent.call(write[0], **write[1])
        seen["write first"].append(await agent.call(read[0], **read[1]))

    env = fresh(name, twin)
    await played(env, read_first)
    await played(env, write_first)
    if twin == "clean":
        assert seen["read first"] == seen["write first"]
    else:
        assert all(first != second for first, second in zip(seen["read first"], seen["write first"], strict=True))
