"""The engine against a slow obvious twin: no cache, no batching, a whole forward pass for every token."""

import numpy as np

from engine_twin import decoder, engine, finish, prompt, twin
from sandlot.engine.request import Request


def test_greedy_tokens_are_the_twins():
    model = decoder()
    it = engine(model)
    requests = [Request(ids=prompt(seed, 5 + 3 * seed), max_tokens=12, temperature=0.0) for seed in range(9)]
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
        ids, logprobs = twin(model, request)
        assert finished[number].ids.tolist() == ids
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-4)


def test_log_probabilities_are_exact_in_fp64():
    model = decoder().double()
    it = engine(model, blocks=6)
    requests = [Request(ids=prompt(seed, 7), max_tokens=9, seed=seed, top_p=0.9) for seed in range(5)]
    numbers = [it.submit(request) for request in requests]
    finished = finish(it)
    for number, request in zip(numbers, requests, strict=True):
        ids, logprobs = twin(model, request)
        assert finished[number].ids.tolist() == ids
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-9)
