"""Generated texts that a tool cuts: found by the slice in its code and the length of its results."""

import msgspec
import pytest

from drive.in_process import case_of
from sandlot import Environment
from sandlot.audit.probes.scripted.visibility import _look_at_cuts

REPORTS = """
from sandlot import Environment, Task

PAGE = 54
env = Environment("reports", system="Open the report and reply with the number.")


@env.tasks
def tasks(rng):
    for number in range(8):
        members, metres = rng.randrange(11, 99), rng.randrange(3000, 8000)
        asked = (members, metres)[number % 2]
        data = {{"members": members, "metres": metres, "name": "abcdefgh"[number]}}
        yield Task(f"t{{number}}", prompt=f"How many {{('members', 'metres')[number % 2]}}?", data=data, key={{"asked": asked}})


@env.tool
async def open_report(world) -> str:
    "The report."
    data = world.task.data
    text = f"Report {{data['name']}}: {{data['members']}} members went a long, long way and reached {{data['metres']}} metres."
    return {shown}


@env.check(points=1)
def right(evidence, task) -> bool:
    return evidence.answer == str(task.key["asked"])


@env.solution
async def solve(agent, task):
    await agent.call("open_report")
    await agent.say(str(task.key["asked"]))
"""


@pytest.mark.parametrize(
    ("shown", "severities"),
    [("text[:PAGE]", ["high"]), ("text", []), ("text[:PAGE] + ' [cut]'", []), ("text[:20] + text[20:]", [])],
)
async def test_a_generated_text_that_is_cut_silently_is_found(shown, severities):
    source = REPORTS.format(shown=shown)

    def make() -> Environment:
        space: dict = {}
        exec(compile(source, "environment.py", "exec"), space)
        return space["env"]

    case = await case_of(make)
    case.description = msgspec.structs.replace(case.description, sources={"environment.py": source})
    assert [finding.severity for finding in await _look_at_cuts(case)] == severities
