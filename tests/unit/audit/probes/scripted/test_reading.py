"""Values that golden needs and the output limit hides; paging, a shell or another tool can still reach them."""

import pytest

from drive.in_process import case_of
from sandlot import Environment, Task
from sandlot.audit.finding import Severity
from sandlot.audit.probes.scripted.reading import _look_behind_cuts
from sandlot.core.limits import Limits

LINE = "nothing of note happened here\n"


async def read_log(world) -> str:
    return world.task.data["log"]


async def read_log_by_name(world, name: str = "log") -> str:
    return world.task.data["log"]


async def read_log_by_page(world, page: int = 0) -> str:
    return world.task.data["log"]


async def last_code(world) -> str:
    return f"the code is {world.task.data['code']}"


async def enter(world, code: str) -> str:
    world.state["entered"] = code
    return f"entered {code}"


def logbook(*tools, place: float = 0.5, limit: int = 3000, known: bool = False, lines: int = 200):
    """A log of 6000 characters with a code in it; golden enters the code."""

    def make() -> Environment:
        env = Environment("logbook", limits=Limits(tool_output_chars=limit))

        @env.tasks
        def tasks(rng):
            for number in range(3):
                code = f"KX-{number}-{4711 + number}-AB"
                rows = [LINE] * lines
                rows.insert(int(place * lines), f"the code is {code}\n")
                prompt = f"Enter the code{f' {code}' if known else ''}."
                yield Task(f"log-{number}", prompt=prompt, data={"log": "".join(rows), "code": code}, key={"code": code})

        for tool in (*(tools or (read_log,)), enter):
            env.tool(tool)

        @env.check(points=1)
        def entered(evidence, task) -> bool:
            return evidence.state.get("entered") == task.key["code"]

        @env.solution
        async def solve(agent, task) -> None:
            await agent.call("enter", code=task.key["code"])
            await agent.say("done")

        return env

    return make


@pytest.mark.parametrize(
    ("make", "code", "severity"),
    [
        (logbook(), "D19.behind", Severity.HIGH),
        (logbook(read_log_by_name), "D19.behind", Severity.LOW),
        (logbook(place=0.25), "D19.margin", Severity.INFO),
        (logbook(limit=8000), "D19.margin", Severity.INFO),
        (logbook(limit=16000), None, None),
        (logbook(place=0.0), None, None),
        (logbook(place=1.0), None, None),
        (logbook(read_log_by_page), None, None),
        (logbook(read_log, last_code), None, None),
        (logbook(known=True), None, None),
    ],
)
async def test_a_hidden_value_is_reported_only_where_no_tool_reaches_it(make, code, severity):
    found = await _look_behind_cuts(await case_of(make))
    assert [(each.code, each.severity, each.count) for each in found] == ([(code, severity, 3)] if code else [])


async def test_short_results_are_read_only_once():
    case = await case_of(logbook(lines=10))
    await case.golden()
    await case.idle()
    before = case.taken
    assert await _look_behind_cuts(case) == []
    assert case.taken <= before + 2 * len(case.tasks)
