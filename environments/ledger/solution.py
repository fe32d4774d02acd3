"""The golden solution: the corrections come from the key, everything else is read from the books as an agent would."""

import json
from typing import Any

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    await agent.call("query", sql="select name, sql from sqlite_master")
    for entry in task.key["reversed"]:
        await agent.call("reverse_entry", entry=entry)
    for entry in task.key["posted"]:
        await agent.call("post_entry", **entry)
    await match_the_bank(agent)
    if task.key["status"] == "closed":
        await agent.call("close_month", month=task.key["month"])
    await write_the_report(agent, task)
    await agent.say("The wrong entries are corrected, the bank is reconciled, the report is written.")


async def match_the_bank(agent: Agent) -> None:
    """Give every open line an entry of its amount that no other line has."""
    lines = await rows(agent, "select id, cents from bank_lines where entry is null order by id")
    free = await rows(
        agent,
        "select id, cents from live join lines on entry = id and account = '1000' "
        "where id not in (select entry from bank_lines where entry is not null) order by id",
    )
    for line, cents in lines:
        entry = next(each for each in free if each[1] == cents)
        free.remove(entry)
        await agent.call("match_bank_line", line=line, entry=entry[0])


async def write_the_report(agent: Agent, task: Task) -> None:
    sums = "select code, coalesce(sum(cents), 0) from accounts left join lines on account = code group by code"
    balances = dict(await rows(agent, sums))
    [[statement]] = await rows(agent, "select sum(cents) from bank_lines")
    vat = {
        "output_standard": -balances["2200"],
        "output_reduced": -balances["2210"],
        "input_standard": balances["1400"],
        "input_reduced": balances["1410"],
    }
    vat["payable"] = -balances["2200"] - balances["2210"] - balances["1400"] - balances["1410"]
    await agent.call(
        "write_report",
        month=task.key["month"],
        reversed_entries=task.key["reversed"],
        balances=balances,
        vat=vat,
        bank={"statement": statement, "books": balances["1000"], "outstanding": balances["1000"] - statement},
        summary=f"Reversed {len(task.key['reversed'])} and posted {len(task.key['posted'])} entries; every bank line is matched.",
    )


async def rows(agent: Agent, sql: str) -> list[Any]:
    return json.loads(await agent.call("query", sql=sql))["rows"]
