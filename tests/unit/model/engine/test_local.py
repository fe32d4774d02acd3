"""The engine's async face: many tasks, one thread."""

import threading
import time

import anyio
import msgspec
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from fakes.engine_twin import CONTEXT, VOCABULARY, decoder, prompt, spoken, twin
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampling
from sandlot.model.engine.local import LocalConfig, open_local, plain_runner
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.nn.folder import save_folder
from sandlot.model.nn.packed import PackedLinear, can_pack

CONFIG = LocalConfig(kv_bytes=2**20, block_size=4, max_batch=4, chunk=16, context=CONTEXT)
GREEDY = Sampling(temperature=0.0, max_tokens=8)


def ids_of(sampled) -> list[int]:
    return np.frombuffer(sampled.ids, "<i4").tolist()


async def free_blocks(model) -> float:
    """Blocks that nobody runs on, once what was cancelled has been heard of."""
    await model.release("")
    await model.sample([1], Sampling(max_tokens=1))
    metrics = model.metrics()
    return metrics["kv_blocks"] - metrics["kv_blocks_running"]


async def test_many_tasks_get_the_twins_tokens():
    weights = decoder()
    answers: dict[int, list[int]] = {}

    async def ask(model, seed: int) -> None:
        answers[seed] = ids_of(await model.sample(prompt(seed, 9), GREEDY))

    async with open_local(weights, config=CONFIG) as model, anyio.create_task_group() as group:
        for seed in range(12):
            group.start_soon(ask, model, seed)
    for seed in range(12):
        assert answers[seed] == twin(weights, Request(ids=prompt(seed, 9), max_tokens=8, temperature=0.0))[0]


async def test_a_second_turn_finds_the_first_in_the_tree():
    async with open_local(decoder(), config=CONFIG) as model:
        first = await model.sample(prompt(0, 9), GREEDY, session="a")
        history = [*prompt(0, 9), *ids_of(first), 3, 4]
        second = await model.sample(history, GREEDY, session="a")
        assert second.cached == len(history) - 3  # the last sampled token is not in KV yet
        assert model.metrics()["kv_blocks_pinned"] > 0
        await model.release("a")
        await free_blocks(model)
        assert model.metrics()["kv_blocks_pinned"] == 0


async def test_cancelling_frees_the_blocks():
    async with open_local(decoder(), config=CONFIG) as model:
        with anyio.move_on_after(0.05):
            while True:
                await model.sample(prompt(1, 40), Sampling(max_tokens=50))
        with anyio.fail_after(10):
            assert await free_blocks(model) == model.metrics()["kv_blocks"]


async def test_too_long_a_prompt_is_a_context_error():
    async with open_local(decoder(), config=CONFIG) as model:
        with pytest.raises(ModelError) as caught:
            await model.sample([1] * CONTEXT, GREEDY)
        assert caught.value.kind == "context"


@pytest.mark.parametrize(
    ("ids", "sampling"),
    [
        ([], GREEDY),
        ([VOCABULARY], GREEDY),
        ([-1], GREEDY),
        ([1], Sampling(temperature=-1.0)),
        ([1], Sampling(top_p=0.0)),
        ([1], Sampling(max_tokens=0)),
        ([1], Sampling(temperature=float("nan"))),
        ([1], Sampling(stop=("x",))),
    ],
)
async def test_what_cannot_be_served_is_refused_and_the_next_is_served(ids, sampling):
    async with open_local(decoder(), config=CONFIG) as model:
        with pytest.raises(ModelError) as caught:
            await model.sample(ids, sampling)
        assert caught.value.kind == "request"
        assert len(ids_of(await model.sample([1], GREEDY))) == 8


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
async def test_a_stop_token_there_is_none_of_kills_no_engine(token):
    async with open_local(decoder(), config=CONFIG) as model:
        with pytest.raises(ModelError) as caught:
            await model.sample([1], GREEDY, stop_ids=[token])
        assert caught.value.kind == "request"
        assert len(ids_of(await model.sample([1], GREEDY))) == 8


async def test_no_cap_means_up_to_the_context():
    async with open_local(decoder(), config=CONFIG) as model:
        sampled = await model.sample([1, 2], Sampling())
        assert len(ids_of(sampled)) == CONTEXT - 2
        assert sampled.stop == "length"


async def test_stop_texts_stay_in_the_output():
    weights = decoder()
    everything = twin(weights, Request(ids=[5, 6], max_tokens=30, temperature=0.0))[0]
    text = spoken(everything)[3:5]
    async with open_local(weights, config=CONFIG, decode=spoken) as model:
        sampled = await model.sample([5, 6], Sampling(temperature=0.0, stop=(text,)))
    assert sampled.stop == "stop"
    assert spoken(ids_of(sampled)).endswith(text)


async def test_an_update_changes_the_weights_and_the_version():
    old, new = decoder(0), decoder(1)
    async with open_local(decoder(0), config=CONFIG) as model:
        before = await model.sample([1, 2, 3], GREEDY)
        await model.update(7, new.state_dict())
        after = await model.sample([1, 2, 3], GREEDY)
        assert model.metrics()["version"] == 7
    request = Request(ids=[1, 2, 3], max_tokens=8, temperature=0.0)
    assert (ids_of(before), before.versions) == (twin(old, request)[0], ((8, 0),))
    assert (ids_of(after), after.versions) == (twin(new, request)[0], ((8, 7),))
    assert after.cached == 0


async def test_bf16_layers_are_packed_and_follow_an_update():
    one, other = decoder(0).bfloat16(), decoder(1).bfloat16()
    weights = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    async with open_local(one, config=CONFIG) as model, open_local(other, config=CONFIG) as fresh:
        assert isinstance(one.blocks[0].qkv, PackedLinear) == can_pack(one.embedding.weight)
        before = await model.sample([1, 2], GREEDY)
        await model.update(1, weights)
        after = await model.sample([1, 2], GREEDY)
        assert after.ids == (await fresh.sample([1, 2], GREEDY)).ids != before.ids


async def test_weights_that_do_not_fit_are_refused_whole():
    async with open_local(decoder(), config=CONFIG) as model:
        state = decoder(1).state_dict()
        with pytest.raises(ModelError, match="do not match the model"):
            await model.update(1, {**state, "norm.weight": torch.ones(3)})
        with pytest.raises(ModelError, match="do not match the model"):
            await model.update(1, {})
        sampled = await model.sample([1, 2, 3], GREEDY)
    assert ids_of(sampled) == twin(decoder(), Request(ids=[1, 2, 3], max_tokens=8, temperature=0.0))[0]


async def test_a_dead_engine_fails_everyone_and_hangs_nobody():
    failures: list[ModelError] = []

    class Dying:
        def __init__(self, *parts) -> None:
            self._runner = plain_runner(*parts)
            self.cache = self._runner.cache
            self.ahead = self._runner.ahead
            self._left = 5

        def forward(self, batch, ids=None):
            self._left -= 1
            if not self._left:
                raise MemoryError("out of memory")
            return self._runner.forward(batch, ids)

    async def ask(model, seed: int) -> None:
        with pytest.raises(ModelError, match="the engine died: MemoryError") as caught:
            await model.sample(prompt(seed, 9), Sampling(max_tokens=50))
        failures.append(caught.value)

    with anyio.fail_after(10):
        async with open_local(decoder(), config=CONFIG, runner=Dying) as model:
            async with anyio.create_task_group() as group:
                for seed in range(7):
                    group.start_soon(ask, model, seed)
            await ask(model, 7)
    assert len(failures) == 8


async def test_closing_answers_those_who_wait():
    kinds: list[str] = []

    async def ask(model) -> None:
        try:
            await model.sample(prompt(0, 9), Sampling(max_tokens=80))
        except ModelError as error:
            kinds.append(error.kind)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group, open_local(decoder(), config=CONFIG) as model:
            for _ in range(40):
                group.start_soon(ask, model)
            await model.sample([1], Sampling(max_tokens=1))
    assert set(kinds) == {"closed"}


class SlowToFree(list):
    def __del__(self):
        time.sleep(0.3)


async def test_no_thread_outlives_closing():
    """Python may exit at once; a thread that still frees tensors then aborts the process."""
    async with open_local(decoder(), config=CONFIG) as model:
        await model.sample(SlowToFree(prompt(0, 3)), Sampling(max_tokens=1))
    assert not [thread for thread in threading.enumerate() if thread.name == "sandlot-engine"]


async def test_a_folder_brings_its_tokenizer_for_stop_texts(tmp_path):
    weights = decoder()
    save_folder(weights, tmp_path)
    words = {f"w{token}": token for token in range(VOCABULARY)}
    Tokenizer(WordLevel(words, unk_token="w0")).save(str(tmp_path / "tokenizer.json"))
    everything = twin(weights, Request(ids=[5, 6], max_tokens=20, temperature=0.0))[0]
    stop = f"w{everything[3]} w{everything[4]}"
    async with open_local(tmp_path, config=CONFIG) as model:
        assert model.name == str(tmp_path)
        sampled = await model.sample([5, 6], Sampling(temperature=0.0, max_tokens=20, stop=(stop,)))
    assert sampled.stop == "stop"
    assert ids_of(sampled)[-2:] == everything[3:5]


async def test_a_folder_that_cannot_be_loaded_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="loading"):
        async with open_local(tmp_path / "nothing"):
            pass


@pytest.mark.parametrize("ahead", [False, True])
async def test_siblings_are_guessed_from_and_the_tokens_are_the_same(monkeypatch, ahead):
    monkeypatch.setattr(PlainRunner, "ahead", ahead)  # guesses need the last tokens: no pass is launched ahead
    weights = decoder()
    config = msgspec.structs.replace(CONFIG, speculate="siblings")
    async with open_local(weights, config=config) as model:
        for _ in range(3):
            answer = ids_of(await model.sample(prompt(0, 9), msgspec.structs.replace(GREEDY, max_tokens=24)))
            assert answer == twin(weights, Request(ids=prompt(0, 9), max_tokens=24, temperature=0.0))[0]
        await free_blocks(model)
        metrics = model.metrics()
    assert 0 < metrics["accepted_tokens"] <= metrics["guessed_tokens"]
    assert metrics["tokens_per_pass"] > 1
