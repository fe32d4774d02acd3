import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.wire.text_calls import MAX_OPENINGS, MAX_TEXT, messages_as_text, parse_calls, tool_instructions

ADD = '{"name": "add", "arguments": {"x": 1}}'
ADD_CALL = ToolCall("call_0", "add", {"x": 1})


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{ADD}</tool_call>",
        f"<tool_call>\n{ADD}\n</tool_call>",
        f"<tool_call>{ADD}",
        f"<tool_call>[{ADD}]</tool_call>",
        f"```json\n{ADD}\n```",
        f"```tool_call\n{ADD}\n```",
        f"```json\n{ADD}",
        '<function=add>{"x": 1}</function>',
        '<function=add>{"x": 1}',
        '<tool_call>{"name": "add", "parameters": {"x": 1}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": "{\\"x\\": 1}"}</tool_call>',
    ],
)
def test_every_spelling_is_read(text):
    assert parse_calls(text) == ("", (ADD_CALL,))


def test_text_around_a_call_is_kept():
    assert parse_calls(f"I add.\n<tool_call>{ADD}</tool_call>\nThen I wait.").text == "I add.\n\nThen I wait."


def test_several_calls_have_ids_of_their_own():
    found = parse_calls(f"<tool_call>{ADD}</tool_call><function=mul>{{}}</function>\n```json\n{ADD}\n```", "turn3")
    assert [(call.id, call.name) for call in found.calls] == [("turn3_0", "add"), ("turn3_1", "mul"), ("turn3_2", "add")]


@pytest.mark.parametrize("inside", ["</tool_call>", "```", "<tool_call>", "</function>", "```json\n{}\n```"])
def test_a_mark_inside_a_string_does_not_end_the_call(inside):
    written = json.dumps({"name": "write", "arguments": {"text": f"a {inside} b"}})
    expected = ToolCall("call_0", "write", {"text": f"a {inside} b"})
    assert parse_calls(f"<tool_call>{written}</tool_call>") == ("", (expected,))
    assert parse_calls(f"```json\n{written}\n```") == ("", (expected,))


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        "",
        '```json\n{"name": "Ada"}\n```',
        "```json\n[1, 2]\n```",
        "```json\nnot json\n```",
        "a < b",
        "```python\nx\n```",
    ],
)
def test_text_without_a_call_comes_back_as_it_was(text):
    assert parse_calls(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<tool_call>{"name": "add", "arguments": {"x": }}</tool_call>', "add"),
        ("<tool_call>add(1)</tool_call>", "unreadable"),
        ('<tool_call>{"tool": "add"}</tool_call>', "unreadable"),
        ('<tool_call>{"name": "add", "arguments": [1]}</tool_call>', "add"),
        ('<tool_call>{"name": "add", "arguments": {"x": NaN}}</tool_call>', "add"),
        ('<tool_call>{"name": "add", "arguments": {"x": "\\ud800"}}</tool_call>', "add"),
        ('<tool_call>{"name": "add", "arguments": {"x": 1' + "0" * 40 + "}}</tool_call>", "add"),
        ("<function=add>x = 1</function>", "add"),
        ("```tool_call\nadd\n```", "unreadable"),
        ('<tool_call>{"name": "add", "arguments": {"x": ' + "[" * 500 + "]" * 500 + "}}</tool_call>", "add"),
    ],
)
def test_a_call_that_cannot_be_read_is_kept_as_malformed(text, name):
    (call,) = parse_calls(text).calls
    assert call.malformed
    assert call.name == name


@pytest.mark.parametrize(
    "unit",
    [
        "<tool_call>",
        "<tool_call>{",
        '<tool_call>{"a":"',
        "```json\n",
        "```json\n[",
        '```json {"',
        "<function=",
        "<function=a>",
        '```json {",":"","b":"',
        "<tool_call>{}</tool_call>",
        "[",
        "`",
        "```json " + " " * 50,
        '<tool_call>"',
        "<tool_call>{}",
    ],
)
def test_hostile_text_costs_bounded_time_and_never_raises(unit):
    text = unit * (10 * MAX_TEXT // len(unit))
    found = parse_calls(text)
    assert len(found.calls) <= MAX_OPENINGS


MARKS = [
    "<tool_call>",
    "</tool_call>",
    "```json\n",
    "```",
    "<function=f>",
    "</function>",
    "{",
    "}",
    '"',
    ADD,
    "x",
    "\n",
    "\ud800",
]


@given(st.lists(st.sampled_from(MARKS)))
def test_any_mixture_of_marks_gives_calls_that_can_be_stored(pieces):
    found = parse_calls("".join(pieces))
    assert msgspec.msgpack.encode(found.calls)
    assert len({call.id for call in found.calls}) == len(found.calls)


@given(st.text(max_size=20), st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.booleans(), max_size=4))
def test_what_is_written_is_read_again(said_before, arguments):
    call = ToolCall("call_0", "tool", arguments)
    (shown,) = messages_as_text(
        [Message(role=Role.ASSISTANT, parts=(Text("x" + said_before.replace("<", "").replace("`", "")), call))], ()
    )
    assert parse_calls(shown.text).calls == (call,)


def test_tools_are_explained_in_the_system_message():
    tool = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"x": {"type": "integer"}}})
    with_system = messages_as_text([text_message(Role.SYSTEM, "Be kind."), text_message(Role.USER, "hi")], [tool])
    assert with_system[0].text == f"Be kind.\n\n{tool_instructions([tool])}"
    without = messages_as_text([text_message(Role.USER, "hi")], [tool])
    assert [message.role for message in without] == [Role.SYSTEM, Role.USER]
    assert '"x":{"type":"integer"}' in without[0].text
    assert tool_instructions(()) == ""


def test_results_come_back_as_a_user_message():
    (shown,) = messages_as_text([Message(role=Role.TOOL, parts=(ToolResult("a", "2"), ToolResult("b", "3")))], ())
    assert shown.role is Role.USER
    assert shown.text == "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>\n"
