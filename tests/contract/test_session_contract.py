"""What every session promises to whoever holds the loop."""

from contextlib import asynccontextmanager

import pytest

from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.core.trace import Message, ToolCall, text_message
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.serve.environment.graded import GradedTask
from sandlot.wiring.parts import Grading

TASK = Task("one", prompt="Count to two.")


def counter() -> Environment:
    env = Environment("counter", limits=Limits(turns=3))
    env.check(points=1, id="two")(lambda evidence: evidence.state.get("count") == 2)

    @env.tool
    def count(world) -> int:
        """Count one up."""
        world.state["count"] = world.state.get("count", 0) + 1
        return world.state["count"]

    return env


@asynccontextmanager
async def of_a_world():
    async with open_session(counter(), TASK) as session:
        yield session


@asynccontextmanager
async def recorded():
    async with GradedTask(Grading(env=counter()), TASK).open() as session:
        yield session


COUNT = Message(role=Role.ASSISTANT, parts=(ToolCall("c", "count"),))


@pytest.fixture(params=[of_a_world, recorded], ids=["world", "recorded"])
async def session(request):
    async with request.param() as opened:
        yield opened


async def test_it_opens_with_words_and_no_end(session):
    step = await session.reset()
    assert step.messages
    assert step.end is None


async def test_tools_have_names_descriptions_and_object_schemas(session):
    assert [(tool.name, tool.description, tool.parameters["type"]) for tool in session.tools] == [
        ("count", "Count one up.", "object")
    ]


async def test_every_call_has_its_result(session):
    await session.reset()
    step = await session.step(COUNT)
    assert [(result.call, result.text) for result in step.messages[0].results] == [("c", "1")]


async def test_a_plain_message_terminates(session):
    await session.reset()
    step = await session.step(text_message(Role.ASSISTANT, "done"))
    assert (step.end, step.terminated, step.truncated) == (End.DONE, True, False)


async def test_a_budget_truncates(session):
    await session.reset()
    steps = [await session.step(COUNT) for _ in range(3)]
    assert [(step.terminated, step.truncated) for step in steps] == [(False, False), (False, False), (False, True)]


async def test_it_can_be_shown_to_a_person(session):
    await session.reset()
    assert "Count to two." in await session.render()
