"""The client of Anthropic's API: what it sends our own server reads back, and a reply becomes parts."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.pictures import png
from fakes.endpoint import Answer, FakeEndpoint, status
from sandlot.core.errors import ModelError
from sandlot.core.images import images_stored_in
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Reasoning, Text, ToolCall, ToolResult, Usage, text_message
from sandlot.core.types import Role, digest
from sandlot.model.endpoint.chat import chat_config, open_openai
from sandlot.model.endpoint.retry import Patience
from sandlot.model.wire.anthropic_client import messages_request, parse_messages_reply
from sandlot.model.wire.anthropic_server import messages_body, read_messages
from sandlot.model.wire.turn import TurnReply
from sandlot.store.blobs import MemoryBlobs

PICTURE = png(6, 5)
PART = ImagePart(digest(PICTURE), "image/png", width=6, height=5)
LOOK = ToolSpec(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
HISTORY = [
    text_message(Role.SYSTEM, "Be brief."),
    Message(role=Role.USER, parts=(Text("What is this?"), PART)),
    Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("I look."), ToolCall("c1", "look", {"at": 1}))),
    Message(
        role=Role.TOOL, parts=(ToolResult("c1", "seen", images=(PART,)), ToolResult("c2", "", error=True)), agent="environment"
    ),
    text_message(Role.USER, "Go on."),
]


def test_what_is_sent_our_server_reads():
    body = messages_request("m", HISTORY, [LOOK], Sampling(max_tokens=9, stop=("x",), top_k=3), {PART.artifact: PICTURE})
    asked = read_messages(body, images=True)
    assert asked.messages[:2] == tuple(HISTORY[:2])
    assert asked.messages[2].parts == (Text("I look."), ToolCall("c1", "look", {"at": 1}))
    assert asked.messages[3:] == tuple(HISTORY[3:])
    assert (asked.tools, asked.images) == ((LOOK,), {PART.artifact: PICTURE})
    assert asked.sampling == {"temperature": 1.0, "top_k": 3, "max_tokens": 9, "stop_sequences": ["x"]}


def test_the_shape_is_that_of_the_api():
    body = json.loads(messages_request("m", HISTORY, [LOOK], Sampling(), {PART.artifact: PICTURE}))
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    result = body["messages"][2]["content"][0]
    assert (result["type"], result["tool_use_id"], result["content"][0]) == (
        "tool_result",
        "c1",
        {"type": "text", "text": "seen"},
    )
    assert result["content"][1]["source"]["media_type"] == "image/png"
    assert (body["system"], body["max_tokens"]) == ("Be brief.", 4096)
    assert body["tools"] == [{"name": "look", "description": "Looks.", "input_schema": LOOK.parameters}]


_TEXTS = st.text(max_size=20)
_PARTS = st.one_of(_TEXTS.map(Text), _TEXTS.map(Reasoning), st.builds(ToolCall, st.text("ab", min_size=1), st.just("look")))


@given(st.lists(st.builds(lambda role, parts: Message(role=role, parts=tuple(parts)), st.sampled_from(Role), st.lists(_PARTS))))
def test_roles_alternate_and_no_message_is_empty(messages):
    turns = json.loads(messages_request("m", messages, (), Sampling(), {}))["messages"]
    assert all(one["role"] != other["role"] for one, other in itertools.pairwise(turns))
    assert all(turn["content"] for turn in turns)


def test_a_model_that_takes_text_only_is_sent_no_image():
    with pytest.raises(ModelError, match=r"name it `anthropic\+images:NAME`"):
        messages_request("m", HISTORY, (), Sampling(), None)


@pytest.mark.parametrize("stop", ["stop", "length", "refusal"])
def test_a_reply_of_our_server_is_read_back(stop):
    said = Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("yes")))
    usage = Usage(prompt_tokens=10, completion_tokens=4, cached_tokens=3)
    reply = parse_messages_reply(json.dumps(messages_body(TurnReply(said, stop, usage), "m")).encode())
    assert (reply.parts, reply.stop, reply.usage) == (said.parts, stop, usage)


def test_calls_are_read_with_ids_of_their_own():
    block = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": 2}}
    reply = parse_messages_reply(json.dumps({"content": [block, block], "stop_reason": "tool_use"}).encode())
    assert reply.parts == (ToolCall("t", "look", {"at": 2}), ToolCall("t.1", "look", {"at": 2}))
    assert reply.stop == "calls"


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"content": 5}', b'{"choices": []}'])
def test_a_reply_that_is_none_is_malformed(body):
    with pytest.raises(ModelError) as caught:
        parse_messages_reply(body)
    assert caught.value.kind == "malformed"


async def test_the_endpoint_gets_the_key_in_its_own_header_and_no_error_shows_it():
    key, blobs = "sk-ant-canary-0123456789", MemoryBlobs()
    await blobs.put(PICTURE)
    good = Answer(json.dumps({"content": [{"type": "text", "text": "a picture"}], "stop_reason": "end_turn"}).encode())
    async with FakeEndpoint([good, status(400, message=f"bad key {key}")]) as endpoint:
        config = chat_config("anthropic", f"claude@{endpoint.url}")
        async with open_openai(config, environ={"ANTHROPIC_API_KEY": key}, patience=Patience(0.0)) as model:
            assert model.name == f"anthropic:claude@{endpoint.url}"
            with images_stored_in(blobs), pytest.raises(ModelError, match="takes text only"):
                await model.chat(HISTORY, (), Sampling())
            reply = await model.chat(HISTORY[:1], (), Sampling())
            with pytest.raises(ModelError) as caught:
                await model.chat(HISTORY[:1], (), Sampling())
    assert reply.parts == (Text("a picture"),)
    assert endpoint.requests[0].path == "/v1/messages"
    assert endpoint.requests[0].headers["x-api-key"] == key
    assert endpoint.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in endpoint.requests[0].headers
    assert key not in str(caught.value)


def test_names_that_endpoints_refuse_are_sent_as_others():
    """The next request was refused, and a rollout in which the agent had invented such a name had no score."""
    odd = ["a/b", "", "x" * 256, "multi_tool_use.parallel", "look", "files.read", "la\nla"]
    parts = tuple(ToolCall(f"c{at}", name) for at, name in enumerate(odd))
    history = [text_message(Role.USER, "Go \ud800."), Message(role=Role.ASSISTANT, parts=parts)]
    tool = ToolSpec(name="files.read", description="Reads.", parameters={"type": "object"})
    sent = json.loads(messages_request("m", history, [tool], Sampling(), None))
    names = [block["name"] for turn in sent["messages"] for block in turn["content"] if block["type"] == "tool_use"]
    assert names == ["a_b", "unknown", "x" * 64, "multi_tool_use_parallel", "look", "files.read", "la_la"]
