"""The model server of an agent, without a sandbox: a hostile request fails alone."""

import base64
import json
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import anyio
import msgspec
import pytest

from builders.pictures import png
from fakes.toy_tokens import ScriptedTokens, ToyRenderer, never
from sandlot.core.errors import HarnessError, ModelError
from sandlot.core.images import images_stored_in, load_images
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Text, Trace
from sandlot.core.types import End
from sandlot.harness.captured.server import MAX_KEPT_BYTES, MAX_OVERFLOWS, CapturedConversation, capture_app
from sandlot.model.policy.chat import chat_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.wire.listening import serve_app
from sandlot.store.blobs import MemoryBlobs

LONG = {"role": "user", "content": "x" * 9000}
SHORT = {"role": "user", "content": "hi"}


@asynccontextmanager
async def answering(model):
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    async with token_policies(model, ToyRenderer(), Sampling(max_tokens=64)).policy(Task("one", prompt="?"), 7) as policy:
        conversation = CapturedConversation(trace, policy, lambda _tokens: None)
        async with (
            serve_app(capture_app(conversation), drain_s=0.1) as address,
            aiohttp.ClientSession(address, timeout=aiohttp.ClientTimeout(15)) as client,
        ):
            yield client, conversation, trace


async def ask(client, *messages, path="/v1/chat/completions"):
    async with client.post(path, data=BytesIO(json.dumps({"messages": messages}).encode())) as response:
        return response.status, await response.read()


async def test_a_turn_that_did_not_fit_leaves_no_messages_and_no_forged_answer():
    async with answering(ScriptedTokens("A")) as (client, _, trace):
        await ask(client, SHORT)
        nodes = list(trace.nodes)
        assert (await ask(client, SHORT, {"role": "assistant", "content": "forged"}, LONG))[0] == 400
    assert trace.nodes == nodes
    assert trace.answer == "A"
    assert [event.kind for event in trace.events].count("context_overflow") == 1


async def test_an_agent_that_only_overflows_comes_to_its_end():
    async with answering(ScriptedTokens()) as (client, conversation, trace):
        statuses = [(await ask(client, LONG))[0] for _ in range(MAX_OVERFLOWS + 1)]
    assert statuses == [400] * MAX_OVERFLOWS + [403]
    assert (conversation.over.is_set(), conversation.end, trace.nodes) == (True, End.TOKEN_LIMIT, [])


async def test_requests_whose_client_leaves_leave_nothing_in_the_trace():
    model = ScriptedTokens(never)
    async with answering(model) as (client, conversation, trace):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, client, SHORT)
            await model.begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await model.freed.wait()
        assert (await ask(client, SHORT))[0] == 200
    assert conversation.num_abandoned == 1
    assert [node.sampled for node in trace.nodes] == [False, True]


async def test_a_long_history_is_found_again_in_a_moment():
    history = [{"role": "user", "content": ""}] * 5000
    async with answering(ScriptedTokens("A", "B", context=2**20)) as (client, _, trace):
        assert (await ask(client, *history))[0] == 200
        assert (await ask(client, *history, {"role": "assistant", "content": "A"}, SHORT))[0] == 200
        assert len(trace.nodes) == 5003
        assert (await ask(client, *[SHORT] * 20_000))[0] == 400


async def test_a_long_branch_without_sampled_turns_is_searched():
    deep = [{"role": "user", "content": str(place)} for place in range(3000)]
    async with answering(ScriptedTokens("A", "B", context=2**20)) as (client, conversation, _):
        assert (await ask(client, SHORT, *deep))[0] == 200
        assert (await ask(client, SHORT))[0] == 200
    assert conversation.error is None


async def test_what_breaks_behind_the_door_is_a_failure_and_its_words_stay_here():
    async with answering(ScriptedTokens(ModelError("/root/secret/engine.log", kind="engine"))) as (client, conversation, _):
        status, body = await ask(client, SHORT)
    assert (status, b"secret" in body) == (403, False)
    assert isinstance(conversation.error, ModelError)


async def test_a_bug_of_ours_is_not_an_agents_end():
    async with answering(ScriptedTokens()) as (client, conversation, _):
        conversation.history.trace = None
        assert (await ask(client, SHORT))[0] == 403
    assert isinstance(conversation.error, HarnessError)


@pytest.mark.parametrize("stop", ["x" * 100_000, ["y" * 1000] * 1000])
async def test_a_wish_is_written_down_in_few_words(stop):
    async with (
        answering(ScriptedTokens("A")) as (client, _, trace),
        client.post("/v1/chat/completions", data=json.dumps({"messages": [SHORT], "stop": stop})) as response,
    ):
        assert response.status == 200
    (event,) = [event for event in trace.events if event.kind == "wishes_ignored"]
    assert len(json.dumps(event.detail)) < 2000


async def test_a_wish_no_store_can_hold_is_written_down_as_text():
    async with (
        answering(ScriptedTokens("A")) as (client, _, trace),
        client.post("/v1/messages", data=json.dumps({"messages": [SHORT], "max_tokens": 2**70})) as response,
    ):
        assert response.status == 200
    assert msgspec.msgpack.encode(trace)


async def test_what_no_context_bounds_is_bounded_too():
    thought = {"role": "assistant", "content": "a", "reasoning_content": "x" * (MAX_KEPT_BYTES // 3)}
    async with answering(ScriptedTokens()) as (client, _, trace):
        statuses = [(await ask(client, {"role": "user", "content": str(number)}, thought))[0] for number in range(4)]
    assert statuses == [200, 200, 400, 400]
    assert len(msgspec.msgpack.encode(trace)) < MAX_KEPT_BYTES


async def flood(stream):
    """Headers for as long as somebody takes them."""
    for _ in range(10_000):
        await stream.send(b"X-Long: " + b"x" * 8000 + b"\r\n")
    while True:
        await stream.receive()


async def test_headers_without_end_are_cut_off():
    async with answering(ScriptedTokens("A")) as (client, _, _):
        host, port = client._base_url.host, client._base_url.port
        async with await anyio.connect_tcp(host, port) as stream:
            await stream.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
            with anyio.fail_after(10), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await flood(stream)
        assert (await ask(client, SHORT))[0] == 200


class SeeingChat:
    """A chat model that records what it is asked."""

    name = "seeing"

    def __init__(self):
        self.asked = []

    async def chat(self, messages, tools, sampling):
        self.asked.append((list(messages), await load_images(messages)))
        return Reply(parts=(Text("a chart"),))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_an_image_of_the_agent_passes_through_to_a_model_that_sees(path):
    data = base64.b64encode(png(4, 3)).decode()
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    if path == "/v1/messages":
        shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, shown]}
    trace, chat, blobs = Trace(run="r", task="one", rollout=0, seed=0), SeeingChat(), MemoryBlobs()
    policies = chat_policies(chat, Sampling(), images="send")
    with images_stored_in(blobs, accepted=policies.takes_images):
        async with policies.policy(Task("one", prompt="?"), 7) as policy:
            conversation = CapturedConversation(trace, policy, lambda _tokens: None)
            async with (
                serve_app(capture_app(conversation), drain_s=0.1) as address,
                aiohttp.ClientSession(address, timeout=aiohttp.ClientTimeout(15)) as client,
            ):
                first = await ask(client, message, path=path)
                again = await ask(client, message, {"role": "assistant", "content": "a chart"}, SHORT, path=path)
    assert (first[0], again[0]) == (200, 200)
    part = trace.nodes[0].message.parts[1]
    assert (part.width, part.height, await blobs.get(part.artifact)) == (4, 3, png(4, 3))
    assert chat.asked[0][1] == {part.artifact: png(4, 3)}
    assert len(trace.path()) == 4  # the image was found again in the trace: one conversation


async def test_an_image_of_the_agent_is_refused_where_the_model_takes_text_only():
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png()).decode()}}
    async with answering(ScriptedTokens("A")) as (client, conversation, _):
        status, body = await ask(client, {"role": "user", "content": [shown]})
        assert (status, b"only text is supported" in body) == (400, True)
        assert (await ask(client, SHORT))[0] == 200
    assert conversation.error is None
