"""What every `ports.TokenModel` promises. A new one joins by adding how it is opened to `OPENED`."""

from contextlib import asynccontextmanager

import anyio
import msgspec
import numpy as np
import pytest
import torch

from builders.tiny_models import VOCABULARY, tiny_shape
from fakes.engines import FakeEngine
from fakes.toy_tokens import ScriptedTokens, ToyRenderer, ToyWords
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.model.endpoint.replicated import open_replicated_tokens
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.tokens import RemoteConfig, open_remote
from sandlot.model.engine.local import LocalConfig, open_local
from sandlot.model.nn.decoder import Decoder
from sandlot.model.wire.listening import serve_app
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.server import ModelServer

PROMPT = [1, 2, 3]
EVERY_ID = range(512)


@asynccontextmanager
async def scripted():
    yield ScriptedTokens(context=512)


class Words(ToyWords):
    size = VOCABULARY

    def decode(self, ids) -> str:
        return super().decode([each for each in ids if each < ToyWords.size])


@asynccontextmanager
async def behind_our_server(opening, tmp_path):
    path = tmp_path / "m.sock"
    async with opening as inner:
        app = model_app(ModelServer(inner, ToyRenderer(), Words(), vocabulary=Words.size))
        async with serve_app(app, unix=path, drain_s=5), open_remote(RemoteConfig(unix=path, name="toy")) as model:
            yield model


@asynccontextmanager
async def over(dialect):
    async with FakeEngine(ScriptedTokens(context=512)) as engine:
        config = RemoteConfig(model="m", url=engine.url, dialect=dialect)
        async with open_remote(config, environ={}, patience=Patience(0.0)) as model:
            yield model


@asynccontextmanager
async def over_two_servers():
    async with FakeEngine(ScriptedTokens(context=512)) as one, FakeEngine(ScriptedTokens(context=512)) as other:
        configs = [RemoteConfig(model="m", url=engine.url, dialect="vllm") for engine in (one, other)]
        async with open_replicated_tokens(configs, environ={}, patience=Patience(0.0)) as model:
            yield model


def local():
    torch.manual_seed(7)
    return open_local(Decoder(tiny_shape()), name="tiny", config=LocalConfig(kv_bytes=2**20, max_batch=4, chunk=64))


OPENED = {
    "local engine": lambda tmp_path: local(),
    "local engine behind our server": lambda tmp_path: behind_our_server(local(), tmp_path),
    "scripted": lambda tmp_path: scripted(),
    "our server": lambda tmp_path: behind_our_server(scripted(), tmp_path),
    "vllm": lambda tmp_path: over("vllm"),
    "sglang": lambda tmp_path: over("sglang"),
    "two servers": lambda tmp_path: over_two_servers(),
}


@pytest.fixture(params=OPENED)
async def model(request, tmp_path):
    async with OPENED[request.param](tmp_path) as opened:
        yield opened


def whole(sampled: Sampled) -> list[int]:
    """The ids, after everything that must hold of any completion."""
    ids, logprobs = np.frombuffer(sampled.ids, "<i4"), np.frombuffer(sampled.logprobs, "<f4")
    assert len(ids) == len(logprobs) == sum(count for count, _ in sampled.versions) > 0
    assert np.isfinite(logprobs).all()
    assert (logprobs <= 0).all()
    assert sampled.stop in {"stop", "length"}
    assert sampled.cached >= 0
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sampled), type=Sampled) == sampled
    return ids.tolist()


@pytest.mark.parametrize("most", [1, 2, 17])
async def test_no_more_tokens_come_than_were_asked_for(model, most):
    sampled = await model.sample(PROMPT, Sampling(max_tokens=most))
    assert len(whole(sampled)) == most
    assert sampled.stop == "length"


async def test_the_stop_token_that_was_sampled_is_one_of_them(model):
    sampled = await model.sample(PROMPT, Sampling(max_tokens=9), stop_ids=EVERY_ID)
    assert len(whole(sampled)) == 1
    assert sampled.stop == "stop"


async def test_without_a_cap_it_ends_at_the_latest_with_the_context(model):
    prompt = [1] * (model.context - 20)
    assert len(whole(await model.sample(prompt, Sampling()))) <= 20


@pytest.mark.parametrize("excess", [0, 1, 1000])
async def test_a_prompt_that_leaves_no_room_is_a_context_error(model, excess):
    with pytest.raises(ModelError) as caught:
        await model.sample([1] * (model.context + excess), Sampling(max_tokens=1))
    assert caught.value.kind == "context"


async def test_the_same_seed_samples_the_same(model):
    sampling = Sampling(max_tokens=8, seed=3)
    first, second = [await model.sample(PROMPT, sampling) for _ in range(2)]
    assert (first.ids, first.stop) == (second.ids, second.stop)


async def test_many_may_be_sampled_at_once(model):
    done = []

    async def one(number):
        done.append((number, len(whole(await model.sample([1] * number, Sampling(max_tokens=number), session=str(number))))))

    async with anyio.create_task_group() as group:
        for number in range(1, 15):
            group.start_soon(one, number)
    assert sorted(done) == [(number, number) for number in range(1, 15)]


async def test_a_cancelled_completion_leaves_the_model_usable(model):
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(model.sample, PROMPT, Sampling())
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert whole(await model.sample(PROMPT, Sampling(max_tokens=2)))


async def test_any_session_can_be_released(model):
    await model.sample(PROMPT, Sampling(max_tokens=1), session="a/b c")
    await model.release("a/b c")
    await model.release("never seen")
    assert whole(await model.sample(PROMPT, Sampling(max_tokens=1), session="a/b c"))


async def test_it_says_who_it_is_and_how_much_it_takes(model):
    assert model.name
    assert model.name.isprintable()
    assert model.context == 512
