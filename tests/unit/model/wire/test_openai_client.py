import json
from itertools import groupby

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Reasoning, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.wire.openai_client import parse_reply, request_body, wire_messages

text = st.text(min_size=1)
arguments = st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**63) | st.booleans() | st.none() | st.lists(st.text()))
calls = st.builds(ToolCall, text, text, arguments)


@st.composite
def assistant_messages(draw):
    listed = draw(st.lists(calls, max_size=3, unique_by=lambda call: call.id))
    thoughts = draw(st.lists(st.builds(Reasoning, text), max_size=1))
    said = draw(st.lists(st.builds(Text, text), max_size=1))
    return Message(role=Role.ASSISTANT, parts=(*thoughts, *said, *listed))


plain_messages = st.builds(Message, role=st.sampled_from([Role.SYSTEM, Role.USER]), parts=st.tuples(st.builds(Text, text)))
tool_messages = st.builds(
    Message, role=st.just(Role.TOOL), parts=st.lists(st.builds(ToolResult, text, text), min_size=1, max_size=3).map(tuple)
)


def read_back(wire: list[dict]) -> list[Message]:
    """The slow, obvious way: what another client would understand; neighbouring tool messages are one."""
    messages = []
    for is_tool, group in groupby(wire, lambda message: message["role"] == "tool"):
        if is_tool:
            parts = tuple(ToolResult(message["tool_call_id"], message["content"]) for message in group)
            messages.append(Message(role=Role.TOOL, parts=parts))
            continue
        for message in group:
            reply = parse_reply(json.dumps({"choices": [{"message": message}]}).encode())
            messages.append(Message(role=Role(message["role"]), parts=reply.parts))
    return messages


@given(st.lists(assistant_messages() | plain_messages, max_size=4), tool_messages)
def test_what_goes_out_can_be_read_back(messages, results):
    history = [*messages, results]
    names = {call.name for message in messages for call in message.calls}
    tools = [ToolSpec(name=name, description="", parameters={}) for name in names]
    sent = json.loads(request_body("m", history, tools, Sampling()))
    assert read_back(sent["messages"]) == history


@given(st.lists(assistant_messages() | plain_messages | tool_messages, max_size=5))
def test_every_message_has_a_role_and_content(messages):
    for message in messages:
        for out in wire_messages(message):
            assert out.role in {"system", "user", "assistant", "tool"}
            assert isinstance(out.content, str) or out.tool_calls


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KNOWN = ["choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "usage", "finish_reason", "error"]
SHAPED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=4),
    max_leaves=20,
)


def reply_or_kind(body: bytes) -> Reply | str:
    try:
        return parse_reply(body)
    except ModelError as error:
        return error.kind


@given(JSON | SHAPED | SHAPED.map(lambda message: {"choices": [{"message": message}]}))
def test_any_json_is_a_reply_that_can_be_stored_or_a_model_error(value):
    got = reply_or_kind(json.dumps(value).encode())
    assert got in {"malformed", "context", "server"} if isinstance(got, str) else msgspec.msgpack.encode(got)


@given(st.binary())
def test_any_bytes_are_a_model_error(data):
    assert reply_or_kind(data) == "malformed"


def test_half_characters_in_a_reply_are_replaced():
    """A model writes the escape, and a server hands it on. It was `Failed(model)`: a turn of the agent that was not graded."""
    call = {"id": "c\udc80", "type": "function", "function": {"name": "lo\ud800ok", "arguments": '{"text": "\\ud800"}'}}
    message = {"content": "a \ud83d\ude00 b \ud800", "reasoning_content": "\udfff", "tool_calls": [call]}
    reply = parse_reply(json.dumps({"choices": [{"message": message, "finish_reason": "\udc80"}]}).encode())
    thought, text, called = reply.parts
    assert (thought.text, text.text, called.id, called.name) == ("?", "a 😀 b ?", "c?", "lo?ok")


@pytest.mark.parametrize(
    "body", [b'{"choices": "\\ud800"}', b'{"choices": [{"message": {"content": "\\ud800"}}', b"[" * 9999 + b'"\\ud800']
)
def test_half_characters_in_what_is_no_reply_are_an_error_of_the_model(body):
    with pytest.raises(ModelError, match="not a chat completion"):
        parse_reply(body)


def test_names_that_endpoints_refuse_are_sent_as_others():
    """The next request was refused, and a rollout in which the agent had invented such a name had no score."""
    odd = ["a/b", "", "x" * 256, "multi_tool_use.parallel", "look", "files.read", "la\nla"]
    parts = tuple(ToolCall(f"c{at}", name) for at, name in enumerate(odd))
    history = [text_message(Role.USER, "Go \ud800."), Message(role=Role.ASSISTANT, parts=parts)]
    tool = ToolSpec(name="files.read", description="Reads.", parameters={"type": "object"})
    sent = json.loads(request_body("m", history, [tool], Sampling()))
    names = [call["function"]["name"] for turn in sent["messages"] for call in turn.get("tool_calls", ())]
    assert names == ["a_b", "unknown", "x" * 64, "multi_tool_use_parallel", "look", "files.read", "la_la"]
