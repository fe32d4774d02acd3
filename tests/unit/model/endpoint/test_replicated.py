"""Models with several servers, over real HTTP: who gets a request, and what happens when a server fails, dies and comes back."""

from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from fakes.endpoint import Answer, FakeEndpoint, lists, says, status
from fakes.engines import FakeEngine
from fakes.toy_tokens import END, ScriptedTokens, never
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig
from sandlot.model.endpoint.replicated import open_replicated_chat, open_replicated_tokens
from sandlot.model.endpoint.retry import Patience, listen_for_retries
from sandlot.model.endpoint.secret import public_url, split_replicas
from sandlot.model.endpoint.session import RolloutSession, in_session
from sandlot.model.endpoint.tokens import RemoteConfig, remote_config

PROMPT = list(range(1, 65))
DEAD = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""


@asynccontextmanager
async def engines(*urls, patience=None, dialect="vllm"):
    configs = [RemoteConfig(model="m", url=url, dialect=dialect) for url in urls]
    opening = open_replicated_tokens(configs, environ={}, patience=patience or Patience(0.0), probe_s=0.01)
    async with opening as model:
        yield model


@asynccontextmanager
async def chats(*endpoints, patience=None):
    configs = [OpenAIConfig(model="m", url=endpoint.url) for endpoint in endpoints]
    async with open_replicated_chat(configs, environ={}, patience=patience or Patience(0.0), probe_s=0.01) as model:
        yield model


def sample(model, ids=PROMPT, session=""):
    return model.sample(ids, Sampling(max_tokens=9), stop_ids=[END], session=session)


async def say(model, text="hello"):
    return await model.chat([text_message(Role.USER, text)], (), Sampling())


async def until(condition) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - the condition is in another part, which sets no event
            await anyio.sleep(0.005)


def is_idle(router) -> bool:
    return all(replica.num_open == replica.work == 0 for replica in router.replicas)


async def test_a_rollout_stays_at_one_server_and_its_prefix_is_expected_there():
    async with FakeEngine(ScriptedTokens()) as one, FakeEngine(ScriptedTokens()) as other, engines(one.url, other.url) as model:
        first = await sample(model, session="a")
        await sample(model, [7] * 64, session="b")
        second = await sample(model, [*PROMPT, 300, 301], session="a")
        assert first.replica.name == second.replica.name
        assert (first.replica.expected_tokens, second.replica.expected_tokens) == (0, 64)
        assert len(one.requests) + len(other.requests) == 3
        await model.release("a")
        await model.release("b")
        assert [replica.num_waiting for replica in model.router.replicas] == [0, 0]


async def test_a_server_that_died_is_left_at_once_and_taken_back_when_it_answers_again():
    retries = []
    async with FakeEngine(ScriptedTokens()) as kept, engines(kept.url, DEAD) as model:
        assert [replica.is_up for replica in model.router.replicas] == [True, False]
        assert (await sample(model)).replica.name == kept.url
    mortal = FakeEngine(ScriptedTokens())
    async with FakeEngine(ScriptedTokens()) as kept:
        await mortal.__aenter__()
        async with engines(mortal.url, kept.url) as model:
            assert (await sample(model, session="a")).replica.name == mortal.url
            await mortal.__aexit__()
            with listen_for_retries(retries.append):
                moved = await sample(model, session="a")
            assert (moved.replica.name, moved.replica.expected_tokens) == (kept.url, 0)
            assert [(retry.kind, retry.wait_s) for retry in retries] == [("connect", 0.0)]
            assert mortal.url in retries[0].message
            async with FakeEngine(ScriptedTokens(), port=mortal.port):
                await until(lambda: model.router.replicas[0].is_up)
                again = await sample(model, [9] * 64)
                assert (again.replica.name, again.replica.expected_tokens) == (mortal.url, 0)
                assert (await sample(model, session="a")).replica.name == kept.url  # it has settled there
            assert is_idle(model.router)


async def test_requests_under_way_at_a_server_that_dies_are_answered_by_another():
    dying = FakeEngine(ScriptedTokens(then=never))
    async with FakeEngine(ScriptedTokens()) as kept:
        await dying.__aenter__()
        got = []
        async with engines(dying.url, kept.url) as model:

            async def one():
                got.append(await sample(model, session="a"))

            async with anyio.create_task_group() as group:
                group.start_soon(one)
                await dying.model.begun.wait()
                await dying.__aexit__()
            assert [sampled.replica.name for sampled in got] == [kept.url]
            assert is_idle(model.router)


async def test_a_5xx_takes_a_server_down_and_the_request_to_another():
    async with FakeEndpoint(then=status(503)) as bad, FakeEndpoint() as good, chats(bad, good) as model:
        assert (await say(model)).replica.name == good.url
        assert model.router.replicas[0].num_failed == 1
        await until(lambda: model.router.replicas[0].is_up)  # its list of models answers with 404: it lives


async def test_a_request_that_every_server_answers_with_a_5xx_takes_only_one_down():
    async with FakeEndpoint(then=status(500)) as one, FakeEndpoint(then=status(500)) as other, chats(one, other) as model:
        with pytest.raises(ModelError) as caught:
            await say(model)
        assert caught.value.kind == "server"
        assert len(one.requests) == len(other.requests) == 1
        assert sum(replica.is_up for replica in model.router.replicas) >= 1
        assert is_idle(model.router)


async def test_a_request_that_gets_a_5xx_again_and_again_takes_one_server_down_once():
    async def wait_for_both(_wait_s):
        await until(lambda: all(replica.is_up for replica in model.router.replicas))

    refusals = [status(500)] * 3
    patience = Patience(60.0, sleep=wait_for_both)
    async with FakeEndpoint(refusals) as one, FakeEndpoint(refusals) as other, chats(one, other, patience=patience) as model:
        await say(model)
        assert len(one.requests) + len(other.requests) == 7
        await until(lambda: all(replica.is_up for replica in model.router.replicas))
        assert sum(replica.generation for replica in model.router.replicas) == 2  # removed and admitted


@pytest.mark.parametrize(
    ("answer", "kind", "num_asked"), [(status(400), "bad_request", 1), (status(401), "auth", 2), (status(404), "not_found", 2)]
)
async def test_a_request_that_is_refused_is_sent_to_another_only_if_the_server_may_be_to_blame(answer, kind, num_asked):
    async with FakeEndpoint(then=answer) as one, FakeEndpoint(then=answer) as other, chats(one, other) as model:
        with pytest.raises(ModelError) as caught:
            await say(model)
        assert caught.value.kind == kind
        assert len(one.requests) + len(other.requests) == num_asked
        assert all(replica.is_up for replica in model.router.replicas)
        assert is_idle(model.router)


@pytest.mark.parametrize("refusal", [401, 403, 404])
async def test_a_server_that_no_longer_takes_the_key_or_the_model_is_left_until_it_does(refusal):
    async with FakeEndpoint(then=status(refusal), listing=lists("m")) as one, FakeEndpoint() as other, chats(one, other) as model:
        one.listing = lists("another") if refusal == 404 else status(refusal)
        assert (await say(model)).replica.name == other.url
        await until(lambda: not model.router.replicas[0].is_up)
        one.listing = lists("m")
        await until(lambda: model.router.replicas[0].is_up)


async def test_a_server_that_refuses_the_key_does_not_end_a_request_that_another_may_answer_later():
    soon = Patience(60.0, draw=lambda _low, _high: 0.0)
    busy, refusing = FakeEndpoint([status(429)]), FakeEndpoint(then=status(401))
    async with busy as one, refusing as other, chats(one, other, patience=soon) as model:
        assert (await say(model)).replica.name == one.url


@pytest.mark.parametrize(
    ("listing", "named"),
    [(status(401), "answered 401"), (status(403), "answered 403"), (lists("a", "b"), "has no model `m`; it has: a, b")],
)
async def test_a_chat_server_that_refuses_the_key_or_lists_other_models_is_refused_when_it_is_opened(listing, named):
    async with FakeEndpoint() as one, FakeEndpoint(listing=listing) as other:
        with pytest.raises(ConfigError, match=named):
            async with chats(one, other):
                pass


@pytest.mark.parametrize("listing", [lists("m"), lists("a", "m:latest"), lists(), Answer(b"hello"), status(404), status(405)])
async def test_a_chat_server_that_lists_the_model_or_has_no_list_serves(listing):
    async with FakeEndpoint(listing=listing) as one, FakeEndpoint(listing=listing) as other, chats(one, other) as model:
        assert all(replica.is_up for replica in model.router.replicas)


@pytest.mark.parametrize("answer", [status(429, {"Retry-After": "60"}), Answer(b'{"choices"', cut=True)], ids=["busy", "cut"])
async def test_a_busy_server_and_a_broken_reply_send_the_request_elsewhere_without_taking_a_living_server_down(answer):
    async with FakeEndpoint([answer]) as one, FakeEndpoint() as other, chats(one, other) as model:
        assert (await say(model)).replica.name == other.url
        await anyio.wait_all_tasks_blocked()
        assert model.router.replicas[0].is_up
        assert (await say(model)).replica.name in {one.url, other.url}


async def test_a_probe_does_not_wait_for_the_requests_under_way():
    hang, cut = Answer(hang=True), Answer(b'{"choices"', cut=True)
    async with FakeEndpoint([hang, cut, hang]) as one:
        configs = [OpenAIConfig(model="m", url=url, at_once=2) for url in (one.url, DEAD)]
        async with open_replicated_chat(configs, environ={}, patience=Patience(0.0)) as model, anyio.create_task_group() as group:

            async def ask():
                with suppress(ModelError):
                    await say(model)

            for _ in range(3):  # the third takes the slot of the one whose reply is cut
                group.start_soon(ask)
            await until(lambda: len(one.requests) == 3)
            await until(lambda: one.num_listed == 2)  # when it was opened, and now
            group.cancel_scope.cancel()


async def test_if_no_server_is_up_requests_wait_for_one():
    waits = []

    async def start_again(wait_s):
        waits.append(wait_s)
        await back.__aenter__()
        await until(lambda: model.router.replicas[0].is_up)

    gone = [FakeEngine(ScriptedTokens()), FakeEngine(ScriptedTokens())]
    for engine in gone:
        await engine.__aenter__()
    async with engines(*(engine.url for engine in gone), patience=Patience(60.0, sleep=start_again)) as model:
        for engine in gone:
            await engine.__aexit__()
        back = FakeEngine(ScriptedTokens(), port=gone[0].port)
        assert (await sample(model)).replica.name == back.url
        assert len(waits) == 1
        await back.__aexit__()


async def test_without_any_server_it_is_a_failure_of_the_model_when_patience_ends():
    engine = FakeEngine(ScriptedTokens())
    await engine.__aenter__()
    async with engines(engine.url, DEAD) as model:
        await engine.__aexit__()
        for _ in range(2):  # the first takes the server down, the second finds none
            with pytest.raises(ModelError) as caught:
                await sample(model)
            assert caught.value.kind == "connect"
        assert is_idle(model.router)


async def test_a_cancelled_request_leaves_nothing_behind():
    async with FakeEngine(ScriptedTokens(then=never)) as one, FakeEngine(ScriptedTokens()) as other:
        async with engines(one.url, other.url) as model, anyio.create_task_group() as group:
            group.start_soon(sample, model)
            await one.model.begun.wait()
            assert not is_idle(model.router)
            group.cancel_scope.cancel()
        assert is_idle(model.router)


async def test_a_prompt_that_fits_into_no_server_is_refused_before_it_is_sent():
    small = [FakeEngine(ScriptedTokens(context=64)) for _ in range(2)]
    async with small[0] as one, small[1] as other, engines(one.url, other.url) as model:
        assert model.context == 64
        with pytest.raises(ModelError) as caught:
            await sample(model, [1] * 64)
        assert caught.value.kind == "context"


async def test_the_end_of_a_rollout_is_reported_to_every_server_that_it_was_at():
    failing = FakeEngine(ScriptedTokens("ok", ModelError("broken")))
    kept, unused = FakeEngine(ScriptedTokens()), FakeEngine(ScriptedTokens())
    async with failing, kept, unused, engines(failing.url, kept.url, unused.url, dialect="sandlot") as model:
        for server in (failing, kept):  # the first is down after its second request
            assert (await sample(model, session="a")).replica.name == server.url
        await until(lambda: model.router.replicas[0].is_up)
        await model.release("a")
        await model.release("a")
    assert [engine.released for engine in (failing, kept, unused)] == [["a"], ["a"], []]


async def test_an_error_inside_the_block_is_raised_as_it_is():
    async with FakeEngine(ScriptedTokens()) as one, FakeEngine(ScriptedTokens()) as other:
        with pytest.raises(ConfigError, match="as it is"):
            async with engines(one.url, other.url):
                raise ConfigError("as it is")


async def test_servers_that_cannot_serve_the_model_are_refused_when_it_is_opened():
    async with FakeEngine(ScriptedTokens()) as engine:
        other = RemoteConfig(model="other", url=engine.url + "/", dialect="vllm")
        mine = RemoteConfig(model="m", url=engine.url, dialect="vllm")
        with pytest.raises(ConfigError, match="has no model `other`"):
            async with open_replicated_tokens([mine, other], environ={}):
                pass
    with pytest.raises(ConfigError, match="none of the servers"):
        async with engines(DEAD, "http://127.0.0.1:7"):
            pass


async def test_servers_with_different_contexts_are_refused_when_the_model_is_opened():
    async with FakeEngine(ScriptedTokens(context=512)) as one, FakeEngine(ScriptedTokens(context=64)) as other:
        with pytest.raises(ConfigError, match=f"same context: vllm:m@{one.url} has 512, vllm:m@{other.url} has 64; start"):
            async with engines(one.url, DEAD, other.url):
                pass


@pytest.mark.parametrize("context", [64, 4096])
async def test_a_server_with_another_context_is_not_taken_later(context):
    async with FakeEngine(ScriptedTokens(context=512)) as engine:
        late = FakeEngine(ScriptedTokens(context=context))
        await late.__aenter__()
        await late.__aexit__()
        async with engines(engine.url, late.url) as model, FakeEngine(late.model, port=late.port) as back:
            await until(lambda: back.num_listed >= 2)  # it was looked at, and is looked at again
            assert not model.router.replicas[1].is_up


async def test_the_turns_of_a_chat_rollout_stay_together_until_it_ends():
    async with FakeEndpoint(then=says("yes")) as one, FakeEndpoint(then=says("yes")) as other, chats(one, other) as model:
        session = RolloutSession("task/0")
        names = set()
        with in_session(session):
            for turn in range(4):
                await say(model, f"another {turn}" * 20)  # other rollouts
                names.add((await say(model, "x" * 400 + "y" * turn)).replica.name)
        assert len(names) == 1
        assert sum(replica.num_waiting for replica in model.router.replicas) == 1
        session.end()
        assert sum(replica.num_waiting for replica in model.router.replicas) == 0


def test_several_urls_are_one_model_each_and_no_secret_is_shown():
    spec = "m@http://user:secret@one:1/v1?key=abc,https://user:secret@two/v1"
    assert split_replicas(spec) == ["m@http://user:secret@one:1/v1?key=abc", "m@https://user:secret@two/v1"]
    assert public_url(spec.removeprefix("m@")) == "http://one:1/v1,https://two/v1"
    assert split_replicas("m") == ["m"]


@pytest.mark.parametrize(
    ("urls", "number"),
    [
        ("http://a:8000,", 2),
        ("http://a:8000,b:8001", 2),
        ("http://a:8000,,http://b:8001", 2),
        ("http://a:8000, http://b:8000", 2),
        ("http://a:8000,http://b:8000 ,http://c", 2),
        ("http://a:80x,http://b", 1),
        ("http://one/a,b", 2),
    ],
)
def test_a_list_with_something_else_than_urls_is_refused(urls, number):
    for parse in (split_replicas, lambda spec: remote_config("sandlot", spec)):
        with pytest.raises(ConfigError, match=f"number {number} of the list is not a URL; write `http://host:port` for each"):
            parse(f"m@{urls}")


@pytest.mark.parametrize(
    "urls", ["http://u:pa,ss@one", "http://one/v1,u:pass@two/v1", "http://one, http://u:pass@two?key=pass,ss"]
)
def test_a_refused_list_shows_no_secret(urls):
    with pytest.raises(ConfigError) as caught:
        split_replicas(f"m@{urls}")
    assert "pa" not in str(caught.value).partition("number")[0]
    assert "ss" not in str(caught.value).partition("number")[0]


@pytest.mark.parametrize("again", ["http://one/v1", "http://one/v1/", "http://ONE:80/v1", "http://one"])
def test_a_server_that_is_named_twice_is_refused(again):
    with pytest.raises(ConfigError, match="is named twice; leave one out"):
        split_replicas(f"m@http://one/v1,http://two,{again}")


@pytest.mark.parametrize("url", ["http://one:80x", "http://", "httpone"])
def test_one_server_that_is_not_a_url_is_refused(url):
    with pytest.raises(ConfigError, match="write `vllm:NAME@http://host:port`"):
        remote_config("vllm", f"m@{url}")
