import json
import logging
import subprocess
import sys
import traceback
from email.utils import formatdate

import anyio
import pytest

from fakes.endpoint import Answer, FakeEndpoint, calls, completion, says, status
from sandlot.core.concurrency.clock import Clock, time_limit
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Reasoning, Text, ToolCall, ToolResult, Usage, text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai, openai_config
from sandlot.model.endpoint.retry import Patience, Retry, listen_for_retries

HELLO = [text_message(Role.USER, "hello")]
CANARY = "sk-canary-0123456789abcdefghij"


class Sleeper:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 1_000.0
        self.slept: list[float] = []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def patience(self, patience_s=300.0, draw=lambda low, high: high):
        return Patience(patience_s, draw, self.sleep, Clock(lambda: self.now, lambda: self.now))


def model(endpoint, *, environ=None, patience=None, **fields):
    config = OpenAIConfig(**{"model": "fake", "url": endpoint.url} | fields)
    return open_openai(config, environ=environ or {}, patience=patience or Sleeper().patience())


async def failure(answer, **fields) -> ModelError:
    async with FakeEndpoint(then=answer) as endpoint, model(endpoint, **fields) as chat:
        with pytest.raises(ModelError) as caught:
            await chat.chat(HELLO, (), Sampling())
    return caught.value


async def test_a_reply_becomes_parts_usage_and_stop():
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    async with FakeEndpoint([says("four", usage)]) as endpoint, model(endpoint) as chat:
        reply = await chat.chat(HELLO, (), Sampling())
    assert reply.parts == (Text("four"),)
    assert reply.usage == Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2)
    assert reply.stop == "stop"


async def test_the_request_carries_messages_tools_and_sampling():
    tool = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
    async with FakeEndpoint() as endpoint, model(endpoint, extra={"top_k": 5}) as chat:
        await chat.chat(HELLO, [tool], Sampling(temperature=0.5, top_p=0.9, max_tokens=64, seed=3))
    sent = endpoint.requests[0].body
    assert sent == {
        "model": "fake",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 64,
        "seed": 3,
        "top_k": 5,
    }


async def test_tool_calls_and_results_go_out_in_the_endpoint_s_shape():
    history = [
        *HELLO,
        Message(
            role=Role.ASSISTANT, parts=(Reasoning("hm"), ToolCall("a", "add", {"x": 1}), ToolCall("b", "add", malformed="{x"))
        ),
        Message(role=Role.TOOL, parts=(ToolResult("a", "2"), ToolResult("b", "unreadable", error=True))),
    ]
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        await chat.chat(history, (), Sampling())
    _, assistant, first, second = endpoint.requests[0].body["messages"]
    assert assistant["content"] is None
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "add", "arguments": '{"x":1}'},
        {"name": "add", "arguments": '{"malformed_arguments":"{x"}'},
    ]
    assert first == {"role": "tool", "tool_call_id": "a", "content": "2"}
    assert second == {"role": "tool", "tool_call_id": "b", "content": "unreadable"}


async def test_a_null_takes_a_field_out_of_the_request():
    async with FakeEndpoint() as endpoint, model(endpoint, extra={"seed": None, "top_p": None}) as chat:
        await chat.chat(HELLO, (), Sampling(seed=3))
    assert set(endpoint.requests[0].body) == {"model", "messages", "temperature"}


async def test_a_very_long_history_is_sent_whole():
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        await chat.chat([text_message(Role.USER, "x" * 3_000_000)], (), Sampling())
    assert len(endpoint.requests[0].body["messages"][0]["content"]) == 3_000_000


async def test_an_image_is_refused_with_a_reason():
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        with pytest.raises(ModelError, match="image"):
            await chat.chat([Message(role=Role.USER, parts=(ImagePart("ab"),))], (), Sampling())
    assert not endpoint.requests


async def test_broken_unicode_in_the_history_is_replaced():
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        await chat.chat([text_message(Role.USER, "a\ud800b")], (), Sampling())
    assert endpoint.requests[0].body["messages"][0]["content"] == "a?b"


@pytest.mark.parametrize(
    ("message", "finish", "stop"),
    [
        ({"content": "x"}, "stop", "stop"),
        ({"content": "x"}, None, "stop"),
        ({"content": "x"}, "eos", "stop"),
        ({"content": "x"}, "length", "length"),
        ({"content": "x"}, "content_filter", "refusal"),
        ({"content": None, "refusal": "I will not"}, "stop", "refusal"),
        ({"content": "x"}, "tool_calls", "stop"),
        ({"content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}, "stop", "calls"),
        ({"content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}, "length", "length"),
    ],
)
async def test_why_it_stopped_is_told_in_our_words(message, finish, stop):
    async with FakeEndpoint([completion(message, finish)]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).stop == stop


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_from_either_field(field):
    async with FakeEndpoint([completion({"content": "4", field: "2+2"})]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (Reasoning("2+2"), Text("4"))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("<think>\n2+2\n</think>\n\n4", (Reasoning("2+2"), Text("4"))),
        ("<think></think>4", (Text("4"),)),
        ("<think>2+2", (Text("<think>2+2"),)),
        ("4 <think>x</think>", (Text("4 <think>x</think>"),)),
    ],
)
async def test_a_leading_thought_in_the_content_is_reasoning(content, parts):
    async with FakeEndpoint([says(content)]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == parts


async def test_content_as_a_list_of_parts_is_joined():
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    async with FakeEndpoint([completion({"content": content})]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("ab"),)


DEEP = '{"a":' + "[" * 200 + "]" * 200 + "}"


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        "[1]",
        "3",
        "null",
        '"x"',
        '{"a": NaN}',
        '{"a": 1e999}',
        f'{{"a": {10**30}}}',
        DEEP,
        '{"a": "\\ud800"}',
        "x" * 2_000_000,
    ],
)
async def test_arguments_that_cannot_be_read_make_a_malformed_call(arguments):
    async with FakeEndpoint([calls(("add", arguments), ("add", '{"x": 1}'))]) as endpoint, model(endpoint) as chat:
        reply = await chat.chat(HELLO, (), Sampling())
    bad, good = reply.parts
    assert isinstance(bad, ToolCall)
    assert bad.malformed
    assert len(bad.malformed) < 10_000
    assert bad.arguments == {}
    assert good == ToolCall("c1", "add", {"x": 1})


@pytest.mark.parametrize(("arguments", "read"), [("", {}), ({"x": 1}, {"x": 1}), (None, {})])
async def test_arguments_may_be_missing_or_an_object(arguments, read):
    message = {"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    async with FakeEndpoint([completion(message)]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (ToolCall("call_0", "f", read),)


async def test_calls_with_the_same_id_are_told_apart():
    message = {"tool_calls": [{"id": "0", "function": {"name": "f", "arguments": "{}"}}] * 3}
    async with FakeEndpoint([completion(message)]) as endpoint, model(endpoint) as chat:
        reply = await chat.chat(HELLO, (), Sampling())
    assert len({part.id for part in reply.parts}) == 3


HOSTILE = {
    "empty": Answer(b""),
    "html": Answer(b"<html>nginx</html>"),
    "not utf-8": Answer(b'{"choices":[{"message":{"content":"\xff\xfe"}}]}'),
    "a list": Answer(b"[]"),
    "a number": Answer(b"7"),
    "no choices": Answer(b"{}"),
    "empty choices": Answer(b'{"choices": []}'),
    "choices of another type": Answer(b'{"choices": "many"}'),
    "a choice without message": Answer(b'{"choices": [{}]}'),
    "message null": Answer(b'{"choices": [{"message": null}]}'),
    "content a number": completion({"content": 5}),
    "calls of another type": completion({"tool_calls": {"a": 1}}),
    "call without function": completion({"tool_calls": [{"id": "1"}]}),
    "name a number": completion({"tool_calls": [{"id": "1", "function": {"name": 5, "arguments": "{}"}}]}),
    "negative usage": completion({"content": "x"}, usage={"prompt_tokens": -5}),
    "usage as text": completion({"content": "x"}, usage={"prompt_tokens": "many"}),
    "deep": Answer(b'{"choices": [{"message": {"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}]}"),
    "deep elsewhere": Answer(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "choices": []}'),
    "nan": Answer(b'{"choices": NaN}'),
    "cut json": Answer(b'{"choices": [{"message": {"content": "hel'),
    "error object with 200": Answer(b'{"error": {"message": "boom", "code": 500}}'),
    "error text with 200": Answer(b'{"error": "boom"}'),
    "surrogate": Answer(b'{"choices":[{"message":{"content":"\\ud800"}}]}'),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_reply_that_is_none_is_malformed(name):
    error = await failure(HOSTILE[name])
    assert error.kind == "malformed"
    assert not error.retryable


async def test_a_reply_over_the_size_cap_is_malformed():
    assert (await failure(says("x" * 100_000), reply_bytes=50_000)).kind == "malformed"


async def test_a_reply_that_breaks_off_is_tried_again_and_then_malformed():
    error = await failure(Answer(b'{"choices": [', cut=True), patience=Sleeper().patience(1.0))
    assert error.kind == "malformed"
    assert "of 2 attempts" in str(error)


@pytest.mark.parametrize("finish", ["abort", "error"])
async def test_half_an_answer_of_a_broken_engine_is_no_answer(finish):
    async with FakeEndpoint([completion({"content": "hal"}, finish), says("whole")]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("whole"),)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, "bad_request"), (401, "auth"), (403, "auth"), (404, "not_found"), (422, "bad_request"), (301, "bad_request")],
)
async def test_refusals_are_not_tried_again(code, kind):
    async with FakeEndpoint(then=status(code)) as endpoint, model(endpoint) as chat:
        with pytest.raises(ModelError) as caught:
            await chat.chat(HELLO, (), Sampling())
    assert caught.value.kind == kind
    assert len(endpoint.requests) == 1
    assert str(code) in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(408, "timeout"), (409, "server"), (425, "server"), (429, "rate_limit"), (500, "server"), (503, "server"), (504, "timeout")],
)
async def test_transient_statuses_are_tried_again(code, kind):
    told: list[Retry] = []
    async with FakeEndpoint([status(code), status(code), says("at last")]) as endpoint, model(endpoint) as chat:
        with listen_for_retries(told.append):
            assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("at last"),)
    assert [retry.kind for retry in told] == [kind, kind]
    assert [retry.attempt for retry in told] == [1, 2]


@pytest.mark.parametrize(
    "answer",
    [
        status(400, code="context_length_exceeded", message="too long"),
        status(400, message="This model's maximum context length is 4096 tokens."),
        status(500, message="the request exceeds the available context size"),
        status(413, message="Prompt is too long"),
        Answer(b'{"object":"error","message":"longer than the maximum model length of 8192","code":400}', 400),
        Answer(b'{"error": {"message": "x", "code": "context_length_exceeded"}}', 200),
    ],
)
async def test_an_overflowing_context_is_recognised(answer):
    error = await failure(answer)
    assert error.kind == "context"
    assert not error.retryable


async def test_no_quota_is_not_waited_for():
    error = await failure(status(429, code="insufficient_quota"))
    assert (error.kind, error.retryable) == ("rate_limit", False)


async def test_a_connection_that_drops_is_tried_again():
    async with FakeEndpoint([Answer(drop=True), says("here")]) as endpoint, model(endpoint) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("here"),)


async def test_nobody_listening_is_kind_connect():
    config = OpenAIConfig(model="m", url="http://127.0.0.1:9/v1")
    async with open_openai(config, environ={}, patience=Sleeper().patience(0)) as chat:
        with pytest.raises(ModelError) as caught:
            await chat.chat(HELLO, (), Sampling())
    assert caught.value.kind == "connect"


async def test_an_endpoint_that_hangs_is_kind_timeout():
    error = await failure(Answer(hang=True), request_s=0.05, patience=Sleeper().patience(0))
    assert (error.kind, error.retryable) == ("timeout", True)


async def test_patience_is_bounded_and_the_last_error_says_how_often():
    sleeper = Sleeper()
    async with FakeEndpoint(then=status(503)) as endpoint, model(endpoint, patience=sleeper.patience(10.0)) as chat:
        with pytest.raises(ModelError, match="attempts"):
            await chat.chat(HELLO, (), Sampling())
    assert sum(sleeper.slept) <= 10.0
    assert sleeper.slept == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("header", "waited"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": formatdate(1_010.0, usegmt=True)}, 10.0),
        ({"Retry-After": formatdate(1.0, usegmt=True)}, 0.0),
        ({"Retry-After": "9999"}, 120.0),
        ({"Retry-After-Ms": "1500"}, 1.5),
        ({"Retry-After": "soon"}, 0.0),
        ({"Retry-After": "nan"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
    ],
)
async def test_retry_after_is_honoured_and_capped(header, waited):
    sleeper = Sleeper()
    patience = sleeper.patience(draw=lambda low, high: low)
    async with FakeEndpoint([status(429, header)]) as endpoint, model(endpoint, patience=patience) as chat:
        await chat.chat(HELLO, (), Sampling())
    assert sleeper.slept == [waited]


async def test_waiting_for_a_retry_is_not_the_agent_s_time():
    async def sleep(seconds):
        await anyio.sleep(0.2)

    patience = Patience(300.0, lambda low, high: high, sleep)
    async with FakeEndpoint([status(503)]) as endpoint, model(endpoint, patience=patience) as chat:
        with time_limit(10.0) as scope:
            before = scope.deadline
            await chat.chat(HELLO, (), Sampling())
    assert scope.deadline - before >= 0.2


async def test_a_failed_attempt_is_not_the_agent_s_time():
    async with FakeEndpoint([Answer(hang=True)]) as endpoint, model(endpoint, request_s=0.1) as chat:
        with time_limit(10.0) as scope:
            before = scope.deadline
            await chat.chat(HELLO, (), Sampling())
    assert 0.1 <= scope.deadline - before < 5


async def test_a_hang_is_the_model_s_failure_however_little_of_the_agent_s_time_is_left():
    patience = Sleeper().patience(0)
    async with FakeEndpoint([Answer(hang=True)]) as endpoint, model(endpoint, request_s=0.3, patience=patience) as chat:
        with pytest.raises(ModelError) as caught, time_limit(0.1) as scope:
            await chat.chat(HELLO, (), Sampling())
    assert (caught.value.kind, scope.cancel_called) == ("timeout", False)


async def test_a_reply_that_comes_after_the_agent_s_time_ends_it():
    replies = []
    async with FakeEndpoint(latency_s=0.1) as endpoint, model(endpoint, request_s=60) as chat:
        with time_limit(0.01) as scope:
            replies.append(await chat.chat(HELLO, (), Sampling()))
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(replies) == 1


async def test_waiting_for_a_slot_is_not_the_agent_s_time():
    gained = []

    async def one(chat):
        with time_limit(10.0) as scope:
            before = scope.deadline
            await chat.chat(HELLO, (), Sampling())
            gained.append(scope.deadline - before)

    async with FakeEndpoint(latency_s=0.1) as endpoint, model(endpoint, at_once=1) as chat, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(one, chat)
    assert gained[0] == 0
    assert gained[1] >= 0.05
    assert gained[2] >= 0.15


async def test_no_more_requests_are_open_than_allowed():
    async with FakeEndpoint(latency_s=0.02) as endpoint, model(endpoint, at_once=3) as chat, anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(chat.chat, HELLO, (), Sampling())
    assert endpoint.most_at_once == 3
    assert len(endpoint.requests) == 12


async def test_cancelling_a_request_frees_its_slot():
    async with FakeEndpoint([Answer(hang=True)]) as endpoint, model(endpoint, at_once=1) as chat:
        async with anyio.create_task_group() as group:
            group.start_soon(chat.chat, HELLO, (), Sampling())
            await endpoint.asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("ok"),)


def test_fewer_connections_are_used_where_open_files_are_limited():
    code = (
        "import resource; from sandlot.model.endpoint.endpoint import _connections_allowed as allowed\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))\n"
        "print(allowed(10), allowed(100), resource.getrlimit(resource.RLIMIT_NOFILE)[0], allowed(1000))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["10", "100", "356", "144"]


# -- secrets -----------------------------------------------------------------------------------------------------------


async def test_the_key_is_sent_and_sandlot_s_own_variable_wins():
    environ = {"OPENAI_API_KEY": "other-key-000000000", "SANDLOT_API_KEY": CANARY}
    async with FakeEndpoint() as endpoint, model(endpoint, environ=environ) as chat:
        await chat.chat(HELLO, (), Sampling())
    assert endpoint.requests[0].headers["Authorization"] == f"Bearer {CANARY}"


async def test_a_named_variable_that_is_not_set_is_refused_by_name():
    with pytest.raises(ConfigError, match="MY_KEY"):
        async with open_openai(OpenAIConfig(model="m", key_env="MY_KEY"), environ={}):
            pass


async def test_a_key_with_a_line_break_is_refused_without_showing_it():
    with pytest.raises(ConfigError, match="SANDLOT_API_KEY") as caught:
        async with open_openai(OpenAIConfig(model="m"), environ={"SANDLOT_API_KEY": CANARY + "\nX: y"}):
            pass
    assert CANARY not in str(caught.value)


def echoing(code: int, padding: int = 0):
    def answer(request):
        body = {"error": {"message": "." * padding + f"bad key {request.headers.get('Authorization')} at {request.path}"}}
        return Answer(json.dumps(body).encode(), code, {"X-Echo": request.headers.get("Authorization", "")})

    return answer


@pytest.mark.parametrize("code", [200, 302, 400, 401, 404, 429, 500])
@pytest.mark.parametrize("padding", [0, 460, 475, 490])
async def test_a_key_that_the_server_echoes_is_shown_nowhere(code, padding, caplog):
    caplog.set_level(logging.DEBUG)
    told: list[Retry] = []
    async with (
        FakeEndpoint(then=echoing(code, padding)) as endpoint,
        model(endpoint, environ={"SANDLOT_API_KEY": CANARY}, patience=Sleeper().patience(1)) as chat,
    ):
        with pytest.raises(ModelError) as caught, listen_for_retries(told.append):
            await chat.chat(HELLO, (), Sampling())
        shown = repr(chat) + chat.name + repr(chat.config)
    error = caught.value
    seen = shown + "".join(traceback.format_exception(error)) + repr(error) + repr(told) + caplog.text
    assert error.__cause__ is None
    assert not any(CANARY[:length] in seen for length in range(12, len(CANARY) + 1))


async def test_a_key_in_a_reply_s_text_is_hidden():
    def parrot(request):
        return says(f"your key is {request.headers['Authorization']}")

    async with FakeEndpoint(then=parrot) as endpoint, model(endpoint, environ={"OPENAI_API_KEY": CANARY}) as chat:
        reply = await chat.chat(HELLO, (), Sampling())
    assert reply.parts == (Text("your key is Bearer [redacted]"),)


async def test_a_short_placeholder_key_does_not_garble_replies():
    async with FakeEndpoint([says("EMPTY")]) as endpoint, model(endpoint, environ={"OPENAI_API_KEY": "EMPTY"}) as chat:
        assert (await chat.chat(HELLO, (), Sampling())).parts == (Text("EMPTY"),)


async def test_user_password_and_query_of_a_url_are_used_and_not_shown():
    async with FakeEndpoint(then=echoing(400)) as endpoint:
        url = endpoint.url.replace("http://", "http://user:hunter2secret@") + "?key=querysecret1"
        async with open_openai(OpenAIConfig(model="m", url=url), environ={}, patience=Sleeper().patience()) as chat:
            with pytest.raises(ModelError) as caught:
                await chat.chat(HELLO, (), Sampling())
            shown = chat.name + repr(chat) + str(caught.value) + repr(chat.config) + chat.config.public().url
    assert endpoint.requests[0].path.endswith("?key=querysecret1")
    assert endpoint.requests[0].headers["Authorization"].startswith("Basic ")
    assert "secret" not in shown
    assert endpoint.requests[0].headers["Authorization"].removeprefix("Basic ") not in shown


# -- names -------------------------------------------------------------------------------------------------------------


def test_the_command_line_s_spelling_is_read():
    config = openai_config("openai:@cf/meta/llama@https://host/v1")
    assert (config.model, config.url) == ("@cf/meta/llama", "https://host/v1")
    assert openai_config("gpt-x").url.endswith("/v1")
    assert config.name == "openai:@cf/meta/llama@https://host/v1"


@pytest.mark.parametrize("spec", ["openai:m@localhost:8000/v1", "m@host"])
def test_a_url_without_its_scheme_is_no_model_of_the_default(spec):
    with pytest.raises(ConfigError, match="is not a URL; write `openai:NAME@http://"):
        openai_config(spec)


def test_a_name_may_begin_with_an_at():
    assert openai_config("@cf/meta/llama").model == "@cf/meta/llama"


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://", "localhost:80", "http://[::1", "http://x:99999/v1"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="base URL"):
        OpenAIConfig(model="m", url=url)


@pytest.mark.parametrize("field", ["at_once", "request_s", "reply_bytes"])
def test_limits_must_be_positive(field):
    with pytest.raises(ConfigError, match=field):
        OpenAIConfig(model="m", **{field: 0})
