import pytest

from fakes.endpoint import FakeEndpoint, calls, completion, says, status
from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace, Usage, text_message
from sandlot.core.types import Role, derive_seed
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.endpoint.retry import Patience
from sandlot.model.policy.chat import chat_policies

ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})


async def no_sleep(seconds):
    pass


def model(endpoint):
    return open_openai(OpenAIConfig(model="m", url=endpoint.url), environ={}, patience=Patience(sleep=no_sleep))


def opened(*messages: Message) -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=0, started=100.0)
    for message in messages:
        trace.append(Node(message=message, parent=len(trace.nodes) - 1 if trace.nodes else None))
    return trace


async def turn(endpoint, trace, tools=(), **settings) -> Node:
    async with model(endpoint) as chat, chat_policies(chat, Sampling(), **settings).policy(Task("t"), seed=7) as policy:
        return await policy.turn(trace, len(trace.nodes) - 1, tools)


async def test_a_turn_is_a_sampled_node_below_the_leaf():
    trace = opened(text_message(Role.SYSTEM, "s"), text_message(Role.USER, "2+2?"))
    clock = Clock(monotonic=iter([5.0, 5.5]).__next__, wall=lambda: 103.0)
    async with FakeEndpoint([says("4")]) as endpoint:
        node = await turn(endpoint, trace, clock=clock)
    assert node == Node(
        message=Message(role=Role.ASSISTANT, parts=(Text("4"),)),
        parent=1,
        sampled=True,
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        stop="stop",
        model=f"openai:m@{endpoint.url}",
        start_s=3.0,
        seconds=0.5,
    )


async def test_every_turn_has_a_seed_of_its_own():
    trace = opened(text_message(Role.USER, "go"))
    async with FakeEndpoint() as endpoint:
        trace.append(await turn(endpoint, trace))
        await turn(endpoint, trace)
    assert [request.body["seed"] for request in endpoint.requests] == [
        derive_seed("sampling", 7, 0),
        derive_seed("sampling", 7, 1),
    ]


@pytest.mark.parametrize(("reasoning", "shown"), [("drop", None), ("keep", "hm")])
async def test_earlier_reasoning_is_dropped_unless_kept(reasoning, shown):
    trace = opened(
        text_message(Role.USER, "go"),
        Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("a"))),
        text_message(Role.USER, "on"),
    )
    async with FakeEndpoint() as endpoint:
        await turn(endpoint, trace, reasoning=reasoning)
    assert endpoint.requests[0].body["messages"][1].get("reasoning_content") == shown


async def test_retries_are_events_of_the_trace():
    trace = opened(text_message(Role.USER, "go"))
    async with FakeEndpoint([status(429), status(503)]) as endpoint:
        await turn(endpoint, trace)
    assert [(event.kind, event.turn, event.detail["kind"]) for event in trace.events] == [
        ("model_retry", 0, "rate_limit"),
        ("model_retry", 0, "server"),
    ]


async def test_context_overflow_is_the_harness_s_to_decide():
    async with FakeEndpoint([status(400, code="context_length_exceeded")]) as endpoint:
        with pytest.raises(ModelError) as caught:
            await turn(endpoint, opened(text_message(Role.USER, "go")))
    assert caught.value.kind == "context"


async def test_native_calls_come_with_their_stop():
    async with FakeEndpoint([calls(("add", '{"x": 1}'))]) as endpoint:
        node = await turn(endpoint, opened(text_message(Role.USER, "go")), [ADD])
    assert node.message.calls == (ToolCall("c0", "add", {"x": 1}),)
    assert node.stop == "calls"
    assert endpoint.requests[0].body["tools"][0]["function"]["name"] == "add"


async def test_text_calls_are_explained_written_and_read():
    trace = opened(
        text_message(Role.USER, "go"),
        Message(role=Role.ASSISTANT, parts=(ToolCall("turn0_0", "add", {"x": 1}),)),
        Message(role=Role.TOOL, parts=(ToolResult("turn0_0", "2"),)),
    )
    reply = completion({"content": 'On. <tool_call>{"name": "add", "arguments": {"x": 2}}</tool_call>', "reasoning": "hm"})
    async with FakeEndpoint([reply]) as endpoint:
        node = await turn(endpoint, trace, [ADD], calls="text")
    sent = endpoint.requests[0].body
    assert "tools" not in sent
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert "<tool_call>" in sent["messages"][2]["content"]
    assert node.message.parts == (Reasoning("hm"), Text("On."), ToolCall("turn0_0", "add", {"x": 2}))
    assert node.stop == "calls"
