"""Our token models, held to the suite that we ship."""

from contextlib import asynccontextmanager

import pytest
import torch

from builders.tiny_models import VOCABULARY, tiny_shape
from fakes.engines import FakeEngine
from fakes.toy_tokens import ScriptedTokens, ToyRenderer, ToyWords
from sandlot.model.endpoint.replicated import open_replicated_tokens
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.tokens import RemoteConfig, open_remote
from sandlot.model.engine.local import LocalConfig, open_local
from sandlot.model.nn.decoder import Decoder
from sandlot.model.wire.listening import serve_app
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.server import ModelServer
from sandlot.testing.token_model import *


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


async def test_the_context_is_the_one_it_was_opened_with(model):
    assert model.context == 512
