"""One set of records, two degrees of strictness: our client tolerates what our server refuses from agents."""

import json

import pytest
from starlette.exceptions import HTTPException

from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Message, Reasoning, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.wire.openai_client import parse_reply, request_body
from sandlot.model.wire.openai_server import read_chat

CALL = {"id": "a", "function": {"name": "add", "arguments": "{}"}}


def test_our_server_reads_what_our_client_writes():
    history = [
        text_message(Role.SYSTEM, "be brief"),
        text_message(Role.USER, "2+2?"),
        Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("I add."), ToolCall("a", "add", {"x": 1}))),
        Message(role=Role.TOOL, parts=(ToolResult("a", "4"),), agent="environment"),
    ]
    _, asked = read_chat(request_body("m", history, (), Sampling()))
    assert list(asked.messages) == history


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": [CALL | {"id": None}]},
        {"role": "assistant", "content": [{"text": "no type"}]},
        {"role": "nobody", "content": "x"},
        {"content": "no role"},
        {"role": "assistant", "content": "x", "tool_call_id": 5},
    ],
)
def test_the_client_tolerates_what_the_server_refuses(message):
    body = {"choices": [{"message": message}]}
    assert parse_reply(json.dumps(body).encode()).parts
    with pytest.raises(HTTPException) as caught:
        read_chat(json.dumps({"messages": [message]}).encode())
    assert caught.value.status_code == 400


@pytest.mark.parametrize("extra", [{"type": 5}, {"index": "x"}])
def test_fields_without_a_meaning_are_ignored_on_both_sides(extra):
    message = {"role": "assistant", "content": "", "tool_calls": [CALL | extra]}
    (call,) = parse_reply(json.dumps({"choices": [{"message": message}]}).encode()).parts
    _, asked = read_chat(json.dumps({"messages": [message]}).encode())
    assert asked.messages[0].parts == (call,)
