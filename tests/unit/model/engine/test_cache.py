"""Keys and values in 8 bits: what is read again, how far it is from what was written, and what it does to an engine."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fakes.engine_twin import BLOCK, CONTEXT, SHAPE, decoder, finish, prompt
from sandlot.model.engine.cache import KVCache, quantise
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request

EIGHT_BITS = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
NUMBERS = st.floats(-(2.0**99), 2.0**99, width=32)


@pytest.mark.parametrize("kind", EIGHT_BITS)
@given(x=arrays(np.float32, (3, 8), elements=NUMBERS))
def test_a_number_is_as_near_as_its_type_allows(kind, x):
    exact = torch.from_numpy(x)
    numbers, scales = quantise(exact, EIGHT_BITS[kind])
    found = numbers.float().double() * scales.double()[:, None]
    # Integers are evenly spaced; floating-point numbers have 3 bits after the first, and are evenly spaced below 2**-6.
    largest = exact.double().abs().amax(-1, keepdim=True)
    allowed = largest / 254 if kind == "int8" else torch.maximum(exact.double().abs() / 16, largest / 448 * 2.0**-10)
    assert ((found - exact.double()).abs() <= allowed * 1.0001 + 1e-30).all()


@pytest.mark.parametrize("kind", EIGHT_BITS)
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_number_that_is_not_finite_is_not_hidden(kind, bad):
    cache = KVCache(SHAPE, 2, BLOCK, torch.device("cpu"), torch.float32, stored=kind)
    x = torch.ones(1, SHAPE.kv_heads, SHAPE.head)
    x[0, 0, 3] = bad
    keys, _ = cache.layers[0]
    keys.write(torch.tensor([1]), torch.tensor([2]), x)
    found = keys.read(torch.tensor([SHAPE.kv_heads]), torch.float32)[0, 2]
    assert not found.isfinite().all(), "the engine fails a request whose output is not finite"


@pytest.mark.parametrize("kind", ["same", *EIGHT_BITS])
def test_the_bytes_of_a_block_are_those_it_takes(kind):
    cache = KVCache(SHAPE, 3, BLOCK, torch.device("cpu"), torch.float32, stored=kind)
    tensors = [each for stored in (cache.keys, cache.values) for each in (stored.numbers, stored.scales) if each is not None]
    assert sum(each.numel() * each.element_size() for each in tensors) == 3 * KVCache.block_bytes(
        SHAPE, BLOCK, torch.float32, kind
    )


def sampled(kind: str, *, share: bool = True):
    """Requests that share prompts, and end in the middle of a block, so that blocks are copied and read by others."""
    runner = PlainRunner(decoder(), blocks=64, block_size=BLOCK, kv_dtype=kind)
    it = Engine(runner, blocks=64, context=CONTEXT, max_batch=3, chunk=16, share=share)
    shared = prompt(0, 18)
    requests = [Request(ids=[*shared, *prompt(seed, 7)], max_tokens=12, seed=seed) for seed in range(6)]
    numbers = [it.submit(request) for request in requests]
    answers = finish(it)
    return [answers[number] for number in numbers]


@pytest.mark.parametrize(("kind", "most"), [("int8", 0.05), ("fp8", 0.4)])
def test_an_engine_samples_nearly_as_with_what_was_computed(kind, most):
    exact = sampled("same")
    found = sampled(kind)
    pairs = [
        (one.logprobs[place], other.logprobs[place])
        for one, other in zip(exact, found, strict=True)
        for place in range(min(len(one.ids), len(other.ids)))
        if (one.ids[:place] == other.ids[:place]).all() and one.ids[place] == other.ids[place]
    ]
    differences = [abs(one - other) for one, other in pairs]
    assert len(differences) > 10
    assert 0 < float(np.mean(differences)) < most


@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_a_shared_prefix_gives_what_its_own_copy_gives(kind):
    for one, other in zip(sampled(kind), sampled(kind, share=False), strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
