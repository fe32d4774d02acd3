"""Adapters of a model server: named by requests, loaded and removed by vLLM's routes, and never from where they must not be."""

import json
import os
import pickle
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest
import torch
from safetensors.torch import load_file, save_file

from builders.adapters import merged, write_adapter
from fakes.engine_twin import CONTEXT, VOCABULARY, prompt, sharp, twin
from fakes.toy_tokens import ToyRenderer, ToyWords
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.tokens import unpacked_ids
from sandlot.model.endpoint.tokens import RemoteConfig, open_remote
from sandlot.model.engine.local import LocalConfig, open_local
from sandlot.model.engine.request import Request
from sandlot.model.wire.listening import serve_app
from sandlot.serve.model.adapters import ServedAdapters
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.serve import ModelPlace, ModelShare, serve_model
from sandlot.serve.model.server import ModelServer

BASE = sharp(0)
CONFIG = LocalConfig(kv_bytes=2**20, block_size=4, max_batch=4, chunk=16, context=CONTEXT, max_adapters=2, max_adapter_rank=4)
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


class Outside:
    """A pickle that says so when it is read."""

    def __reduce__(self):
        return os.system, ("touch /tmp/sandlot-adapter-was-unpickled",)


@pytest.fixture
def allowed(tmp_path):
    for seed, name in enumerate(("one", "two", "three"), 1):
        write_adapter(BASE, tmp_path / "allowed" / name, seed=seed)
    return tmp_path / "allowed"


@asynccontextmanager
async def served(loads_from, *, adapters=True, begins=()):
    async with open_local(BASE, name="base", config=CONFIG) as model:
        for name, folder in begins:
            await model.load_adapter(name, folder)
        server = ModelServer(
            model,
            ToyRenderer(),
            ToyWords(),
            vocabulary=VOCABULARY,
            adapters=ServedAdapters(model, loads_from) if adapters else None,
        )
        async with serve_app(model_app(server), drain_s=5) as address, aiohttp.ClientSession(address) as client:
            yield client, model, str(address)


async def post(client, path, body):
    async with client.post(path, data=json.dumps(body), headers={"Content-Type": "application/json"}) as response:
        text = await response.text()
        return response.status, text if response.content_type == "text/plain" else json.loads(text)


async def load(client, name, path, **more):
    return await post(client, LOAD, {"lora_name": name, "lora_path": str(path), **more})


async def tokens(client, name):
    body = {
        "model": name,
        "prompt": prompt(1, 9),
        "max_tokens": 6,
        "temperature": 0,
        "return_token_ids": True,
        "ignore_eos": True,
    }
    status, reply = await post(client, "/v1/completions", body)
    assert status == 200, reply
    assert reply["model"] == (name or "base")
    return reply["choices"][0]["token_ids"], reply["choices"][0]["weight_versions"]


def expected(whole):
    return twin(whole, Request(ids=prompt(1, 9), max_tokens=6, temperature=0.0))[0]


async def test_a_request_names_an_adapter_and_models_are_listed(allowed):
    async with served(allowed, begins=[("first", allowed / "one")]) as (client, _, _):
        assert await tokens(client, "base") == (expected(BASE), [[6, 0]])
        assert await tokens(client, "") == (expected(BASE), [[6, 0]])
        assert await tokens(client, "first") == (expected(merged(BASE, allowed / "one")), [[6, 1]])
        assert (await load(client, "second", "two"))[0] == 200
        assert await tokens(client, "second") == (expected(merged(BASE, allowed / "two")), [[6, 2]])
        async with client.get("/v1/models") as response:
            cards = (await response.json())["data"]
        assert [(card["id"], card.get("parent"), card["max_model_len"]) for card in cards] == [
            ("base", None, CONTEXT),
            ("first", "base", CONTEXT),
            ("second", "base", CONTEXT),
        ]
        status, reply = await post(client, "/v1/completions", {"model": "third", "prompt": [1]})
        assert (status, reply["error"]["message"]) == (404, "`model`: there is no model `third`; served: base, first, second")
        status, reply = await post(client, "/v1/chat/completions", {"model": "x", "messages": [{"role": "user", "content": "a"}]})
        assert status == 404


async def test_an_adapter_is_replaced_and_removed_while_it_serves(allowed):
    async with served(allowed) as (client, _, _):
        await load(client, "mine", allowed / "one")
        status, reply = await load(client, "mine", allowed / "two")
        assert (status, "already been loaded" in reply["error"]["message"]) == (400, True)
        status, said = await load(client, "mine", allowed / "two", load_inplace=True)
        assert (status, said) == (200, "Success: LoRA adapter 'mine' added successfully, as version 2.")
        assert await tokens(client, "mine") == (expected(merged(BASE, allowed / "two")), [[6, 2]])
        assert (await post(client, UNLOAD, {"lora_name": "mine"}))[0] == 200
        status, reply = await post(client, UNLOAD, {"lora_name": "mine"})
        assert (status, "cannot be found" in reply["error"]["message"]) == (404, True)
        status, _ = await post(client, "/v1/completions", {"model": "mine", "prompt": [1]})
        assert status == 404, "the base model must not answer for an adapter that is gone"
        assert await tokens(client, "base") == (expected(BASE), [[6, 0]])


async def test_our_own_client_samples_from_an_adapter(allowed):
    async with (
        served(None, begins=[("mine", allowed / "one")]) as (_, _, url),
        open_remote(RemoteConfig(model="mine", url=url), environ={}) as remote,
        open_remote(RemoteConfig(url=url), environ={}) as base,
    ):
        greedy = Sampling(temperature=0.0, max_tokens=6)
        assert unpacked_ids((await remote.sample(prompt(1, 9), greedy)).ids) == expected(merged(BASE, allowed / "one"))
        assert unpacked_ids((await base.sample(prompt(1, 9), greedy)).ids) == expected(BASE)


async def test_runtime_loads_need_the_operators_folder(allowed):
    async with served(None, begins=[("mine", allowed / "one")]) as (client, _, _):
        for path, body in ((LOAD, {"lora_name": "a", "lora_path": str(allowed / "two")}), (UNLOAD, {"lora_name": "mine"})):
            status, reply = await post(client, path, body)
            assert (status, "--adapters-from" in reply["error"]["message"]) == (404, True)
        assert (await tokens(client, "mine"))[1] == [[6, 1]]
    async with served(None, adapters=False) as (client, _, _):
        assert (await load(client, "a", allowed / "two"))[0] == 404
        assert (await post(client, "/v1/completions", {"model": "any", "prompt": [1], "ignore_eos": True}))[0] == 200


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("a", "../secret", 403),
        ("a", "one/../../secret", 403),
        ("a", "{outside}", 403),
        ("a", "/", 403),
        ("a", "/proc/self/root{outside}", 403),
        ("a", "link", 403),
        ("a", "linked-files", 403),
        ("a", "loop", 400),
        ("a", "one/adapter_config.json", 404),
        ("a", "missing", 404),
        ("a", "", 400),
        ("a", "one\0", 400),
        ("a", "x" * 5000, 400),
        ("a", "x" * 300, 400),
        ("base", "one", 400),
        ("", "one", 400),
        ("-rf", "one", 400),
        ("a\nb", "one", 400),
        ("a" * 129, "one", 400),
        ("a\u202eb", "one", 400),
    ],
)
async def test_paths_outside_and_names_that_are_none_are_refused(name, path, status, allowed, tmp_path):
    outside = write_adapter(BASE, tmp_path / "secret", seed=9)
    (allowed / "link").symlink_to(outside)
    (allowed / "loop").symlink_to(allowed / "loop")
    (allowed / "linked-files").mkdir()
    for file in outside.iterdir():
        (allowed / "linked-files" / file.name).symlink_to(file)
    async with served(allowed) as (client, model, _):
        found, reply = await load(client, name, path.replace("{outside}", str(outside)))
        assert found == status, reply
        assert not model.adapters
        assert (await tokens(client, "base"))[1] == [[6, 0]]


def config(**change):
    def spoil(folder):
        file = folder / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))

    return spoil


def tensors(change):
    def spoil(folder):
        file = folder / "adapter_model.safetensors"
        save_file(change(load_file(file)), file)

    return spoil


def first(value):
    def change(found):
        found[min(found)].view(-1)[0] = value
        return found

    return change


def as_pickle(folder):
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Outside()))


def disguised(folder):
    (folder / "adapter_model.safetensors").write_bytes(pickle.dumps(Outside()))


def cut(folder):
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def pipe(folder):
    (folder / "adapter_model.safetensors").unlink()
    os.mkfifo(folder / "adapter_model.safetensors")


def raw_header(text):
    def spoil(folder):
        (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)

    return spoil


def sparse(name, size):
    def spoil(folder):
        os.truncate(folder / name, size)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (config(r=5), "rank is 5; the maximum is 4"),
        (config(r=10**9), "r is 1000000000"),
        (config(r=2), "lora_A"),
        (config(r=True), "r is True"),
        (config(lora_alpha=1e300), "not finite"),
        (config(peft_type="IA3"), "IA3"),
        (config(use_dora=True), "use_dora"),
        (config(modules_to_save=["lm_head"]), "modules_to_save"),
        (lambda folder: (folder / "adapter_config.json").write_text("[" * 100_000), "not JSON"),
        (lambda folder: (folder / "adapter_config.json").unlink(), "no file"),
        (tensors(first(float("nan"))), "not finite"),
        (tensors(first(float("inf"))), "not finite"),
        (tensors(lambda found: {}), "no tensors"),
        (tensors(lambda found: {name: found[name] for name in found if name != min(found)}), "without its other half"),
        (tensors(lambda found: found | {"base_model.model.lm_head.lora_A.weight": torch.zeros(3, 32)}), "lm_head"),
        (tensors(lambda found: found | {min(found): torch.zeros(3, 31)}), "the model needs"),
        (tensors(lambda found: found | {min(found): torch.zeros(3, 32, dtype=torch.int64)}), "type I64"),
        (as_pickle, "pickle"),
        (disguised, "not a valid safetensors file"),
        (cut, "not a valid safetensors file"),
        (pipe, "no such file"),
        (raw_header(b"{" + b" " * 2**20 + b"}"), "maximum"),
        (raw_header(b"{" + b" " * 20_000 + b"}"), "its header has 20002 bytes"),
        (raw_header(b'{"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'), "`x`: the model has no such projection"),
        (raw_header(b"[]"), "not a valid safetensors file"),
        (raw_header(b"[" * 9_000), "not a valid safetensors file"),
        (sparse("adapter_model.safetensors", 2**40), "maximum"),
        (sparse("adapter_config.json", 2**30), "the maximum is 1048576"),
        (config(init_lora_weights="pissa"), "init_lora_weights"),
    ],
)  # fmt: skip
async def test_a_folder_that_is_no_adapter_of_this_model_is_refused_by_what_is_wrong(spoil, named, allowed):
    spoil(allowed / "one")
    async with served(allowed) as (client, model, _):
        with anyio.fail_after(60):
            status, reply = await load(client, "bad", "one")
        assert (status, named in reply["error"]["message"]) == (400, True), reply
        assert not model.adapters
        assert not os.path.exists("/tmp/sandlot-adapter-was-unpickled")  # noqa: PTH110 - what the pickle would do
        assert await tokens(client, "base") == (expected(BASE), [[6, 0]])


async def test_a_folder_that_becomes_a_link_while_its_load_waits_is_refused(allowed, tmp_path):
    outside = write_adapter(BASE, tmp_path / "secret", seed=9)
    said = []
    async with served(allowed) as (client, model, _):
        async with anyio.create_task_group() as group, model._loading:

            async def ask():
                said.append(await load(client, "a", "one"))

            group.start_soon(ask)
            while not model._loading.statistics().tasks_waiting:  # noqa: ASYNC110 - a lock has no event for it
                await anyio.sleep(0.01)
            (allowed / "one").rename(allowed / "old")
            (allowed / "one").symlink_to(outside)
        assert said[0][0] == 400
        assert "is not below" in said[0][1]["error"]["message"]
        assert not model.adapters


async def test_a_server_with_adapters_does_not_promise_events_of_its_cache(allowed):
    with pytest.raises(ConfigError, match="--kv-events does not say whose blocks"):
        await serve_model("no such model", ModelPlace(kv_events=True), ModelShare(adapters_from=allowed))


async def test_a_gpu_refuses_adapters_before_anything_is_loaded(allowed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for share in (ModelShare(adapters=(("a", allowed / "one"),)), ModelShare(adapters_from=allowed)):
        with pytest.raises(ConfigError, match="are for the CPU"):
            await serve_model("no-such-model", share=share)


async def test_no_more_adapters_than_fit(allowed):
    async with served(allowed) as (client, model, _):
        assert [(await load(client, name, name))[0] for name in ("one", "two")] == [200, 200]
        status, reply = await load(client, "three", "three")
        assert (status, "maximum of 2 adapters" in reply["error"]["message"]) == (400, True)
        assert list(model.adapters) == ["one", "two"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"lora_name": 1, "lora_path": "x"}', b"[" * 70_000, b"\xff" * 100_000])
async def test_a_body_that_names_nothing_is_refused(body, allowed):
    async with served(allowed) as (client, _, _):
        for path in (LOAD, UNLOAD):
            async with client.post(path, data=body) as response:
                assert response.status in {400, 413}
