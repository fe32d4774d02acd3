"""A model's server: exact tokens, bounded requests, nobody works for a client that has left."""

import contextlib
import json
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest
from yarl import URL

from fakes.toy_tokens import END, ScriptedTokens, ToyRenderer, ToyWords, never, sampled
from sandlot.core.errors import ModelError
from sandlot.core.tokens import packed_ids
from sandlot.model.engine.prefix_log import PrefixLog
from sandlot.model.wire.listening import serve_app
from sandlot.serve.model.cache import ServedCache, encode_changes
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.serve import ModelPlace
from sandlot.serve.model.server import ModelServer

TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


@asynccontextmanager
async def served(model, **options):
    server = ModelServer(model, ToyRenderer(), ToyWords(), vocabulary=ToyWords.size, **options)
    async with serve_app(model_app(server), drain_s=5) as address, aiohttp.ClientSession(address) as client:
        yield client


async def post(client, path, body, **more):
    async with client.post(path, data=body if isinstance(body, bytes) else json.dumps(body), **more) as response:
        return response.status, json.loads(await response.read()), response.headers


async def events(client, path, body):
    async with client.post(path, json=body | {"stream": True}) as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in response.content]
    data = [line.removeprefix(b"data: ").strip() for line in lines if line.startswith(b"data: ")]
    assert data[-1] == b"[DONE]"
    return [json.loads(each) for each in data[:-1]]


async def test_ids_go_in_and_exact_ids_come_out():
    model = ScriptedTokens(sampled("héy", cached=2))
    async with served(model) as client:
        body = {"prompt": [1, 2, 3], "max_tokens": 9, "logprobs": 1, "return_token_ids": True, "seed": 5, "session": "s1"}
        status, reply, _ = await post(client, "/v1/completions", body)
    assert status == 200
    (choice,) = reply["choices"]
    assert choice["token_ids"] == [*"héy".encode(), END]
    assert choice["prompt_token_ids"] == [1, 2, 3]
    assert choice["text"] == "héy"
    assert len(choice["logprobs"]["token_logprobs"]) == 5
    assert choice["weight_versions"] == [[5, 7]]
    assert choice["finish_reason"] == "stop"
    assert reply["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    ((ids, sampling, stop_ids, session),) = model.asked
    assert (ids, sampling.seed, sampling.max_tokens, stop_ids, session) == ([1, 2, 3], 5, 9, (END,), "s1")


async def test_text_is_tokenised_and_each_of_n_has_its_own_seed():
    model = ScriptedTokens(then="x")
    async with served(model) as client:
        _, reply, _ = await post(client, "/v1/completions", {"prompt": ["a", "bc"], "n": 2, "seed": 1})
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    assert sorted((tuple(ids), sampling.seed) for ids, sampling, *_ in model.asked) == [
        ((97,), 1),
        ((97,), 2),
        ((98, 99), 1),
        ((98, 99), 2),
    ]


async def test_a_stream_of_completions_says_the_same():
    async with served(ScriptedTokens("hello")) as client:
        body = {"prompt": "p", "return_token_ids": True, "stream_options": {"include_usage": True}}
        chunks = await events(client, "/v1/completions", body)
    assert chunks[0]["choices"][0]["text"] == "hello"
    assert chunks[0]["choices"][0]["token_ids"] == [*b"hello", END]
    assert chunks[-1]["usage"]["completion_tokens"] == 6


async def test_chat_renders_messages_and_reads_calls():
    model = ScriptedTokens('I add. CALL add {"x": 1}')
    async with served(model) as client:
        body = {"messages": [{"role": "user", "content": "2+2?"}], "tools": [TOOL], "logprobs": True, "return_token_ids": True}
        status, reply, _ = await post(client, "/v1/chat/completions", body)
    assert status == 200
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"x": 1})
    assert choice["message"]["content"] == "I add. "
    assert choice["finish_reason"] == "tool_calls"
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
    assert choice["weight_versions"]
    assert reply["prompt_token_ids"] == model.asked[0][0]


async def test_a_stream_of_chat_can_be_put_together_again():
    async with served(ScriptedTokens('so CALL add {"x": 1}')) as client:
        body = {"messages": [{"role": "user", "content": "2+2?"}], "tools": [TOOL], "stream_options": {"include_usage": True}}
        chunks = await events(client, "/v1/chat/completions", body)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "so "
    (call,) = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert call["index"] == 0
    assert json.loads(call["function"]["arguments"]) == {"x": 1}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("completions", b"{", "JSON"),
        ("completions", b"[" * 100_000, "object"),
        ("completions", b'{"prompt": ' + b"[" * 100_000, "JSON"),
        ("completions", b"\xff\xfe", "JSON"),
        ("completions", {}, "prompt"),
        ("completions", {"prompt": []}, "prompt"),
        ("completions", {"prompt": [1, "a", None]}, "prompt[0]"),
        ("completions", {"prompt": [True]}, "prompt"),
        ("completions", {"prompt": [999]}, "prompt"),
        ("completions", {"prompt": [-1]}, "prompt"),
        ("completions", {"prompt": [2**70]}, "prompt"),
        ("completions", {"prompt": "a", "temperature": -1}, "temperature"),
        ("completions", {"prompt": "a", "temperature": "hot"}, "temperature"),
        ("completions", {"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ("completions", {"prompt": "a", "n": 10**9}, "n"),
        ("completions", {"prompt": "a", "echo": True}, "echo"),
        ("completions", {"prompt": "a", "logprobs": 5}, "logprobs"),
        ("completions", {"prompt": "a", "stop": ""}, "stop"),
        ("completions", {"prompt": "a", "stop_token_ids": [999]}, "stop_token_ids"),
        ("completions", {"prompt": "a", "presence_penalty": 1}, "presence_penalty"),
        ("completions", {"prompt": "a", "session": "x" * 300}, "session"),
        ("completions", {"prompt": "a" * 5000}, "context length"),
        ("chat/completions", {"messages": []}, "messages"),
        ("chat/completions", {"messages": [{"role": "king", "content": "x"}]}, "messages"),
        ("chat/completions", {"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}, "tool_choice"),
    ],
)
async def test_a_hostile_request_is_refused_by_the_name_of_its_field(path, body, named):
    model = ScriptedTokens()
    async with served(model) as client:
        status, reply, _ = await post(client, f"/v1/{path}", body)
        assert (status, named in reply["error"]["message"]) == (400, True), reply
        assert model.asked == []
        assert (await post(client, "/v1/completions", {"prompt": "a"}))[0] == 200


async def test_a_body_without_end_is_cut_off():
    async def endless():
        for _ in range(2**12):
            yield b" " * 2**20

    async with served(ScriptedTokens()) as client:
        with contextlib.suppress(aiohttp.ClientConnectionError):  # closed on a client that is still sending
            async with client.post("/v1/completions", data=endless()) as response:
                assert response.status == 413
        assert (await post(client, "/v1/completions", {"prompt": "a"}))[0] == 200


async def test_too_many_at_once_are_told_when_to_come_back():
    model = ScriptedTokens(never)
    async with served(model, at_once=2) as client, anyio.create_task_group() as group:
        group.start_soon(post, client, "/v1/completions", {"prompt": "a"})
        await model.begun.wait()
        status, reply, headers = await post(client, "/v1/completions", {"prompt": "a", "n": 2})
        assert (status, headers["Retry-After"]) == (429, "1")
        assert "the maximum is 2" in reply["error"]["message"]
        assert (await post(client, "/v1/completions", {"prompt": "a"}))[0] == 200
        group.cancel_scope.cancel()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_client_that_leaves_frees_what_its_request_held(stream, path):
    model = ScriptedTokens(never)
    async with served(model) as client:
        async with anyio.create_task_group() as group:
            body = {"prompt": "a", "messages": [{"role": "user", "content": "a"}], "stream": stream}
            group.start_soon(post, client, path, body)
            await model.begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(30):
            await model.freed.wait()
        assert (model.running, model.cancelled) == (0, 1)
        assert "sandlot_running 0" in await (await client.get("/metrics")).text()


async def test_leaving_waits_for_what_runs_and_takes_nothing_new():
    model = ScriptedTokens()
    going_on = anyio.Event()

    async def slow(ids):
        await going_on.wait()
        return "done"

    model.replies = [slow]
    got = []
    client = None
    async with anyio.create_task_group() as group:

        async def ask(address):
            nonlocal client
            client = aiohttp.ClientSession(address)
            got.append(await post(client, "/v1/completions", {"prompt": "a"}))

        async with serve_app(
            model_app(ModelServer(model, ToyRenderer(), ToyWords(), vocabulary=ToyWords.size)), drain_s=10
        ) as address:
            group.start_soon(ask, address)
            await model.begun.wait()
            group.start_soon(release_later, address, going_on)
    assert got[0][1]["choices"][0]["text"] == "done"
    await client.close()


async def release_later(address, going_on):
    """Once nobody new is let in, let the running request finish."""
    while True:
        try:
            async with aiohttp.ClientSession(address) as client, client.get("/health"):
                pass
        except aiohttp.ClientConnectionError:
            going_on.set()
            return
        await anyio.lowlevel.checkpoint()


async def test_a_request_that_outlives_the_drain_is_cancelled():
    model = ScriptedTokens(never)
    async with anyio.create_task_group() as group:
        async with serve_app(
            model_app(ModelServer(model, ToyRenderer(), ToyWords(), vocabulary=ToyWords.size)), drain_s=0.1
        ) as address:

            async def ask():
                async with aiohttp.ClientSession(address) as client:
                    with contextlib.suppress(aiohttp.ClientError):  # closed or refused: neither is a completion
                        async with client.post("/v1/completions", json={"prompt": "a"}) as response:
                            assert response.status == 500

            group.start_soon(ask)
            await model.begun.wait()
        assert model.running == 0


@pytest.mark.parametrize(("kind", "status"), [("context", 400), ("rate_limit", 429), ("timeout", 504), ("crash", 500)])
async def test_a_models_failure_has_a_status_of_its_own(kind, status):
    async with served(ScriptedTokens(ModelError("no", kind=kind))) as client:
        assert (await post(client, "/v1/completions", {"prompt": "a", "n": 1}))[0] == status


async def test_a_failure_in_a_stream_is_an_event():
    async with (
        served(ScriptedTokens(ModelError("broken"))) as client,
        client.post("/v1/completions", json={"prompt": "a", "stream": True}) as response,
    ):
        assert b"broken" in await response.read()


async def test_sessions_are_released_and_models_named():
    model = ScriptedTokens()
    async with served(model) as client:
        assert (await client.delete("/v1/sessions/r-1")).status == 204
        assert (await client.delete(URL("/v1/sessions/task%2F0%2Fa1", encoded=True))).status == 204
        await post(client, "/v1/completions", {"prompt": "a"}, headers={"X-Session-Id": "r-2"})
        card = (await (await client.get("/v1/models")).json())["data"][0]
        health = await (await client.get("/health")).json()
    assert model.released == ["r-1", "task/0/a1"]
    assert model.asked[0][3] == "r-2"
    assert (card["id"], card["max_model_len"]) == ("toy", 4096)
    assert health == {"status": "ok", "model": "toy", "renderer": "toy/1"}


async def test_cache_events_are_told_from_a_number_on_or_as_a_snapshot():
    log = PrefixLog(16)
    log.store(0, None, packed_ids([5, 6]))
    async with served(ScriptedTokens(), cache=ServedCache(log=log)) as client:
        whole = await (await client.get("/v1/kv_events")).json()
        log.remove(0)
        more = await (await client.get(f"/v1/kv_events/{log.stream}/1")).json()
        for wrong in ("-1", "1e3", "²", "9" * 5000, "x"):
            async with client.get(f"/v1/kv_events/{log.stream}/{wrong}") as response:
                assert response.status == 400
    stored = {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": [5, 6], "block_size": 16}
    assert whole == {"stream": log.stream, "after": None, "sequence": 1, "events": [stored]}
    removed = {"type": "BlockRemoved", "block_hashes": [1]}
    assert more == {"stream": log.stream, "after": 1, "sequence": 2, "events": [removed]}


async def test_a_snapshot_is_encoded_once_for_all_readers_until_something_changes():
    log = PrefixLog(16)
    log.store(0, None, packed_ids([5, 6]))
    cache = ServedCache(log=log)
    bodies: list[bytes] = []

    async def read() -> None:
        bodies.append(await cache.read("", 0))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(read)
    assert all(body is bodies[0] for body in bodies)
    assert await cache.read(log.stream, 0) == bodies[0].replace(b"null", b"0", 1)  # not a snapshot
    log.remove(0)
    assert json.loads(await cache.read("", 0))["events"] == []


async def test_a_cache_that_is_larger_than_readers_take_is_not_told():
    log = PrefixLog(16)
    cache = ServedCache(log=log, reply_bytes=1000)
    for block in range(3):
        log.store(block, None, packed_ids([block] * 16))
    assert len(await cache.read("", 0)) <= 1000
    for block in range(3, 30):
        log.store(block, None, packed_ids([block] * 16))
    async with served(ScriptedTokens(), cache=cache) as client:
        async with client.get("/v1/kv_events") as response:
            assert response.status == 503
            assert "more than" in (await response.json())["error"]["message"]
        async with client.get(f"/v1/kv_events/{log.stream}/29") as response:
            assert response.status == 200
    assert encode_changes(log.read("", 0), 10**6)
    size = len(encode_changes(log.read("", 0)))
    assert encode_changes(log.read("", 0), size) is not None
    assert encode_changes(log.read("", 0), size - 1) is None


async def test_a_model_that_hides_its_cache_has_no_events():
    async with served(ScriptedTokens()) as client, client.get("/v1/kv_events") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (ModelPlace(), False),  # other users of this machine, and those behind a proxy, reach it
        (ModelPlace(host="::1"), False),
        (ModelPlace(unix=Path("/tmp/socket")), True),
        (ModelPlace(unix=Path("/tmp/socket"), kv_events=False), False),
        (ModelPlace(kv_events=True), True),
        (ModelPlace(host="0.0.0.0"), False),
        (ModelPlace(host="192.168.1.5", kv_events=True), True),
    ],
)
def test_the_prompts_in_the_cache_are_shown_at_a_port_only_if_the_operator_says_so(place, shown):
    assert place.shows_cache is shown


async def test_metrics_are_prometheus_text():
    async with served(ScriptedTokens(sampled("x", cached=1)), gauges=lambda: {"kv_use": 0.25}) as client:
        await post(client, "/v1/completions", {"prompt": "ab"})
        await post(client, "/v1/completions", {})
        for made_up in ("/v1/a", "/v1/b", "/"):
            await post(client, made_up, {})
        text = await (await client.get("/metrics")).text()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines["sandlot_engine_kv_use"] == "0.25"
    assert lines["sandlot_prefix_hit_rate"] == "0.5"
    assert lines["sandlot_sampled_tokens_total"] == "2"
    assert lines['sandlot_requests_total{route="/v1/completions",status="200"}'] == "1"
    assert lines['sandlot_requests_total{route="/v1/completions",status="400"}'] == "1"
    assert lines['sandlot_requests_total{route="other",status="404"}'] == "3"


async def test_a_unix_socket_is_for_its_owner_and_goes_with_the_server(tmp_path):
    path = tmp_path / "m.sock"
    async with serve_app(
        model_app(ModelServer(ScriptedTokens(), ToyRenderer(), ToyWords(), vocabulary=ToyWords.size)), unix=path
    ) as address:
        assert address == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        async with aiohttp.ClientSession("http://m", connector=aiohttp.UnixConnector(str(path))) as client:
            assert (await post(client, "/v1/completions", {"prompt": "a"}))[0] == 200
    assert not path.exists()


async def test_paths_a_client_made_up_are_not_lines_of_the_metrics():
    async with served(ScriptedTokens()) as client:
        for path in ("/v1/a%0Aforged%201", "/v1/b%22%7D", "/v1/c"):
            assert (await client.get(URL(path, encoded=True))).status == 404
        text = await (await client.get("/metrics")).text()
    assert 'sandlot_requests_total{route="other",status="404"} 3' in text
    assert "forged" not in text


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"stop": ["x"] * 1000}, "stop"),
        ({"stop": "x" * 10_000}, "stop"),
        ({"stop_token_ids": list(range(100)) * 11}, "stop_token_ids"),
    ],
)
async def test_more_stops_than_every_step_could_look_for_are_refused(more, named):
    model = ScriptedTokens()
    async with served(model) as client:
        status, reply, _ = await post(client, "/v1/completions", {"prompt": "a"} | more)
    assert (status, named in reply["error"]["message"], model.asked) == (400, True, []), reply
