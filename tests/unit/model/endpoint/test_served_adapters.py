"""Adapters at a server: what it refuses, and what it must not be believed. The real one is asked in `make test-vllm`."""

from pathlib import Path

import anyio
import pytest

from fakes.engines import FakeEngine
from fakes.toy_tokens import END, ScriptedTokens, never
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.model.endpoint.replicated import open_replicated_tokens
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.served_adapters import AdaptedTokens, _own_advice, open_adapted
from sandlot.model.endpoint.tokens import RemoteConfig
from sandlot.serve.model.adapters import ADAPTER_NAME
from sandlot.train.publish import _owner_of, served_config
from sandlot.train.recipe import Recipe

GOOD = Sampling(max_tokens=9)
PROMPT = list(range(1, 65))


def opened(engine, owner="run"):
    return open_adapted(RemoteConfig(model="m", url=engine.url, dialect="vllm"), owner, environ={}, patience=Patience(0.0))


def two(one, other):
    config = RemoteConfig(model="m", url=f"{one.url},{other.url}", dialect="vllm")
    return open_replicated_tokens(config.each, environ={}, patience=Patience(0.0), probe_s=0.01)


def serving(load=lambda _name: None, model=None, **options):
    return FakeEngine(model or ScriptedTokens("ok"), load=load, **options)


def folder(path, content="a"):
    place = path / content
    place.mkdir()
    (place / "adapter_model.safetensors").write_text(content)
    return place


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        ((404, "Not Found"), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"),
        ((404, "Loading lora x failed: No adapter found for /x"), "under the same path"),
        ((500, "LoRA is not enabled. Use --enable-lora to enable LoRA."), "--enable-lora"),
        ((500, "LoRA rank 64 is greater than max_lora_rank 16."), "--max-lora-rank"),
        ((500, "Call to add_lora method failed"), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"),
        ((400, "conflicts with a served base model"), "not loaded"),
    ],
)
async def test_a_refused_adapter_is_an_error_that_names_what_to_change_and_nothing_is_sampled(tmp_path, refusal, named):
    async with serving(lambda _name: refusal) as engine, opened(engine) as model:
        with pytest.raises(ModelError) as caught:
            await model.load(4, folder(tmp_path))
        assert named in str(caught.value)
        assert "version 4" in str(caught.value)
        assert refusal[1] in str(caught.value)
        assert not caught.value.retryable
        assert len(engine.requests) == 1
        with pytest.raises(ModelError, match="no adapter is loaded"):
            await model.sample([1], GOOD, stop_ids=[END])


async def test_a_server_without_the_path_is_told_how_to_be_started(tmp_path):
    async with FakeEngine(ScriptedTokens("ok")) as engine, opened(engine) as model:
        with pytest.raises(ModelError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
            await model.load(0, folder(tmp_path))


async def test_a_load_whose_reply_was_lost_counts_as_done(tmp_path):
    refusal = (400, "The lora adapter 'x' has already been loaded. If you want ...")
    async with serving(lambda _name: refusal) as engine, opened(engine) as model:
        await model.load(4, folder(tmp_path))
        assert len(model.loaded) == 1
        engine.adapters += model.loaded


async def test_a_refused_adapter_leaves_the_one_before(tmp_path):
    async with serving(lambda name: (500, "no memory") if "-000002-" in name else None) as engine, opened(engine) as model:
        await model.load(1, folder(tmp_path, "a"))
        with pytest.raises(ModelError):
            await model.load(2, folder(tmp_path, "b"))
        sampled = await model.sample([1, 2], GOOD, stop_ids=[END])
        assert {version for _, version in sampled.versions} == {1}


async def test_tokens_of_another_model_than_the_adapter_are_not_believed(tmp_path):
    async with serving(spoil=lambda body: body | {"model": "m"}) as engine, opened(engine) as model:
        await model.load(1, folder(tmp_path))
        with pytest.raises(ModelError, match="`m` answered") as caught:
            await model.sample([1, 2], GOOD, stop_ids=[END])
        assert caught.value.kind == "malformed"


async def test_an_adapter_goes_when_its_last_request_was_cancelled(tmp_path):
    async with serving(model=ScriptedTokens(then=never)) as engine, opened(engine) as model:
        await model.load(1, folder(tmp_path, "a"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.sample, [1, 2], GOOD)
            tasks.start_soon(model.sample, [1, 3], GOOD)
            await anyio.wait_all_tasks_blocked()
            await model.load(2, folder(tmp_path, "b"))
            assert len(engine.adapters) == 2
            assert list(model.loaded) == engine.adapters
            tasks.cancel_scope.cancel()
        assert [name.split("-")[1] for name in engine.adapters] == ["000002"]
        assert list(model.loaded) == engine.adapters
    assert engine.adapters == []


async def test_the_same_weights_under_the_same_version_are_loaded_once(tmp_path):
    async with serving() as engine, opened(engine) as model:
        place = folder(tmp_path)
        await model.load(1, place)
        await model.load(1, place)
        assert len(engine.adapters) == 1


async def test_adapters_of_other_owners_are_left_alone(tmp_path):
    async with serving() as engine:
        engine.adapters += ["other-000001-x", "run-000003-x", "running-000001-x"]
        async with opened(engine) as model:
            assert engine.adapters == ["other-000001-x", "running-000001-x"]
            await model.load(1, folder(tmp_path))
        assert engine.adapters == ["other-000001-x", "running-000001-x"]


async def test_sglang_takes_no_adapters():
    config = RemoteConfig(model="m", url="http://127.0.0.1:9", dialect="sglang")
    with pytest.raises(ConfigError, match="sandlot:NAME@URL"):
        async with open_adapted(config, "run", environ={}):
            pass


def test_a_server_needs_adapters_and_an_address():
    with pytest.raises(ConfigError, match="give `lora` a rank"):
        Recipe(name="r", env="e", server="vllm:m@http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="vllm:NAME@URL"):
        served_config(Recipe(name="r", env="e", lora=4, server="openai:m@http://127.0.0.1:1"), 1.0)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (
            "adapters are loaded from below /home/frank/other only",
            "FOLDER is above /home/frank/runs",
        ),
        ("the adapter `rerank` would be one more than the maximum of 8 adapters in memory", "raise `--max-adapters`"),
        ("/home/frank/runs: the adapter's rank is 32; the maximum is 16", "`--max-adapter-rank`"),
        ("No adapter found for '/home/frank/runs'", "under the same path"),
    ],
)
def test_our_own_servers_refusals_have_the_advice_that_helps(error, fix):
    assert fix in _own_advice(ModelError(error, kind="request"), Path("/home/frank/runs"))


@pytest.mark.parametrize("name", ["sums", "a b", "-x-", "\u8bad\u7ec3", "n" * 300])
def test_adapters_have_names_that_our_own_server_takes(name, tmp_path):
    assert ADAPTER_NAME.fullmatch(f"{_owner_of(Recipe(name=name, env='e'), tmp_path)}-000001-{'a' * 16}")


async def test_several_servers_get_every_adapter_and_one_that_comes_back_gets_it_before_requests(tmp_path):
    mortal = serving()
    async with serving() as kept:
        await mortal.__aenter__()
        config = RemoteConfig(model="m", url=f"{mortal.url},{kept.url}", dialect="vllm")
        async with open_adapted(config, "run", environ={}, patience=Patience(0.0)) as model:
            await model.load(1, folder(tmp_path))
            assert len(mortal.adapters) == 1
            assert mortal.adapters == kept.adapters
            first = await model.sample(PROMPT, GOOD, stop_ids=[END], session="a")
            assert first.replica.expected_tokens == 0
            again = await model.sample(PROMPT, GOOD, stop_ids=[END], session="a")
            assert (again.replica.name, again.replica.expected_tokens) == (first.replica.name, len(PROMPT))
            await mortal.__aexit__()
            await model.load(2, folder(tmp_path, "b"))  # one server is enough
            assert len(kept.adapters) == 1
            newer = await model.sample(PROMPT, GOOD, stop_ids=[END], session="b")
            assert (newer.replica.name, newer.replica.expected_tokens, newer.versions) == (kept.url, 0, ((3, 2),))
            async with serving(port=mortal.port) as back:
                with anyio.fail_after(20):
                    while newer.replica.name != back.url:  # probes are in the background
                        newer = await model.sample([len(kept.requests)] * 64, GOOD, stop_ids=[END])
                assert back.adapters == kept.adapters
                assert newer.versions == ((3, 2),)


async def test_a_rollout_that_ended_is_not_expected_back_at_its_server(tmp_path):
    async with serving() as one, serving() as other, two(one, other) as tokens:
        model = AdaptedTokens(tokens, "run", Patience(0.0))
        await model.load(1, folder(tmp_path))
        await model.sample(PROMPT, GOOD, stop_ids=[END], session="a")
        assert sum(replica.num_waiting for replica in tokens.router.replicas) == 1
        await model.release("a")
        assert sum(replica.num_waiting for replica in tokens.router.replicas) == 0


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_that_is_unavailable_while_another_takes_an_adapter_gets_it_later(tmp_path, status):
    refusals = [(status, "starting")]
    starting = serving(lambda _name: refusals.pop() if refusals else None)
    async with starting as late, serving() as kept, two(late, kept) as tokens:
        model = AdaptedTokens(tokens, "run", Patience(0.0))
        await model.load(1, folder(tmp_path))
        assert [replica.is_up for replica in tokens.router.replicas] == [False, True]
        with anyio.fail_after(20):
            while not tokens.router.replicas[0].is_up:  # noqa: ASYNC110 - a probe sets no event
                await anyio.sleep(0.005)
        assert len(late.adapters) == 1
        assert late.adapters == kept.adapters


async def test_a_server_that_refuses_an_adapter_is_an_error_although_another_takes_it(tmp_path):
    async with serving(lambda _name: (500, "LoRA is not enabled")) as engine, serving() as kept, two(engine, kept) as tokens:
        with pytest.raises(ModelError, match="--enable-lora"):
            await AdaptedTokens(tokens, "run", Patience(0.0)).load(1, folder(tmp_path))


async def test_the_models_are_those_of_the_servers_that_answer():
    engines = [serving(), serving()]
    for engine in engines:
        await engine.__aenter__()
    async with two(*engines) as tokens:
        await engines[0].__aexit__()
        assert [model.id for model in await tokens.list_models()] == ["m"]
        assert [replica.is_up for replica in tokens.router.replicas] == [False, True]
        await engines[1].__aexit__()
        with pytest.raises(ModelError, match="no replica answers"):
            await tokens.list_models()


async def test_an_adapter_that_no_server_takes_is_an_error(tmp_path):
    engines = [serving(), serving()]
    for engine in engines:
        await engine.__aenter__()
    config = RemoteConfig(model="m", url=",".join(engine.url for engine in engines), dialect="vllm")
    async with open_adapted(config, "run", environ={}, patience=Patience(0.0)) as model:
        for engine in engines:
            await engine.__aexit__()
        with pytest.raises(ModelError) as caught:
            await model.load(1, folder(tmp_path))
        assert caught.value.kind == "connect"
