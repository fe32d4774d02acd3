"""Both dialects say the same: what a client sends is read alike, and a turn comes back whole, or as a stream that adds up."""

import json

import pytest
from starlette.exceptions import HTTPException

from sandlot.core.trace import Message, Reasoning, Text, ToolCall, Usage
from sandlot.core.types import Role
from sandlot.harness.captured.history import shape_of
from sandlot.model.wire.anthropic_server import messages_body, messages_events, read_messages
from sandlot.model.wire.openai_server import chat_body, chat_events, read_chat
from sandlot.model.wire.turn import TurnReply

OPENAI = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "2+2"}, {"type": "text", "text": "?"}]},
        {
            "role": "assistant",
            "content": "I add.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
                {"id": "b", "type": "function", "function": {"name": "add", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "3"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "4"}]},
        {"role": "user", "content": "well?"},
    ],
    "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}],
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    "max_tokens": 100,
    "messages": [
        {"role": "user", "content": "2+2?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "3"},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "4"}]},
                {"type": "text", "text": "well?"},
            ],
        },
    ],
    "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
}


def test_the_same_conversation_is_read_alike():
    _, one = read_chat(json.dumps(OPENAI).encode())
    other = read_messages(json.dumps(ANTHROPIC).encode())
    assert list(map(shape_of, one.messages)) == list(map(shape_of, other.messages))
    assert one.tools == other.tools
    assert [message.role for message in one.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert [part.call for part in one.messages[3].results] == ["a", "b"]


TURN = Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("Ünd: "), ToolCall("c1", "add", {"x": [1, "2"]})))
TURNS = [
    TurnReply(TURN, "calls", Usage(prompt_tokens=9, completion_tokens=3, cached_tokens=4)),
    TurnReply(Message(role=Role.ASSISTANT, parts=(Text("4"),)), "stop", Usage()),
    TurnReply(Message(role=Role.ASSISTANT, parts=()), "length", Usage()),
]


@pytest.mark.parametrize("answered", TURNS)
def test_an_openai_reply_comes_back_as_it_went_out(answered):
    body = json.loads(json.dumps(chat_body(answered, "m")))
    history = [{"role": "user", "content": "x"}, body["choices"][0]["message"]]
    _, asked = read_chat(json.dumps({"messages": history}).encode())
    assert shape_of(asked.messages[1]) == shape_of(answered.message)


@pytest.mark.parametrize("answered", TURNS)
def test_an_openai_stream_adds_up_to_the_reply(answered):
    events = [piece.removeprefix(b"data: ").strip() for piece in chat_events(answered, "m", usage=True)]
    assert events.pop() == b"[DONE]"
    chunks = [json.loads(each) for each in events]
    whole = chat_body(answered, "m")
    assert chunks.pop()["usage"] == whole["usage"]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == answered.message.text
    assert [call for delta in deltas for call in delta.get("tool_calls", ())] == [
        {"index": place} | call for place, call in enumerate(whole["choices"][0]["message"].get("tool_calls", ()))
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.parametrize("answered", TURNS)
def test_an_anthropic_reply_comes_back_as_it_went_out(answered):
    body = json.loads(json.dumps(messages_body(answered, "m")))
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": body["content"]}]
    asked = read_messages(json.dumps({"messages": history}).encode())
    assert shape_of(asked.messages[1]) == shape_of(answered.message)
    usage = body["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == answered.usage.prompt_tokens


@pytest.mark.parametrize("answered", TURNS)
def test_an_anthropic_stream_adds_up_to_the_reply(answered):
    blocks: list[dict] = []
    partial: list[str] = []
    kinds = []
    for piece in messages_events(answered, "m"):
        name, data = piece.decode().split("\n", 1)
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        kinds.append(event["type"])
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(block)
                partial.append("")
            case {"delta": {"type": "text_delta", "text": text}}:
                blocks[-1]["text"] += text
            case {"delta": {"type": "thinking_delta", "thinking": text}}:
                blocks[-1]["thinking"] += text
            case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                partial[-1] += text
    for block, written in zip(blocks, partial, strict=True):
        if block["type"] == "tool_use":
            block["input"] = json.loads(written)
    assert blocks == messages_body(answered, "m")["content"]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"null", "object"),
        (b'{"messages": [{"role": "user"}]}', "content"),
        (b'{"messages": []}', "messages"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image"}]}]}', "messages[0].content[0]"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "any"}}', "tool_choice"),
        (b'{"messages": [{"role": "user", "content": ' + b'[{"type": "tool_result", "content": ' * 3000 + b"1", "JSON"),
    ],
)
def test_a_hostile_anthropic_request_is_refused_by_the_name_of_its_field(body, named):
    with pytest.raises(HTTPException) as caught:
        read_messages(body)
    assert caught.value.status_code == 400
    assert named in caught.value.detail


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"', "x" * (2**20 + 1)])
def test_arguments_that_are_no_object_are_kept_as_text(arguments):
    call = {"id": "a", "function": {"name": "add", "arguments": arguments}}
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    _, asked = read_chat(json.dumps({"messages": history}).encode())
    (read,) = asked.messages[1].calls
    assert read.malformed


@pytest.mark.parametrize("schema", [{"properties": [1]}, {"properties": "x"}, {"required": 5}, {"required": [["a"]]}])
def test_a_schema_no_renderer_could_read_is_the_clients_mistake(schema):
    asked = {"messages": [{"role": "user", "content": "x"}]}
    chat = asked | {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
    messages = asked | {"tools": [{"name": "f", "input_schema": schema}]}
    for read, body, field in (
        (read_chat, chat, "tools[0].function.parameters"),
        (read_messages, messages, "tools[0].input_schema"),
    ):
        with pytest.raises(HTTPException) as caught:
            read(json.dumps(body).encode())
        assert caught.value.status_code == 400
        assert field in caught.value.detail


def test_a_call_that_could_not_be_read_comes_back_from_anthropics_clients_as_it_was():
    said = Message(role=Role.ASSISTANT, parts=(ToolCall("a", "add", {}, malformed='{"x": 1'),))
    reply = messages_body(TurnReply(said, "calls", Usage()), "m")
    history = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": reply["content"]}]
    again = read_messages(json.dumps({"messages": history}).encode()).messages[1]
    assert shape_of(again) == shape_of(said)
