import pytest

from sandlot.core.errors import ModelError
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Text, Tokens, ToolCall, ToolResult, Trace, Usage, text_message
from sandlot.core.types import Role
from sandlot.model.policy.replay import replay_policies
from sandlot.model.policy.scripted import scripted_policies

TASK = Task("t")


def call(turn: int) -> Message:
    return Message(role=Role.ASSISTANT, parts=(ToolCall(f"c{turn}", "add", {"turn": turn}),))


def result(turn: int, text: str) -> Message:
    return Message(role=Role.TOOL, parts=(ToolResult(f"c{turn}", text),))


def recording(*results: str, prompt: str = "go") -> Trace:
    """Calls answered by results, then last words."""
    trace = Trace(run="old", task="t", rollout=0, seed=0)
    leaf = trace.append(Node(message=text_message(Role.USER, prompt)))
    for turn, text in enumerate(results):
        node = Node(
            message=call(turn), parent=leaf, sampled=True, usage=Usage(completion_tokens=5, usd=1.0), tokens=Tokens(ids=b"\0" * 4)
        )
        leaf = trace.append(Node(message=result(turn, text), parent=trace.append(node)))
    trace.append(Node(message=text_message(Role.ASSISTANT, "done"), parent=leaf, sampled=True))
    return trace


async def play(recorded: Trace | None, live: list[str], *, prompt="go", **settings) -> Trace:
    trace = Trace(run="new", task="t", rollout=0, seed=0)
    leaf = trace.append(Node(message=text_message(Role.USER, prompt)))
    async with replay_policies(lambda task, seed: recorded, **settings).policy(TASK, 0) as policy:
        for turn, text in enumerate(live):
            leaf = trace.append(await policy.turn(trace, leaf, ()))
            leaf = trace.append(Node(message=result(turn, text), parent=leaf))
        trace.append(await policy.turn(trace, leaf, ()))
    return trace


def messages(trace: Trace) -> list[Message]:
    return [node.message for node in trace.nodes]


async def test_the_same_world_gives_the_same_trace():
    recorded = recording("1", "2")
    trace = await play(recorded, ["1", "2"])
    assert messages(trace) == messages(recorded)
    assert trace.events == []


async def test_exact_tokens_are_kept_and_nothing_is_paid_twice():
    node = next((await play(recording("1"), ["1"])).turns())
    assert node.tokens == Tokens(ids=b"\0" * 4)
    assert node.usage == Usage(completion_tokens=5)


async def test_a_result_that_differs_is_recorded_at_its_turn():
    trace = await play(recording("1", "2", "3"), ["1", "other", "3"])
    (event,) = trace.events
    assert (event.kind, event.turn) == ("replay_diverged", 2)
    assert event.detail == {"what": "result", "call": "c1", "recorded": "2", "now": "other"}


async def test_a_prompt_that_differs_is_recorded():
    (event,) = (await play(recording(), [], prompt="went")).events
    assert event.detail == {"what": "message", "recorded": "go", "now": "went"}


async def test_after_until_another_policy_goes_on():
    trace = await play(recording("1", "2"), ["1"], until=1, then=scripted_policies("constant:mine"))
    assert [node.message.text for node in trace.turns()] == ["", "mine"]
    assert [node.model for node in trace.turns()] == [None, "scripted:constant:mine"]


async def test_the_hand_over_is_compared_and_later_turns_are_not():
    trace = await play(recording("1", "2"), ["x", "y"], until=1, then=scripted_policies("constant:mine"))
    assert [event.turn for event in trace.events] == [1]


async def test_until_zero_replays_nothing():
    trace = await play(recording("1"), [], until=0, then=scripted_policies("constant:mine"))
    assert trace.answer == "mine"


async def test_a_recording_that_runs_out_hands_over_or_says_so():
    assert (await play(recording(), ["a"], then=scripted_policies("constant:mine"))).answer == "mine"
    with pytest.raises(ModelError, match="give a model"):
        await play(recording(), ["a"])


async def test_nothing_recorded_is_an_error():
    with pytest.raises(ModelError, match="was not recorded"):
        await play(None, [])


async def test_a_missing_result_is_a_difference():
    recorded = recording("1")
    trace = Trace(run="new", task="t", rollout=0, seed=0)
    leaf = trace.append(Node(message=text_message(Role.USER, "go")))
    async with replay_policies(lambda task, seed: recorded).policy(TASK, 0) as policy:
        leaf = trace.append(await policy.turn(trace, leaf, ()))
        leaf = trace.append(Node(message=Message(role=Role.USER, parts=(Text("no"),)), parent=leaf))
        trace.append(await policy.turn(trace, leaf, ()))
    assert [event.detail["what"] for event in trace.events] == ["result", "message"]
