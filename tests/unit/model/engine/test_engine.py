"""The engine against a slow obvious twin: no cache, no batching, a whole forward pass for every token."""

import random
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fakes import engine_twin
from fakes.engine_twin import CONTEXT, check_blocks, decoder, engine, finish, prompt, redrawn, sharp, spoken, twin
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request


@pytest.fixture(autouse=True, scope="module", params=["in_turn", "ahead"])
def mode(request):
    """Also as on a device, which launches a step before the tokens of the last one are known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainRunner, "ahead", request.param == "ahead")
        patch.setattr(engine_twin, "speculate", "siblings" if request.param == "guessing" else "off")
        yield request.param


all_modes = pytest.mark.parametrize("mode", ["in_turn", "ahead", "guessing"], indirect=True)
"""With guesses too; those are made."""


def test_greedy_tokens_are_the_twins():
    model = decoder()
    it = engine(model)
    requests = [Request(ids=prompt(seed, 5 + 3 * seed), max_tokens=8, temperature=0.0) for seed in range(6)]
    numbers = [it.submit(request) for request in requests]
    finished = finish(it)
    for number, request in zip(numbers, requests, strict=True):
        ids, logprobs = twin(model, request)
        assert finished[number].ids.tolist() == ids
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-4)
        assert finished[number].stop == "length"


def test_seeded_tokens_do_not_depend_on_the_batch():
    model = decoder()
    requests = [
        Request(ids=prompt(seed, 9), max_tokens=16, seed=seed, temperature=0.7 + seed / 4, top_p=1 - seed / 20, top_k=seed * 5)
        for seed in range(8)
    ]
    together = engine(model, max_batch=8)
    numbers = [together.submit(request) for request in requests]
    finished = finish(together)
    for number, request in zip(numbers, requests, strict=True):
        ids, logprobs = redrawn(model, request, finished[number])
        assert finished[number].ids.tolist() == ids
        assert len(ids) == 16
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-4)


def test_log_probabilities_are_exact_in_fp64():
    model = decoder().double()
    it = engine(model, blocks=6)
    requests = [Request(ids=prompt(seed, 7), max_tokens=9, seed=seed, top_p=0.9) for seed in range(5)]
    numbers = [it.submit(request) for request in requests]
    finished = finish(it)
    for number, request in zip(numbers, requests, strict=True):
        ids, logprobs = redrawn(model, request, finished[number])
        assert finished[number].ids.tolist() == ids
        assert len(ids) == 9
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-9)


def test_a_groups_prompt_is_computed_once():
    it = engine(decoder(), max_batch=8, chunk=32)
    for seed in range(8):
        it.submit(Request(ids=prompt(0, 41), max_tokens=2, seed=seed))
    finish(it)
    # The prompt once; for each of the others its last token; the first of the two sampled tokens for all.
    assert it.metrics()["computed_tokens"] == 41 + 7 + 8
    # Two for the prompt, one for the others to join, one more token for those: nobody waits for a sibling that has its prompt.
    assert it.metrics()["steps"] == 4


def test_another_turn_computes_only_what_is_new():
    it = engine(decoder())
    first = Request(ids=prompt(0, 21), max_tokens=6, seed=1)
    it.submit(first)
    (answer,) = finish(it).values()
    before = it.metrics()["computed_tokens"]
    it.submit(Request(ids=[*first.ids, *answer.ids.tolist(), 7, 8, 9], max_tokens=1, seed=2))
    (second,) = finish(it).values()
    assert second.cached == 21 + 5
    assert it.metrics()["computed_tokens"] - before == 4


def test_without_sharing_everything_is_computed():
    it = engine(decoder(), share=False)
    for _ in range(3):
        it.submit(Request(ids=prompt(0, 21), max_tokens=1, seed=1))
    assert all(answer.cached == 0 for answer in finish(it).values())
    assert it.metrics()["computed_tokens"] == 63
    assert it.metrics()["kv_blocks_free"] == it.metrics()["kv_blocks"]


@pytest.mark.parametrize("stop_after", [1, 2, 5])
def test_a_stop_token_is_the_last_of_the_output(stop_after):
    model = decoder()
    everything, _ = twin(model, Request(ids=[5, 6, 7], max_tokens=20, seed=4))
    token = everything[stop_after - 1]
    it = engine(model)
    it.submit(Request(ids=[5, 6, 7], max_tokens=20, seed=4, stop_ids=(63, token)))
    (answer,) = finish(it).values()
    assert answer.stop == "stop"
    assert answer.ids.tolist() == everything[: everything.index(token) + 1]


@cache
def spoken_by_the_twin(seed):
    return spoken(twin(decoder(), Request(ids=[5, 6, 7], max_tokens=20, seed=seed))[0])


@given(st.integers(0, 3), st.integers(0, 12), st.integers(1, 5))
@settings(max_examples=settings.default.max_examples // 2)
def test_a_stop_text_may_straddle_tokens_and_stays(seed, begin, length):
    everything = spoken_by_the_twin(seed)
    text = everything[begin : begin + length]
    it = engine(decoder(), decode=spoken)
    request = Request(ids=[5, 6, 7], max_tokens=20, seed=seed, stop=("no such text", text))
    it.submit(request)
    (answer,) = finish(it).values()
    assert answer.stop == "stop"
    assert spoken(answer.ids.tolist()) == everything[: everything.index(text) + len(text)]


def test_a_deadline_ends_a_request_with_what_it_has():
    now = 0.0
    it = engine(decoder(), max_batch=1, clock=lambda: now)
    running = it.submit(Request(ids=[1, 2], max_tokens=50, deadline=10.0))
    waiting = it.submit(Request(ids=[1, 2], max_tokens=50, deadline=5.0))
    for _ in range(4):
        assert it.step() == []
    now = 6.0
    (answer,) = it.step()
    assert (answer.id, answer.stop, len(answer.ids), answer.queued_s) == (waiting, "deadline", 0, 6.0)
    now = 10.0
    (answer,) = it.step()
    assert (answer.id, answer.stop, len(answer.ids)) == (running, "deadline", 5)
    assert it.is_idle
    assert it.metrics()["kv_blocks_running"] == 0


@all_modes
@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.system)])
def test_many_cancelled_at_random_moments_leak_no_block(mode, count):
    chance = random.Random(0)
    it = engine(sharp(), blocks=40, max_batch=8, chunk=24)
    alive: set[int] = set()
    cancelled = 0
    while cancelled < count:
        while len(alive) < 14:
            ids = prompt(chance.randrange(6), chance.randrange(1, 40, 12))
            alive.add(it.submit(Request(ids=ids, max_tokens=chance.randrange(1, 40), session=chance.choice(["", "a", "b"]))))
        alive -= {answer.id for answer in it.step()}
        for number in chance.sample(sorted(alive), min(len(alive), chance.randrange(6))):
            assert it.cancel(number)
            alive.remove(number)
            cancelled += 1
            check_blocks(it._scheduler.blocks)
        metrics = it.metrics()
        assert metrics["kv_blocks_running"] + metrics["kv_blocks_cached"] + metrics["kv_blocks_free"] == 40
    for number in alive:
        it.cancel(number)
    metrics = it.metrics()
    assert metrics["kv_blocks_running"] == 0
    assert metrics["evictions"] > 0
    assert (metrics["accepted_tokens"] > count // 10) is (mode == "guessing")
    while it._scheduler.tree.evict():
        pass
    assert it.metrics()["kv_blocks_free"] == 40


@all_modes
def test_when_blocks_run_out_the_newest_waits_and_nobody_is_lost(mode):
    model = sharp()
    it = engine(model, blocks=16, max_batch=6, chunk=64)
    requests = [Request(ids=prompt(seed % 2, 6), max_tokens=40, seed=seed) for seed in range(6)]
    numbers = [it.submit(request) for request in requests]
    finished = finish(it)
    assert it.metrics()["preemptions"] > 0
    assert (it.metrics()["accepted_tokens"] > 0) is (mode == "guessing")
    for number, request in zip(numbers, requests, strict=True):
        assert len(finished[number].ids) == 40
        assert finished[number].ids.tolist() == redrawn(model, request, finished[number])[0]


def test_scores_that_are_not_numbers_fail_the_request_and_only_it():
    model = decoder()
    model.embedding.weight[13] = torch.nan
    model.head.weight = torch.nn.Parameter(decoder().head.weight.clone(), requires_grad=False)
    it = engine(model)
    broken = it.submit(Request(ids=[1, 13, 2], max_tokens=5))
    fine = it.submit(Request(ids=[1, 2, 2], max_tokens=1))
    finished = finish(it)
    assert (finished[broken].stop, len(finished[fine].ids)) == ("failed", 1)
    assert "not a distribution" in finished[broken].error
    assert it.metrics()["kv_blocks_running"] == 0


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request(ids=[], max_tokens=1), "no tokens"),
        (Request(ids=[1], max_tokens=0), "max_tokens is 0"),
        (Request(ids=[1] * CONTEXT, max_tokens=1), "exceed the context"),
        (Request(ids=[1], max_tokens=1, temperature=-0.1), "temperature -0.1"),
        (Request(ids=[1], max_tokens=1, top_p=1.1), "top_p 1.1"),
        (Request(ids=[1], max_tokens=1, top_k=-1), "top_k -1"),
        (Request(ids=[1], max_tokens=1, stop=("x",)), "need a tokenizer"),
        (Request(ids=[1], max_tokens=1, stop=("",)), "empty"),
    ],
)
def test_what_can_never_be_served_is_refused(request_, why):
    it = engine(decoder(), decode=spoken if "" in request_.stop else None)
    with pytest.raises(ValueError, match=why):
        it.submit(request_)
    assert it.is_idle


def test_a_chunk_no_larger_than_the_batch_is_refused():
    with pytest.raises(ValueError, match="prompts are never computed"):
        engine(decoder(), max_batch=8, chunk=8)
