"""The token client against a real vLLM on this machine's CPU: `make test-vllm`, which starts one and names it here.

Not part of the other tests: vLLM takes 3.5 GB and minutes to install. The same prompt is put to our own engine, and the two must
agree on greedy tokens and on the probability of each.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.served_adapters import open_adapted
from sandlot.model.endpoint.tokens import open_remote, remote_config
from sandlot.model.engine.local import LocalConfig, open_local
from sandlot.model.render.open import open_renderer

pytestmark = pytest.mark.timeout(300)
FOLDER = Path(os.environ["SANDLOT_VLLM_FOLDER"])
SPEC = os.environ["SANDLOT_VLLM"]
RENDERER = open_renderer(FOLDER)
PROMPT = RENDERER.render([text_message(Role.USER, "Name three colours.")], ())


def opened(sampling=None):
    return open_remote(remote_config("vllm", SPEC.removeprefix("vllm:")), sampling, environ={})


async def test_what_comes_back_is_exact():
    async with opened() as model:
        sampled = await model.sample(PROMPT, Sampling(max_tokens=12, seed=5), stop_ids=RENDERER.stop_ids)
        again = await model.sample(PROMPT, Sampling(max_tokens=12, seed=5), stop_ids=RENDERER.stop_ids)
    assert 1 <= len(sampled.ids) // 4 <= 12
    assert len(sampled.logprobs) == len(sampled.ids)
    assert sampled.ids == again.ids


async def test_the_stop_token_is_part_of_it():
    async with opened() as model:
        sampled = await model.sample(PROMPT, Sampling(max_tokens=400, temperature=0.0), stop_ids=RENDERER.stop_ids)
    ids = np.frombuffer(sampled.ids, "<i4")
    assert (sampled.stop, ids[-1] in RENDERER.stop_ids) in {("stop", True), ("length", False)}


async def test_a_stop_text_ends_a_turn_and_stays_in_its_tokens():
    async with opened() as model:
        first = await model.sample(PROMPT, Sampling(max_tokens=24, temperature=0.0), stop_ids=RENDERER.stop_ids)
        text = RENDERER.tokenizer.decode(np.frombuffer(first.ids, "<i4").tolist())
        stop = text[4:8]
        cut = await model.sample(PROMPT, Sampling(max_tokens=24, temperature=0.0, stop=(stop,)), stop_ids=RENDERER.stop_ids)
    assert cut.stop == "stop"
    assert stop in RENDERER.tokenizer.decode(np.frombuffer(cut.ids, "<i4").tolist())
    assert first.ids.startswith(cut.ids)


async def test_too_long_is_a_context_error_of_the_servers_own():
    async with opened() as model:
        context, model.context = model.context, 10**6
        with pytest.raises(ModelError) as caught:
            await model.sample([1] * (context + 1000), Sampling(max_tokens=1))
    assert caught.value.kind == "context"


async def test_raw_log_probabilities_are_found_out():
    with pytest.raises(ConfigError, match="processed_logprobs"):
        async with opened(Sampling(temperature=0.7)):
            pass


async def test_a_server_that_takes_no_adapters_says_how_to_start_one_that_does(tmp_path):
    async with open_adapted(remote_config("vllm", SPEC.removeprefix("vllm:")), "test", environ={}) as model:
        with pytest.raises(ModelError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
            await model.load(0, tmp_path)


async def test_our_engine_and_vllm_give_the_same_tokens_the_same_probability():
    sampling = Sampling(max_tokens=16, temperature=1.0, seed=11)
    async with opened() as theirs:
        sampled = await theirs.sample(PROMPT, sampling, stop_ids=RENDERER.stop_ids)
    ids = np.frombuffer(sampled.ids, "<i4").tolist()
    ours = []
    async with open_local(FOLDER, config=LocalConfig(kv_bytes=2**28)) as model:
        for place, token in enumerate(ids):
            (one,) = [await model.sample([*PROMPT, *ids[:place]], Sampling(max_tokens=1, temperature=0.0))]
            ours.append(np.frombuffer(one.ids, "<i4")[0] == token)
    told = np.frombuffer(sampled.logprobs, "<f4")
    likely = told > np.log(0.7)  # a token this likely is the likeliest: then both must name it
    assert np.array(ours)[likely].all()
