"""A history is found again in the trace by structure; what was sampled keeps its node, and with it its tokens."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.branching import DriftKind
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.harness.captured.history import History

SYSTEM, ASK = text_message(Role.SYSTEM, "be brief"), text_message(Role.USER, "2+2?")
CALLED = Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("a1", "add", {"x": 2, "y": [1, 2]})))
RESULT = Message(role=Role.TOOL, parts=(ToolResult("a1", "4"),), agent="environment")
ANSWER = text_message(Role.ASSISTANT, "4")
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})


def fresh() -> History:
    return History(Trace(run="r", task="t", rollout=0, seed=0))


def take(history: History, messages, reply: Message, tools=()) -> int:
    """A request and the turn that answers it, as the server takes it."""
    leaf = history.leaf_of(messages, tools)
    return history.trace.append(Node(message=reply, parent=leaf, sampled=True))


def called(history: History) -> int:
    return take(history, [SYSTEM, ASK], CALLED)


def test_a_conversation_that_goes_on_is_one_path():
    history = fresh()
    called(history)
    last = take(history, [SYSTEM, ASK, CALLED, RESULT], ANSWER)
    assert [node.message for node in history.trace.path(last)] == [SYSTEM, ASK, CALLED, RESULT, ANSWER]
    assert len(history.trace.nodes) == 5
    assert history.drifts == {DriftKind.CLEAN: 2}
    assert history.trace.events == []


@pytest.mark.parametrize(
    "came",
    [
        Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("other-id", "add", {"y": [1, 2], "x": 2}))),
        Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("", "add", {"x": 2, "y": [1, 2]})), agent="someone"),
        Message(role=Role.ASSISTANT, parts=(Text("I "), Text("add. "), ToolCall("", "add", {"x": 2, "y": [1, 2]}))),
        Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("I add. "), ToolCall("", "add", {"x": 2, "y": [1, 2]}))),
    ],
    ids=["wire ids and key order", "another agent's name", "text in pieces", "reasoning that travelled"],
)
def test_what_only_the_wire_changed_is_the_same_turn(came):
    history = fresh()
    node = called(history)
    assert history.trace.nodes[history.leaf_of([SYSTEM, ASK, came, RESULT], ())].parent == node
    assert history.drifts == {DriftKind.CLEAN: 2}


def test_changed_white_space_is_realigned_and_recorded():
    history = fresh()
    node = called(history)
    came = msgspec.structs.replace(CALLED, parts=(Text("I add."), *CALLED.calls))
    assert history.trace.nodes[history.leaf_of([SYSTEM, ASK, came, RESULT], ())].parent == node
    assert history.drifts[DriftKind.REALIGN] == 1
    assert [event.detail["kind"] for event in history.trace.events] == ["realign"]


@pytest.mark.parametrize(
    "came",
    [
        text_message(Role.ASSISTANT, "I add. "),
        Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("a1", "add", {"x": 3, "y": [1, 2]}))),
        Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("a1", "sub", {"x": 2, "y": [1, 2]}))),
        Message(role=Role.ASSISTANT, parts=(Text("I subtract. "), *CALLED.calls)),
        Message(role=Role.ASSISTANT, parts=(Text("I add. "), ToolCall("a1", "add", malformed="{"))),
    ],
    ids=["a call left out", "an argument changed", "another tool", "other words", "arguments broken"],
)
def test_a_changed_turn_is_a_fork_beside_the_sampled_one(came):
    history = fresh()
    node = called(history)
    leaf = history.leaf_of([SYSTEM, ASK, came, RESULT], ())
    path = history.trace.path(leaf)
    assert [each.message for each in path] == [SYSTEM, ASK, came, RESULT]
    assert not any(each.sampled for each in path)
    assert history.trace.nodes[node].message == CALLED
    assert history.drifts[DriftKind.FORK] == 1


def test_a_shortened_history_and_another_system_prompt_begin_anew():
    history = fresh()
    called(history)
    take(history, [SYSTEM, text_message(Role.USER, "summary: 2+2")], ANSWER)
    take(history, [text_message(Role.SYSTEM, "name this talk"), ASK], ANSWER)
    assert history.drifts == {DriftKind.CLEAN: 1, DriftKind.FORK: 2}
    assert sum(node.parent is None for node in history.trace.nodes) == 2


def test_other_tools_are_another_prompt():
    history = fresh()
    called(history)
    leaf = history.leaf_of([SYSTEM, ASK, CALLED, RESULT], [ADD])
    assert not any(node.sampled for node in history.trace.path(leaf))
    assert history.drifts[DriftKind.FORK] == 1


def test_the_same_request_again_is_a_second_turn_beside_the_first():
    history = fresh()
    first = called(history)
    second = take(history, [SYSTEM, ASK], ANSWER)
    assert history.trace.nodes[first].parent == history.trace.nodes[second].parent
    assert history.drifts == {DriftKind.CLEAN: 1, DriftKind.FORK: 1}


def test_of_two_equal_turns_the_newest_is_meant():
    history = fresh()
    called(history)
    second = called(history)
    assert history.trace.nodes[history.leaf_of([SYSTEM, ASK, CALLED, RESULT], ())].parent == second


texts = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.integers(0, 30), texts, texts), max_size=12))
def test_every_turn_is_below_exactly_what_was_sent(moves):
    """The slow twin: whatever was sent, the path to the new turn spells it, and no node was changed."""
    history = fresh()
    sent: list[list[Message]] = [[]]
    for choice, ask, reply in moves:
        messages = [*sent[choice % len(sent)], text_message(Role.USER, ask)]
        before = list(history.trace.nodes)
        node = take(history, messages, text_message(Role.ASSISTANT, reply))
        assert [each.message for each in history.trace.path(node)] == [*messages, text_message(Role.ASSISTANT, reply)]
        assert history.trace.nodes[: len(before)] == before
        sent.append([*messages, text_message(Role.ASSISTANT, reply)])
    assert sum(history.drifts.values()) == len(moves)
    distinct = {tuple(message.text for message in path[:end]) for path in sent for end in range(1, len(path) + 1)}
    unsampled = [index for index, each in enumerate(history.trace.nodes) if not each.sampled]
    assert len(unsampled) == len(
        {(history.trace.nodes[index].parent, history.trace.nodes[index].message.text) for index in unsampled}
    )
    assert len(unsampled) + history.trace.num_turns >= len(distinct)
