"""A field with the answer beside its inputs is a leak; a field that the prompt asks for is the task."""

from functools import partial
from random import Random

import msgspec
import pytest

from drive.in_process import case_of, codes
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.audit.finding import Confidence
from sandlot.audit.probes.scripted.copied import LINE, _look_at_copies, _look_at_replies

CLAIMS = """
from sandlot import Environment, Task

env = Environment("claims", system="Read the case and reply with the cents.")


@env.tasks
def tasks(rng):
    for number in range(8):
        damage, excess = rng.randrange(50000, 900000), rng.randrange(10, 40) * 1000
        paid = {worked}
        case = {{"damage": damage, "excess": excess, "decision": {{"payable": paid}}}}
        yield Task(f"case-{{number}}", prompt="{prompt}", data={{"case": case}}, key={{"paid": paid}})


@env.tool
async def read_case(world):
    return {shown}


@env.check(points=1)
def right(evidence, task) -> bool:
    return evidence.answer.strip() == str(task.key["paid"])


@env.solution
async def solve(agent, task):
    await agent.say(str(task.key["paid"]))
"""
WORKED, DRAWN = "(damage - excess) * 7 // 10", "rng.randrange(1000, 90000)"
WHOLE = 'world.task.data["case"]'
AS_TEXT = r"""'damage: {damage}\nexcess: {excess}\npayable: {decision[payable]}'.format(**world.task.data["case"])"""
CUT = '{name: value for name, value in world.task.data["case"].items() if name != "decision"}'


async def standings(worked: str, shown: str, prompt: str = "What is paid?") -> list[Confidence]:
    source = CLAIMS.format(worked=worked, shown=shown, prompt=prompt)

    def make() -> Environment:
        space: dict = {}
        exec(compile(source, "environment.py", "exec"), space)
        return space["env"]

    case = await case_of(make)
    case.description = msgspec.structs.replace(case.description, sources={"environment.py": source})
    return [finding.standing for finding in await _look_at_copies(case)]


@pytest.mark.parametrize("shown", [WHOLE, AS_TEXT])
async def test_an_answer_beside_the_values_it_is_computed_from_is_confirmed(shown):
    assert await standings(WORKED, shown) == [Confidence.CONFIRMED]


async def test_a_record_without_the_answer_is_sound():
    assert await standings(WORKED, CUT) == []


async def test_a_field_that_was_not_computed_is_a_lead():
    assert await standings(DRAWN, WHOLE) == [Confidence.LEAD]


async def test_a_field_that_the_prompt_asks_for_by_name_is_a_lead():
    assert await standings(WORKED, WHOLE, "What is payable in this case?") == [Confidence.LEAD]


def guessing(*, tells: bool) -> Environment:
    env = Environment("guessing", state=dict)

    @env.tasks
    def tasks(rng: Random):
        for _ in range(8):
            secret = rng.randrange(100, 1000)
            yield Task(f"t{secret}", prompt="Which number?", data={"secret": secret}, key={"secret": secret})

    @env.user
    def reply(world: World, text: str) -> str | None:
        secret = world.task.data["secret"]
        if not text.isdecimal():
            return f"A number, please. ({world.task.data})" if tells else "A number, please."
        return None if int(text) == secret else "No."

    @env.check(points=1)
    def found_it(evidence: Evidence, task: Task) -> bool:
        return evidence.answer == str(task.key["secret"])

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say(str(task.key["secret"]))

    return env


@pytest.mark.parametrize(("tells", "found"), [(True, {"D11.reply"}), (False, set())])
async def test_a_reply_to_nonsense_that_holds_the_answer_is_a_leak(tells, found):
    assert codes(await _look_at_replies(await case_of(partial(guessing, tells=tells)))) == found


@pytest.mark.parametrize("gap", ["\n", " ", "\n - ", "a ", "\r\n"])
def test_a_long_gap_in_a_tool_result_is_read_in_linear_time(gap):
    assert LINE.findall(gap * 16_000 + "\n  - paid : 40 \r\n\nexcess=7") == [("paid", "40"), ("excess", "7")]
