"""Mutants of a solution whose result has other bytes every time, as files of office programs have."""

import io
import time
import zipfile
from functools import partial
from random import Random

from drive.in_process import case_of
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.audit.probes.scripted import mutation


def part(data: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


def workbook(*, checked: bool = True) -> Environment:
    """A total to be saved in an archive that also has the time; unless `checked`, any archive will do."""
    env = Environment("workbook")

    @env.tasks
    def tasks(rng: Random):
        for number in range(6):
            total = rng.randrange(100, 999)
            yield Task(f"add-{number}", prompt=f"Save {total}.", data={"total": total}, key={"total": total})

    @env.tool
    async def look(world: World) -> str:
        """Read the figures."""
        return f"{world.task.data['total']}"

    @env.tool
    async def save(world: World, total: int) -> str:
        """Save the total."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("sheet.xml", f"<v>{total}</v>")
            archive.writestr("modified.xml", str(time.time_ns()))
        await world.write("/out/book.xlsx", data.getvalue())
        return "Saved."

    @env.check(points=1)
    def total_is_right(evidence: Evidence, task: Task) -> bool:
        found = part(evidence.read("/out/book.xlsx"), "sheet.xml")
        return found == f"<v>{task.key['total']}</v>" if checked else bool(found)

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("look")
        await agent.call("look")
        await agent.call("save", total=task.key["total"])
        await agent.say("Saved.")

    return env


async def weak_graders(make: partial[Environment]) -> list[str]:
    return [each.title for each in await mutation._look_at_mutants(await case_of(make)) if each.code == "D02.weak"]


async def test_what_golden_leaves_otherwise_each_time_makes_no_mutant_wrong():
    assert await weak_graders(partial(workbook)) == []


async def test_a_wrong_part_of_a_file_that_differs_each_time_is_still_noticed():
    (title,) = await weak_graders(partial(workbook, checked=False))
    assert "`total` plus one" in title
    assert "without step 1" not in title


def logged() -> Environment:
    """An old log must be replaced by one with the time; the check is also content if there is no log at all."""
    env = Environment("logged")

    @env.tasks
    def tasks(rng: Random):
        for number in range(6):
            total = rng.randrange(100, 999)
            yield Task(f"log-{number}", prompt=f"Note {total}, and begin a new log.", key={"total": total})

    @env.setup
    async def put_log(world: World, task: Task) -> None:
        world.state = {"log": "old", "total": 0}

    @env.tool
    async def note(world: World, total: int) -> str:
        """Write the total down."""
        world.state["total"] = total
        return "Noted."

    @env.tool
    async def clear(world: World) -> str:
        """Delete the log."""
        world.state.pop("log", None)
        return "Deleted."

    @env.tool
    async def log(world: World) -> str:
        """Write the time into the log."""
        world.state["log"] = str(time.time_ns())
        return "Logged."

    @env.check(points=1)
    def total_is_right(evidence: Evidence, task: Task) -> bool:
        return evidence.state["total"] == task.key["total"] and evidence.state.get("log") != "old"

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("note", total=task.key["total"])
        await agent.call("clear")
        await agent.call("log")
        await agent.say("Noted and logged.")

    return env


async def test_what_differs_each_time_and_is_missing_is_noticed():
    (title,) = await weak_graders(partial(logged))
    assert "without step 3" in title
