from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from sandlot.core.errors import AuthorError, StoppedByHook, ToolError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Text, ToolCall, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.policy.solution import Agent, open_solution

TASK = Task("t", prompt="2+2?", key={"answer": "4"})
ADD = ToolSpec(name="add", description="", parameters={})


class Stage:
    """A trace and the moves of a harness on it."""

    def __init__(self, policy):
        self.policy = policy
        self.trace = Trace(run="r", task="t", rollout=0, seed=0)
        self.hear(text_message(Role.USER, TASK.prompt))

    def hear(self, message: Message) -> None:
        self.trace.append(Node(message=message, parent=len(self.trace.nodes) - 1 if self.trace.nodes else None))

    def answer(self, *results: ToolResult) -> None:
        self.hear(Message(role=Role.TOOL, parts=results))

    async def turn(self) -> Node:
        with anyio.fail_after(5):
            node = await self.policy.turn(self.trace, len(self.trace.nodes) - 1, [ADD])
        self.trace.append(node)
        return node


@asynccontextmanager
async def playing(solution):
    async with open_solution("scripted:golden", solution, TASK) as policy:
        yield Stage(policy)


async def test_a_solution_calls_hears_and_says():
    async def solve(agent: Agent, task: Task) -> None:
        total = await agent.call("add", x=2, y=2)
        await agent.say(f"{total} = {task.key['answer']}")

    async with playing(solve) as stage:
        first = await stage.turn()
        stage.answer(ToolResult("golden_0", "4"))
        second = await stage.turn()
    assert first.message.calls == (ToolCall("golden_0", "add", {"x": 2, "y": 2}),)
    assert (first.stop, first.sampled, first.parent, first.model) == ("calls", True, 0, "scripted:golden")
    assert second.message.text == "4 = 4"
    assert second.stop == "stop"


async def test_several_calls_in_one_turn_are_answered_in_order():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say(",".join(await agent.call_all(("add", {"x": 1}), ("add", {"x": 2}))))

    async with playing(solve) as stage:
        assert len((await stage.turn()).message.calls) == 2
        stage.answer(ToolResult("golden_1", "two"), ToolResult("golden_0", "one"))
        assert (await stage.turn()).message.text == "one,two"


async def test_an_error_comes_back_as_text_and_is_told():
    seen = []

    async def solve(agent: Agent, task: Task) -> None:
        seen.append((await agent.call("add"), agent.last_error))
        seen.append((await agent.call("add"), agent.last_error))

    async with playing(solve) as stage:
        await stage.turn()
        stage.answer(ToolResult("golden_0", "no x", error=True))
        await stage.turn()
        stage.answer(ToolResult("golden_1", "fine"))
        await stage.turn()
    assert seen == [("no x", "no x"), ("fine", None)]


async def test_say_returns_what_the_environment_answers():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say("I heard " + await agent.say("hello"))

    async with playing(solve) as stage:
        await stage.turn()
        stage.hear(text_message(Role.USER, "good day"))
        assert (await stage.turn()).message.text == "I heard good day"


async def test_a_solution_sees_prompt_and_tools():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say(agent.prompt + agent.tools[0].name)

    async with playing(solve) as stage:
        assert (await stage.turn()).message.text == "2+2?add"


async def test_a_solution_that_ends_ends_with_empty_messages():
    async def solve(agent: Agent, task: Task) -> None:
        pass

    async with playing(solve) as stage:
        assert (await stage.turn()).message.parts == ()
        assert (await stage.turn()).message.parts == ()


@pytest.mark.parametrize("error", [KeyError("total"), ToolError("x"), ExceptionGroup("g", [KeyError("a"), KeyError("b")])])
async def test_what_a_solution_raises_is_the_author_s_error(error):
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("add")
        raise error

    async with playing(solve) as stage:
        await stage.turn()
        stage.answer(ToolResult("golden_0", "1"))
        for _ in range(2):
            with pytest.raises(AuthorError, match=r"solution .*solve"):
                await stage.turn()


async def test_a_solution_that_is_not_async_is_refused():
    with pytest.raises(AuthorError, match="async def"):
        async with playing(lambda agent, task: None):
            pass


async def test_arguments_are_what_a_model_would_have_sent():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("add", x=(1, 2))
        await agent.call("add", x=object())

    async with playing(solve) as stage:
        assert (await stage.turn()).message.calls[0].arguments == {"x": [1, 2]}
        stage.answer(ToolResult("golden_0", "1"))
        with pytest.raises(AuthorError, match="TypeError"):
            await stage.turn()


async def test_two_turns_at_once_are_refused_with_advice():
    async def solve(agent: Agent, task: Task) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.say, "a")
            group.start_soon(agent.say, "b")

    async with playing(solve) as stage:
        await stage.turn()
        stage.hear(text_message(Role.USER, "x"))
        with pytest.raises(AuthorError, match="call_all"):
            await stage.turn()


async def test_a_call_without_a_result_is_told_to_the_author():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("add")

    async with playing(solve) as stage:
        await stage.turn()
        stage.hear(text_message(Role.USER, "what?"))
        with pytest.raises(AuthorError, match="no result"):
            await stage.turn()


async def test_a_rollout_that_ends_early_cancels_its_solution():
    ended = []

    async def solve(agent: Agent, task: Task) -> None:
        try:
            await agent.call("add")
        finally:
            ended.append("cleanup")

    with anyio.fail_after(5):
        async with playing(solve) as stage:
            await stage.turn()
    assert ended == ["cleanup"]


async def test_a_solution_that_catches_everything_for_long_stops_nobody_else():
    tries, others = [], []

    async def solve(agent: Agent, task: Task) -> None:
        while len(tries) < 100:
            try:
                await agent.say("again")
            except BaseException:  # noqa: BLE001
                tries.append(len(others))

    async def count() -> None:
        while True:
            others.append(1)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        async with playing(solve) as stage:
            await stage.turn()
        group.cancel_scope.cancel()
    assert tries[-1] - tries[0] > 50, "others ran meanwhile"


async def test_a_solution_that_wraps_its_cancellation_does_not_spoil_the_rollout():
    async def solve(agent: Agent, task: Task) -> None:
        try:
            await agent.say("first")
        except BaseException as error:  # noqa: BLE001
            raise BaseExceptionGroup("several", [error]) from None

    async with playing(solve) as stage:
        assert (await stage.turn()).message.text == "first"


async def test_a_solution_that_swallows_cancellation_does_not_spoil_the_rollout():
    async def solve(agent: Agent, task: Task) -> None:
        try:
            await agent.call("add")
        except BaseException:  # noqa: BLE001 - what a careless author writes
            return

    with anyio.fail_after(5):
        async with playing(solve) as stage:
            await stage.turn()


async def test_what_the_rollout_raises_passes_through_as_it_is():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("add")

    async def rollout():
        async with playing(solve) as stage:
            await stage.turn()
            raise StoppedByHook("enough")

    with pytest.raises(StoppedByHook, match="enough"):
        await rollout()


async def test_a_hook_s_intervention_is_not_heard_as_an_answer():
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say("I heard " + await agent.say("hello"))

    async with playing(solve) as stage:
        await stage.turn()
        stage.hear(Message(role=Role.ASSISTANT, parts=(Text("instead"),)))
        stage.hear(text_message(Role.USER, "answer"))
        assert (await stage.turn()).message.text == "I heard answer"
