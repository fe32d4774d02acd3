"""What every `ports.ChatModel` promises. A new one joins by adding how it is opened to `OPENED`."""

from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from fakes.endpoint import Answer, FakeEndpoint, calls, completion, says, status
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.endpoint.replicated import open_replicated_chat
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.spend import Prices, Spend, capped_chat

KEY = "sk-contract-canary-0123456789"
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
HISTORY = [
    text_message(Role.SYSTEM, "Be brief."),
    text_message(Role.USER, "2+2?"),
    Message(role=Role.ASSISTANT, parts=(Text("I add."), ToolCall("a", "add", {"x": 2}))),
    Message(role=Role.TOOL, parts=(ToolResult("a", "4"),)),
]
STOPS = {"stop", "length", "calls", "refusal"}


def over_http(endpoint):
    config = OpenAIConfig(model="m", url=endpoint.url)
    return open_openai(config, environ={"SANDLOT_API_KEY": KEY}, patience=Patience(0.0))


@asynccontextmanager
async def with_caps(endpoint):
    async with over_http(endpoint) as model:
        yield capped_chat(model, Spend(), Prices(prompt=1, completion=2))


def over_two_urls(endpoint):
    """One server by two names."""
    urls = (endpoint.url, endpoint.url.replace("127.0.0.1", "localhost"))
    configs = [OpenAIConfig(model="m", url=url) for url in urls]
    return open_replicated_chat(configs, environ={"SANDLOT_API_KEY": KEY}, patience=Patience(0.0))


OPENED = {"openai": over_http, "capped": with_caps, "replicated": over_two_urls}


@pytest.fixture(params=OPENED)
def opened(request):
    return OPENED[request.param]


@pytest.mark.parametrize(
    "answer",
    [says("4"), says(""), calls(("add", "{}")), calls(("add", "{")), completion({"content": "x"}, "length"), completion({})],
)
async def test_a_reply_is_whole_and_can_be_stored(opened, answer):
    async with FakeEndpoint([answer]) as endpoint, opened(endpoint) as model:
        reply = await model.chat(HISTORY, [ADD], Sampling())
    assert reply.stop in STOPS
    assert (reply.stop == "calls") == any(isinstance(part, ToolCall) for part in reply.parts)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=Reply) == reply


@pytest.mark.parametrize(
    "answer", [status(400), status(401), status(503), Answer(b"no"), Answer(drop=True), Answer(b"{", cut=True)]
)
async def test_a_failure_is_a_model_error_with_a_kind(opened, answer):
    async with FakeEndpoint(then=answer) as endpoint, opened(endpoint) as model:
        with pytest.raises(ModelError) as caught:
            await model.chat(HISTORY, (), Sampling())
    assert caught.value.kind not in {"", "crash"}


async def test_the_name_says_the_model_and_no_secret(opened):
    async with FakeEndpoint() as endpoint, opened(endpoint) as model:
        assert "m" in model.name
        assert KEY not in model.name + repr(model)


async def test_many_may_speak_at_once(opened):
    got = []
    async with (
        FakeEndpoint(then=lambda request: says(request.body["messages"][0]["content"])) as endpoint,
        opened(endpoint) as model,
    ):

        async def one(number):
            reply = await model.chat([text_message(Role.USER, str(number))], (), Sampling())
            got.append((str(number), reply.parts[0].text))

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
    assert all(asked == answered for asked, answered in got)
    assert len(got) == 50


async def test_a_cancelled_turn_leaves_the_model_usable(opened):
    async with FakeEndpoint([Answer(hang=True)]) as endpoint, opened(endpoint) as model:
        async with anyio.create_task_group() as group:
            group.start_soon(model.chat, HISTORY, (), Sampling())
            await endpoint.asked.wait()
            group.cancel_scope.cancel()
        assert (await model.chat(HISTORY, (), Sampling())).parts == (Text("ok"),)


async def test_the_history_is_not_changed(opened):
    before = msgspec.json.encode(HISTORY)
    async with FakeEndpoint() as endpoint, opened(endpoint) as model:
        await model.chat(HISTORY, [ADD], Sampling())
    assert msgspec.json.encode(HISTORY) == before
