"""Replicas that report what their caches hold, over real HTTP: followed while they make sense, predicted when they do not."""

import itertools
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web

from builders.prefix_trees import TreeWriter
from fakes.engines import FakeEngine
from fakes.toy_tokens import END, ScriptedTokens, ToyRenderer, ToyWords
from sandlot.core.ports.model import Sampling
from sandlot.core.tokens import packed_ids
from sandlot.model.endpoint import followed
from sandlot.model.endpoint.replicated import open_replicated_tokens
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.tokens import RemoteConfig
from sandlot.model.engine.eviction import eviction_named
from sandlot.model.routing.prefixes import BLOCK_TOKENS, block_keys
from sandlot.model.routing.router import RouterConfig
from sandlot.model.wire.listening import serve_app
from sandlot.serve.model.cache import ServedCache
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.server import ModelServer

PROMPT = list(range(64))
DEAD = "http://127.0.0.1:9"


@asynccontextmanager
async def opened(*urls, routing="reported", dialect="sandlot"):
    configs = [RemoteConfig(model="m", url=url, dialect=dialect) for url in urls]
    settings = RouterConfig(routing=routing, cache_tokens=64 * BLOCK_TOKENS)
    patience = Patience(0.0)
    async with open_replicated_tokens(
        configs, routing=settings, environ={}, patience=patience, probe_s=0.01, poll_s=0.002
    ) as model:
        yield model


class CachedServer:
    """Our own model server with a scripted model, and a real prefix tree for its cache."""

    def __init__(self) -> None:
        self._model = ScriptedTokens(then="x")
        self._model.name = "m"
        self._server = ModelServer(self._model, ToyRenderer(), ToyWords(), vocabulary=ToyWords.size)
        self.restart()

    def restart(self) -> None:
        """With an empty cache, at the same address."""
        self.cache = TreeWriter(64, eviction_named("lru"), BLOCK_TOKENS)
        self._server.cache = ServedCache(log=self.cache.tree.log)

    def serve(self):
        return serve_app(model_app(self._server), drain_s=1)


@asynccontextmanager
async def opened_with(server: FakeEngine, kv_events):
    """The model with this server and a dead one."""
    server.kv_events = kv_events
    async with opened(server.url, DEAD) as model:
        yield model


def sample(model, ids=PROMPT, session=""):
    return model.sample(ids, Sampling(max_tokens=9), stop_ids=[END], session=session)


async def until(condition) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - the condition is in another part, which sets no event
            await anyio.sleep(0.005)


def known(model, number: int, ids=PROMPT) -> int:
    """Tokens of the prompt that the router believes to be there."""
    return model.router.replicas[number].match(block_keys(packed_ids(ids))).warm


async def test_what_others_have_put_into_a_cache_and_what_was_evicted_is_known():
    first, second = CachedServer(), CachedServer()
    second.cache.write(PROMPT)  # by another client
    async with first.serve() as one, second.serve() as two, opened(one, two) as model:
        await until(lambda: known(model, 1) == 64)
        assert (await sample(model)).replica.name == two
        second.cache.tree.evict()
        await until(lambda: known(model, 1) == 48)
        first.cache.write(PROMPT)
        await until(lambda: known(model, 0) == 64)
        assert (await sample(model)).replica.name == one
        first.cache.tree.clear()  # new weights
        await until(lambda: known(model, 0) == 0)


@pytest.mark.parametrize("snapshots", [False, True])
async def test_an_own_reply_counts_before_it_is_reported_and_not_after_a_report_without_it(snapshots):
    asked, answered = anyio.Event(), anyio.Event()
    num = 0

    async def held(path: str) -> web.Response:  # this cache keeps nothing of what it computes
        nonlocal num
        num += 1
        if num == 2:
            asked.set()
            await answered.wait()
        return events(after=None if snapshots or not path else 0, sequence=0)

    async with FakeEngine(ScriptedTokens(then="x")) as server, opened_with(server, held) as model:
        await asked.wait()
        await sample(model)
        assert known(model, 0) == 64  # it came after the events were asked for
        before = server.num_polled
        answered.set()
        await until(lambda: server.num_polled > before)
        await until(lambda: known(model, 0) == 0)
        assert model.router.replicas[0].prefixes.match(block_keys(packed_ids(PROMPT))).warm == 64  # a prediction would be wrong


@pytest.mark.parametrize("snapshots", [False, True])
async def test_an_own_reply_survives_a_report_that_was_asked_for_before_it(snapshots):
    asked, answered, asked_again = anyio.Event(), anyio.Event(), anyio.Event()
    num = 0

    async def held(path: str) -> web.Response:
        nonlocal num
        num += 1
        if num == 2:
            asked.set()
            await answered.wait()
        if num == 3:
            asked_again.set()
            await anyio.sleep_forever()
        return events(after=None if snapshots or not path else 0, sequence=0)

    async with FakeEngine(ScriptedTokens(then="x")) as server, opened_with(server, held) as model:
        await asked.wait()
        await sample(model)
        answered.set()
        await asked_again.wait()  # so the second report has come
        assert known(model, 0) == 64


async def test_the_first_requests_are_routed_by_the_first_reports(monkeypatch):
    monkeypatch.setattr(followed, "_FIRST_S", 60.0)
    first, second = CachedServer(), CachedServer()
    second.cache.write(PROMPT)
    async with first.serve() as one, second.serve() as two, opened(one, two, DEAD) as model:
        assert known(model, 1) == 64


async def test_a_server_that_was_started_again_is_read_from_its_beginning():
    first, other = CachedServer(), CachedServer()
    first.cache.write(PROMPT)
    later = list(range(100, 132))
    async with first.serve() as one, other.serve() as two, opened(one, two) as model:
        await until(lambda: known(model, 0) == 64)
        first.restart()
        first.cache.write(later)
        await until(lambda: known(model, 0, later) == 32)
        assert known(model, 0) == 0


@pytest.mark.parametrize("routing", ["prefix", "round-robin"])
async def test_the_other_ways_of_routing_ask_for_no_events(routing):
    async with FakeEngine(ScriptedTokens(then="x")) as one, FakeEngine(ScriptedTokens(then="x")) as two:
        async with opened(one.url, two.url, routing=routing) as model:
            for _ in range(4):
                await sample(model)
        assert one.num_polled == two.num_polled == 0


async def test_a_server_without_events_is_asked_once_and_predicted():
    async with FakeEngine(ScriptedTokens(then="x")) as one, FakeEngine(ScriptedTokens(then="x")) as two:
        async with opened(one.url, two.url) as model:
            await until(lambda: one.num_polled and two.num_polled)
            for _ in range(5):
                await sample(model, session="s")
                await anyio.sleep(0.01)
            assert max(known(model, 0), known(model, 1)) == 64
        assert (one.num_polled, two.num_polled) == (1, 1)


STORED = {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": PROMPT[:16], "block_size": 16}


def events(*listed: dict, stream="s1", after=None, sequence=1) -> web.Response:
    return web.json_response({"stream": stream, "after": after, "sequence": sequence, "events": list(listed)})


def flood(size: int) -> web.Response:
    return web.Response(body=b" " * size)


LIES = {
    "no JSON": lambda _path: web.Response(body=b"{"),
    "deep": lambda _path: web.Response(body=b'{"events":' + b"[" * 10**6),
    "another shape": lambda _path: web.json_response([1, 2, 3]),
    "absurd numbers": lambda _path: events(STORED | {"token_ids": [10**30] * 16}),
    "a stream that is a path": lambda _path: events(STORED, stream="../../../v1/models"),
    "twice the same": lambda _path: events(STORED, STORED),
    "unknown parent": lambda _path: events(STORED | {"parent_block_hash": 77}),
    "more than fits": lambda _path: events(*(STORED | {"block_hashes": [name]} for name in range(100))),
    "odd blocks": lambda _path: events(STORED | {"block_size": 15, "token_ids": [1] * 15}),
    "events that were not asked for": lambda _path: events(STORED, after=40, sequence=41),
    "a gap": lambda path: events(STORED) if not path else events(after=1, sequence=9),
    "too long": lambda _path: flood(17 * 2**20),
    "a line break": lambda path: events(STORED, stream="s1\n") if not path else web.Response(status=500),
    "another stream": lambda path: events(STORED) if not path else events(stream="s2", after=1, sequence=1),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_replica_whose_events_make_no_sense_is_predicted_and_soon_asked_no_more(lie, caplog):
    async with FakeEngine(ScriptedTokens(then="x")) as liar, FakeEngine(ScriptedTokens(then="x")) as honest:
        liar.kv_events = LIES[lie]
        async with opened(liar.url, honest.url) as model:
            await until(lambda: "make no sense" in caplog.text)
            assert liar.num_polled in {3, 6}  # a reply with sense may stand before each of the three without
            for _ in range(4):
                assert (await sample(model, session="s")).ids
            polled = liar.num_polled
            await anyio.sleep(0.1)
            assert liar.num_polled == polled
            assert model.router.replicas[0].reported is None
            assert model.router.replicas[0].is_up
            assert max(known(model, 0), known(model, 1)) == 64


def endless(_path: str) -> web.StreamResponse:
    return web.StreamResponse()


async def silence(_path: str) -> web.Response:
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    "failure",
    [
        lambda _path: web.Response(status=401),
        lambda _path: web.Response(status=500),
        lambda _path: web.Response(status=429),
        lambda _path: web.Response(status=302, headers={"Location": "http://127.0.0.1:9"}),
        endless,
        silence,
    ],
)
async def test_a_replica_that_gives_no_events_is_predicted_asked_ever_more_rarely_and_stays_up(failure, monkeypatch):
    monkeypatch.setattr(followed, "_FIRST_S", 0.01)  # the run does not wait for it
    monkeypatch.setattr(followed, "_POLL_TIMEOUT_S", 0.05)
    times: list[float] = []

    def noted(path: str):
        times.append(anyio.current_time())
        return failure(path)

    async with FakeEngine(ScriptedTokens(then="x")) as silent, opened_with(silent, noted) as model:
        assert (await sample(model)).ids
        await until(lambda: len(times) >= 5)
        replica = model.router.replicas[0]
        assert (replica.reported, replica.is_up, replica.num_failed) == (None, True, 0)
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(wait >= least for wait, least in zip(waits, [0.04, 0.08, 0.16, 0.32], strict=False))


async def test_events_go_on_where_they_were_after_a_failure():
    paths: list[str] = []

    def shaky(path: str) -> web.Response:
        paths.append(path)
        if len(paths) in {2, 3}:
            return web.Response(status=500)
        return events(STORED) if not path else events(after=1)

    async with FakeEngine(ScriptedTokens(then="x")) as server, opened_with(server, shaky) as model:
        await until(lambda: len(paths) >= 5)
        assert paths[:5] == ["", *["/s1/1"] * 4]
        assert known(model, 0) == 16


async def test_a_cache_that_is_larger_than_the_router_remembers_is_not_asked_for():
    async with FakeEngine(ScriptedTokens(then="x")) as large, FakeEngine(ScriptedTokens(then="x")) as other:
        large.kv_events = other.kv_events = lambda path: events(STORED) if not path else events(after=1)
        large.cache_tokens, other.cache_tokens = 65 * BLOCK_TOKENS, 64 * BLOCK_TOKENS
        async with opened(large.url, other.url) as model:
            await until(lambda: other.num_polled >= 5)
            assert (large.num_polled, model.router.replicas[0].reported) == (0, None)


@pytest.mark.parametrize(
    ("wrong", "num_polled"), [(lambda _path: web.Response(status=404), 1), (lambda _path: web.Response(body=b"{"), 3)]
)
async def test_a_replica_that_was_asked_no_more_is_asked_when_it_was_down_and_is_up_again(wrong, num_polled):
    async with FakeEngine(ScriptedTokens(then="x")) as server, opened_with(server, wrong) as model:
        await until(lambda: server.num_polled == num_polled)
        await anyio.sleep(0.1)
        assert server.num_polled == num_polled
        server.kv_events = lambda path: events(STORED) if not path else events(after=1)
        model.router.remove(0)
        model.router.admit(0)
        await until(lambda: known(model, 0) == 16)


async def test_after_a_gap_the_next_reply_is_a_snapshot_that_is_followed():
    paths: list[str] = []

    def forgetful(path: str) -> web.Response:
        paths.append(path)
        return events(after=1, sequence=9) if len(paths) == 2 else events(STORED) if not path else events(after=1)

    async with FakeEngine(ScriptedTokens(then="x")) as one, FakeEngine(ScriptedTokens(then="x")) as two:
        one.kv_events = forgetful
        async with opened(one.url, two.url) as model:
            await until(lambda: len(paths) >= 5)
            assert paths[:4] == ["", "/s1/1", "", "/s1/1"]
            assert known(model, 0) == 16


async def test_vllm_is_not_asked_for_events_of_ours():
    async with FakeEngine(ScriptedTokens(then="x")) as one, FakeEngine(ScriptedTokens(then="x")) as two:
        async with opened(one.url, two.url, dialect="vllm") as model:
            await sample(model)
        assert one.num_polled == two.num_polled == 0
