"""The fake endpoint is always right, calls tools as often as asked, and counts."""

import json

import pytest
from endpoint import Endpoint, answer_to, as_events, completion, message_for

TOOLS = [{"type": "function", "function": {"name": "turn", "parameters": {}}}]
ASK = {"role": "user", "content": "What is 17 + 25?"}


def endpoint(**changes):
    return Endpoint(**{"latency_s": 0.0, "tool_turns": 0, "arguments": "{}"} | changes)


@pytest.mark.parametrize(
    ("asked", "answer"), [("What is 17 + 25?", "42"), ("3+4", "7"), ("What is 3 - 5?", "-2"), ("6 * 7", "42")]
)
def test_it_calculates(asked, answer):
    assert answer_to([{"role": "user", "content": asked}]) == answer


def test_without_a_question_it_says_the_same():
    assert answer_to([{"role": "user", "content": "hello"}]) == "4"


@pytest.mark.parametrize(("taken", "calls"), [(0, True), (1, True), (2, False)])
def test_it_calls_the_first_tool_for_as_many_turns_as_asked(taken, calls):
    body = {"messages": [ASK, *[{"role": "assistant", "content": None}] * taken], "tools": TOOLS}
    message = message_for(body, endpoint(tool_turns=2, arguments='{"by": 1}'))
    assert ("tool_calls" in message) is calls
    if calls:
        assert message["tool_calls"][0]["function"] == {"name": "turn", "arguments": '{"by": 1}'}
    else:
        assert message["content"] == "42"


async def test_it_counts_requests_and_how_many_waited():
    there = endpoint()
    await there.reply_after_a_while({"messages": [ASK]})
    await there.reply_after_a_while({"messages": [ASK]})
    assert (there.stats()["requests"], there.stats()["most_waiting"], there.waiting) == (2, 1, 0)


def test_a_streamed_reply_says_the_same():
    body = {"messages": [ASK], "tools": TOOLS}
    events = as_events(completion(body, message_for(body, endpoint(tool_turns=1)), 1)).split(b"\n\n")
    (choice,) = json.loads(events[0].removeprefix(b"data: "))["choices"]
    assert choice["delta"]["tool_calls"][0]["index"] == 0
    assert events[1] == b"data: [DONE]"
