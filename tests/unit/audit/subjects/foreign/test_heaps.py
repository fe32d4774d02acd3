"""Files that hold more than was asked, work that lies about finished, and arguments that nobody reads."""

from functools import partial
from random import Random

import pytest

from drive.in_process import case_of, codes
from sandlot import Agent, Environment, Evidence, Task, ToolError, World
from sandlot.audit.probes.scripted import floor, lookup, mutation

TOWNS = ("Aarhus", "Bergen", "Cork", "Dijon", "Evora", "Fulda")


def lists(flaw: str = "") -> Environment:
    """Names to be written into a file. Flaws: `heap` (more lines cost nothing), `copy` (the finished file lies about)."""
    env = Environment(
        "lists", system="Write the towns in /in.txt that begin with the letters asked for to /out.txt, a line each."
    )

    @env.tasks
    def tasks(rng: Random):
        for at in range(6):
            towns = [TOWNS[at], TOWNS[(at + 1) % 6]]
            yield Task(
                f"t{at}", prompt=f"The letters are {towns[0][0]} and {towns[1][0]}.", data={"towns": towns}, key={"towns": towns}
            )

    @env.setup
    async def put(world: World, task: Task) -> None:
        await world.write("/in.txt", "\n".join(sorted(TOWNS)))
        if flaw == "copy":
            await world.write("/var/old/list", "\n".join(f"{town} and its surroundings" for town in task.data["towns"]))

    @env.tool
    async def write_file(world: World, path: str, text: str) -> str:
        """Write a file."""
        if path != "/out.txt":
            raise ToolError("only /out.txt")
        await world.write(path, text)
        return "written"

    @env.check(points=1)
    def towns_are_there(evidence: Evidence, task: Task) -> bool:
        lines = evidence.read_text("/out.txt").splitlines()
        wanted = [f"{town} and its surroundings" for town in task.key["towns"]]
        return set(lines) >= set(wanted) if flaw == "heap" else lines == wanted

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        lines = "\n".join(f"{town} and its surroundings" for town in task.key["towns"])
        await agent.call("write_file", path="/out.txt", text=lines)
        await agent.say("done")

    return env


@pytest.mark.parametrize(("flaw", "found"), [("heap", {"D02.enumerate"}), ("", set())])
async def test_a_file_with_every_line_there_is_does_not_get_full_marks(flaw, found):
    assert codes(await floor._look_at_planting(await case_of(partial(lists, flaw)))) == found


@pytest.mark.parametrize(("flaw", "found"), [("copy", {"D11.finished"}), ("", set())])
async def test_finished_work_that_lies_about_is_a_leak(flaw, found):
    assert codes(await lookup._look_at_leaks(await case_of(partial(lists, flaw)))) == found


def payments(*, reads_taker: bool) -> Environment:
    env = Environment("payments", state=lambda: {"paid": []})

    @env.tasks
    def tasks(rng: Random):
        for at, town in enumerate(TOWNS):
            key = {"taker": town, "amount": 100 + at}
            yield Task(f"pay-{at}", prompt=f"Pay {key['amount']} to {town}.", key=key)

    @env.tool
    async def pay(world: World, taker: str, amount: int) -> str:
        """Pay."""
        world.state["paid"].append([taker, amount])
        return "paid"

    @env.check(points=1)
    def is_paid(evidence: Evidence, task: Task) -> bool:
        wanted = [task.key["taker"], task.key["amount"]]
        return [row if reads_taker else row[1:] for row in evidence.state["paid"]] == [wanted if reads_taker else wanted[1:]]

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("pay", **task.key)
        await agent.say("done")

    return env


def counted() -> Environment:
    """A reader that keeps what it read: reading something else is no wrong solution."""
    env = Environment("counted", state=lambda: {"read": {}})

    @env.tasks
    def tasks(rng: Random):
        for at, town in enumerate(TOWNS):
            yield Task(f"t{at}", prompt=f"How many people live in {town}?", key={"town": town, "people": 1000 * (at + 1)})

    @env.tool
    async def people(world: World, town: str) -> str:
        """How many."""
        return world.state["read"].setdefault(town, f"{town}: some")

    @env.check(points=1)
    def right(evidence: Evidence, task: Task) -> bool:
        return evidence.answer == str(task.key["people"])

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("people", town=task.key["town"])
        await agent.say(str(task.key["people"]))

    return env


async def test_a_reader_that_keeps_what_it_read_makes_no_wrong_solutions():
    assert codes(await mutation._look_at_mutants(await case_of(counted))) == set()


@pytest.mark.parametrize(("reads_taker", "found"), [(False, {"D02.unread"}), (True, set())])
async def test_an_argument_that_was_asked_for_and_nobody_reads_is_found(reads_taker, found):
    assert codes(await mutation._look_at_mutants(await case_of(partial(payments, reads_taker=reads_taker)))) == found
