"""Token clients: what goes out, and what is never believed."""

import anyio
import pytest

from fakes.engines import FakeEngine
from fakes.toy_tokens import END, ScriptedTokens, never
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.spend import Spend, SpendCaps, capped_tokens
from sandlot.model.endpoint.tokens import RemoteConfig, open_remote, remote_config
from sandlot.model.wire.server_load import ServerLoad, load_of

HOSTILE = {
    "no ids": lambda choice: choice.pop("token_ids"),
    "one id too few": lambda choice: choice["token_ids"].pop(),
    "one id too many": lambda choice: choice["token_ids"].append(5),
    "an id that is text": lambda choice: choice["token_ids"].__setitem__(0, "5"),
    "an id below 0": lambda choice: choice["token_ids"].__setitem__(0, -1),
    "an id beyond 32 bits": lambda choice: choice["token_ids"].__setitem__(0, 2**31),
    "another prompt": lambda choice: choice.__setitem__("prompt_token_ids", [1, 3]),
    "no logprobs": lambda choice: choice.pop("logprobs"),
    "a missing logprob": lambda choice: choice["logprobs"]["token_logprobs"].__setitem__(0, None),
    "a logprob that is not a number": lambda choice: choice["logprobs"]["token_logprobs"].__setitem__(0, float("nan")),
    "an endless logprob": lambda choice: choice["logprobs"]["token_logprobs"].__setitem__(0, float("-inf")),
    "a probability over 1": lambda choice: choice["logprobs"]["token_logprobs"].__setitem__(0, 0.5),
    "a stop token that was trimmed": lambda choice: (choice["token_ids"].pop(), choice["logprobs"]["token_logprobs"].pop()),
    "versions that do not add up": lambda choice: choice.__setitem__("weight_versions", [[1, 0]]),
    "a version below 0": lambda choice: choice.__setitem__("weight_versions", [[3, -1]]),
    "nothing at all": lambda choice: choice.update(token_ids=[], logprobs={"token_logprobs": []}),
    "another reason to stop": lambda choice: choice.__setitem__("finish_reason", "abort"),
    "no reason to stop": lambda choice: choice.__setitem__("finish_reason", None),
}


def opened(engine, dialect="vllm", sampling=None):
    config = RemoteConfig(model="m", url=engine.url + "/v1", dialect=dialect)
    return open_remote(config, sampling, environ={}, patience=Patience(0.0))


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
async def test_a_reply_that_cannot_be_true_is_a_model_error(spoil):
    def spoiled(body):
        spoil(body["choices"][0])
        return body

    async with FakeEngine(ScriptedTokens("ok"), spoil=spoiled) as engine, opened(engine) as model:
        with pytest.raises(ModelError) as caught:
            await model.sample([1, 2], Sampling(max_tokens=9), stop_ids=[END])
    assert caught.value.kind in {"malformed", "server"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"choices": []},
        {"choices": [{}, {}]},
        {"choices": "x"},
        {"error": "out of memory"},
        {"usage": {"prompt_tokens": 99}},
    ],
)
async def test_any_other_reply_is_one_too(body):
    def spoiled(good):
        return good | body if isinstance(body, dict) and "usage" in body else body

    async with FakeEngine(ScriptedTokens("ok"), spoil=spoiled) as engine, opened(engine) as model:
        with pytest.raises(ModelError) as caught:
            await model.sample([1, 2], Sampling(max_tokens=9), stop_ids=[END])
    assert caught.value.kind == "malformed"


SGLANG = {
    "no meta": lambda body: body.pop("meta_info"),
    "ids that differ": lambda body: body["output_ids"].__setitem__(0, 9),
    "a missing logprob": lambda body: body["meta_info"]["output_token_logprobs"][0].__setitem__(0, None),
    "a pair for a triple": lambda body: body["meta_info"]["output_token_logprobs"][0].pop(),
    "a word for a version": lambda body: body["meta_info"].__setitem__("weight_version", "newest"),
    "an abort": lambda body: body["meta_info"]["finish_reason"].__setitem__("type", "abort"),
    "a finish that is text": lambda body: body["meta_info"].__setitem__("finish_reason", "stop"),
    "another prompt": lambda body: body["meta_info"].__setitem__("prompt_tokens", 1),
    "more cached than there was": lambda body: body["meta_info"].__setitem__("cached_tokens", 3),
}


@pytest.mark.parametrize("spoil", SGLANG.values(), ids=SGLANG)
async def test_sglang_is_believed_no_more_than_that(spoil):
    def spoiled(body):
        spoil(body)
        return body

    async with FakeEngine(ScriptedTokens("ok"), spoil=spoiled) as engine, opened(engine, "sglang") as model:
        with pytest.raises(ModelError) as caught:
            await model.sample([1, 2], Sampling(max_tokens=9), stop_ids=[END])
    assert caught.value.kind in {"malformed", "server"}


async def test_vllm_is_asked_for_exact_tokens_and_its_own_end_is_off():
    async with FakeEngine(ScriptedTokens("ok")) as engine, opened(engine) as model:
        sampling = Sampling(max_tokens=9, top_k=5, seed=4, stop=("x",))
        sampled = await model.sample([1, 2], sampling, stop_ids=[END], session="s")
    (body,) = engine.requests
    assert body["prompt"] == [1, 2]
    assert body["stop_token_ids"] == [END]
    assert (body["return_token_ids"], body["ignore_eos"], body["include_stop_str_in_output"]) == (True, True, True)
    assert (body["top_k"], body["seed"], body["max_tokens"], body["stop"]) == (5, 4, 9, ["x"])
    assert "session" not in body
    assert sampled.versions == ((3, 0),)


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_nothing_about_the_distribution_is_left_to_a_servers_defaults(dialect):
    async with FakeEngine(ScriptedTokens("ok")) as engine, opened(engine, dialect) as model:
        await model.sample([1, 2], Sampling(max_tokens=9), stop_ids=[END])
    (body,) = engine.requests
    said = body if dialect == "vllm" else body["sampling_params"]
    assert (said["temperature"], said["top_p"], said["top_k"], said["min_p"]) == (1.0, 1.0, -1, 0)
    assert (said["repetition_penalty"], said["presence_penalty"], said["frequency_penalty"]) == (1, 0, 0)


async def test_sglangs_weight_version_is_kept():
    async with FakeEngine(ScriptedTokens("ok")) as engine, opened(engine, "sglang") as model:
        assert (await model.sample([1, 2], Sampling(max_tokens=9), stop_ids=[END])).versions == ((3, 7),)
    (body,) = engine.requests
    assert body["return_logprob"] is True
    assert body["sampling_params"]["no_stop_trim"] is True


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.5), Sampling(top_p=0.9), Sampling(top_k=5)])
async def test_logprobs_of_another_distribution_are_refused_at_the_door(sampling):
    async with FakeEngine(ScriptedTokens(), raw_logprobs=True) as engine:
        with pytest.raises(ConfigError, match="processed_logprobs"):
            async with opened(engine, sampling=sampling):
                pass
    async with FakeEngine(ScriptedTokens()) as engine, opened(engine, sampling=sampling):
        pass


async def test_plain_sampling_needs_no_probe_and_sglang_cannot_do_top_p():
    async with FakeEngine(ScriptedTokens(), raw_logprobs=True) as engine:
        async with opened(engine, sampling=Sampling()):
            assert engine.requests == []
        with pytest.raises(ConfigError, match="top-p"):
            async with opened(engine, "sglang", Sampling(top_p=0.5)):
                pass


async def test_a_model_the_server_does_not_have_is_refused_with_those_it_has():
    async with FakeEngine(ScriptedTokens()) as engine:
        with pytest.raises(ConfigError, match="it has: m"):
            async with open_remote(RemoteConfig(model="other", url=engine.url, dialect="vllm"), environ={}):
                pass


async def test_a_cancelled_request_ends_at_the_server():
    model = ScriptedTokens(never)
    async with FakeEngine(model) as engine, opened(engine) as remote:
        async with anyio.create_task_group() as group:
            group.start_soon(remote.sample, [1], Sampling())
            await model.begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await model.freed.wait()


@pytest.mark.parametrize("rest", ["", "m", "m@", "@", "m@ftp://x", "m@httpx"])
def test_a_name_without_an_address_is_refused(rest):
    with pytest.raises(ConfigError, match="NAME@http"):
        remote_config("vllm", rest)


def test_a_name_shows_no_secret():
    assert remote_config("vllm", "m@http://user:secret@host:1/v1?key=abc").public_name == "vllm:m@http://host:1/v1"


async def test_the_load_of_a_server_is_what_its_metrics_say_through_every_wrapper_and_unknown_without_them():
    async with FakeEngine(ScriptedTokens("ok")) as engine, opened(engine) as model:
        assert await model.server_load() == ServerLoad()
        engine.metrics = "vllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n"
        ask = load_of(capped_tokens(model, Spend(SpendCaps())))
        assert ask is not None
        assert await ask() == ServerLoad(queued=3, cache_used=0.5)
