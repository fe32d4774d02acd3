"""Our chat models, held to the suite that we ship, and to what comes over HTTP."""

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
from sandlot.testing.chat_model import *
from sandlot.testing.fakes import ScriptedChat, calling

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


@pytest.fixture(params=[*OPENED, "scripted"])
def chat_of(request):
    @asynccontextmanager
    async def of(said):
        if request.param == "scripted":
            yield ScriptedChat(calling(said) if isinstance(said, ToolCall) else said)
            return
        match said:
            case str():
                answer = says(said)
            case ToolCall():
                answer = calls((said.name, msgspec.json.encode(said.arguments).decode()))
            case _:
                answer = Answer(drop=True)
        async with FakeEndpoint(then=answer) as endpoint, OPENED[request.param](endpoint) as model:
            yield model

    return of


@pytest.mark.parametrize(
    "answer",
    [says("4"), says(""), calls(("add", "{}")), calls(("add", "{")), completion({"content": "x"}, "length"), completion({})],
)
async def test_every_answer_of_an_endpoint_is_a_whole_reply(opened, answer):
    async with FakeEndpoint([answer]) as endpoint, opened(endpoint) as model:
        reply = await model.chat(HISTORY, [ADD], Sampling())
    assert reply.stop in STOPS
    assert (reply.stop == "calls") == any(isinstance(part, ToolCall) for part in reply.parts)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=Reply) == reply


@pytest.mark.parametrize(
    "answer", [status(400), status(401), status(503), Answer(b"no"), Answer(drop=True), Answer(b"{", cut=True)]
)
async def test_every_failure_of_an_endpoint_is_a_model_error_with_a_kind(opened, answer):
    async with FakeEndpoint(then=answer) as endpoint, opened(endpoint) as model:
        with pytest.raises(ModelError) as caught:
            await model.chat(HISTORY, (), Sampling())
    assert caught.value.kind not in {"", "crash"}


async def test_the_name_says_the_model_and_no_secret(opened):
    async with FakeEndpoint() as endpoint, opened(endpoint) as model:
        assert "m" in model.name
        assert KEY not in model.name + repr(model)


async def test_each_of_many_at_once_gets_its_own_reply(opened):
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
