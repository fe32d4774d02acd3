"""The CUDA runner on the CPU: its kernels are interpreted and its passes are run instead of recorded, all else is as on a GPU."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders.adapters import weights_in, write_adapter
from fakes.engine_twin import SHAPE, VOCABULARY, decoder, finish, prompt, redrawn
from sandlot.model.engine.batch import Batch
from sandlot.model.engine.cuda import CudaRunner, _rounded, _rounded_tokens
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.kernels import draw
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request

# Empty splits have a log-sum of minus infinity; for tokens of padding anything may be computed.
pytestmark = [
    pytest.mark.timeout(300),  # interpreted kernels are slow on a busy machine
    *(pytest.mark.filterwarnings(f"ignore:{what}:RuntimeWarning") for what in ("divide by zero", "invalid value", "overflow")),
]
BLOCK, CONTEXT = 16, 64
WIDE = {"head": 16, "layers": 1}


def small(seed: int = 0, **changes):
    """A decoder that kernels can run: a matrix product in them has at least 16 columns."""
    model = decoder(seed, replace(SHAPE, **WIDE, **changes))
    model.norm.weight.mul_(4.0)
    return model


def runners(model, *, sequences: int, kv_dtype="same"):
    blocks = sequences * CONTEXT // BLOCK
    ours = CudaRunner(model, blocks=blocks, block_size=BLOCK, max_batch=sequences, max_context=CONTEXT, kv_dtype=kv_dtype)
    return ours, PlainRunner(model, blocks=blocks, block_size=BLOCK, kv_dtype=kv_dtype)


def batch(before: list[int], counts: list[int], seed: int = 0, *, wanted: bool = True, adapters=()) -> Batch:
    """The next tokens of sequences, each with blocks of its own in a shuffled order."""
    dice = np.random.default_rng(seed)
    each = CONTEXT // BLOCK
    tables = np.random.default_rng(7).permutation(each * len(counts)).reshape(len(counts), each).astype(np.int32)
    positions = [np.arange(first, first + count) for first, count in zip(before, counts, strict=True)]
    slots = [row[own // BLOCK] * BLOCK + own % BLOCK for row, own in zip(tables, positions, strict=True)]
    starts = np.cumsum([0, *counts])
    every = np.arange(starts[-1]) if wanted else starts[1:] - 1
    return Batch(
        ids=torch.from_numpy(dice.integers(VOCABULARY, size=starts[-1])),
        positions=torch.from_numpy(np.concatenate(positions)),
        slots=torch.from_numpy(np.concatenate(slots).astype(np.int64)),
        starts=torch.from_numpy(starts.astype(np.int32)),
        lengths=torch.tensor([first + count for first, count in zip(before, counts, strict=True)], dtype=torch.int32),
        tables=torch.from_numpy(tables),
        wanted=torch.from_numpy(every),
        longest=max(counts),
        adapters=adapters,
    )


@pytest.mark.parametrize(
    ("sequences", "kv_heads", "kv_dtype"),
    [
        ([(17, 3)], 1, "same"),  # split over several programs
        ([(15, 2), (3, 1)], 2, "same"),
        ([(1, 2), (14, 3)], 4, "int8"),
    ],
)
def test_a_pass_with_guesses_gives_the_logits_of_the_plain_decoder(sequences, kv_heads, kv_dtype):
    before, counts = ([each[place] for each in sequences] for place in (0, 1))
    found = []
    for runner in runners(small(kv_heads=kv_heads), sequences=len(counts), kv_dtype=kv_dtype):
        runner.forward(batch(before=[0] * len(counts), counts=before, wanted=False))
        found.append(runner.forward(batch(before, counts, seed=1)))
    ours, plain = found
    assert ours.shape == (sum(counts), VOCABULARY)
    # With 8 bits, a number that is half way may be rounded either way.
    torch.testing.assert_close(ours, plain, atol=1e-3 if kv_dtype == "same" else 0.5, rtol=1e-3)


def test_guesses_of_several_adapters_are_checked_in_one_pass(tmp_path):
    model = small()
    adapters = [weights_in(model, write_adapter(model, tmp_path / f"{rank}", seed=rank, rank=rank)) for rank in (2, 5)]
    before, counts, chosen = [2, 9, 1], [3, 1, 2], (adapters[0], None, adapters[1])
    found = []
    for runner in runners(model, sequences=3):
        placed = {each: runner.place(each) for each in adapters}
        own = tuple(placed.get(each) for each in chosen)
        runner.forward(batch([0] * 3, before, wanted=False, adapters=own))
        found.append(runner.forward(batch(before, counts, seed=1, adapters=own)))
        found.append(runner.forward(batch([5, 10, 3], [2, 1, 1], seed=2, adapters=own)))
    for ours, plain in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(ours, plain, atol=2e-3, rtol=1e-3)


def made(model, *, runner=CudaRunner, **rest) -> Engine:
    own = runner(model, blocks=24, block_size=BLOCK, **({"max_batch": 3, "max_context": CONTEXT} if runner is CudaRunner else {}))
    clock = itertools.count().__next__
    return Engine(own, blocks=24, context=CONTEXT, max_batch=3, chunk=16, pick=draw, clock=clock, **rest)


class Traced(torch.nn.Module):
    """Waits in the middle of being traced, as the compilation of a trainer takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        assert self.may_end.wait(60)
        return x


def test_what_another_thread_compiles_does_not_disturb_it():
    prompts, decoding = batch([0, 0], [3, 4]), batch([3, 4], [1, 1], seed=1)
    runner, _ = runners(small(), sequences=2)
    alone = [runner.forward(each) for each in (prompts, decoding)]
    traced = Traced()
    with ThreadPoolExecutor(1) as other:
        tracing = other.submit(torch.fx.symbolic_trace, traced)
        assert traced.begun.wait(60)
        try:
            meanwhile = [runner.forward(each) for each in (prompts, decoding)]
        finally:
            traced.may_end.set()
        tracing.result()
    assert all(map(torch.equal, meanwhile, alone))


@pytest.mark.parametrize(("speculate", "tokens"), [("off", 3), ("siblings", 7)])
def test_requests_get_the_tokens_of_the_twin(speculate, tokens):
    model = small()
    requests = [Request(ids=prompt(3, 5), max_tokens=tokens, seed=seed, temperature=0.5) for seed in (1, 1)]
    it, asked, done = made(model, speculate=speculate), {}, {}
    for request in requests:
        asked[it.submit(request)] = request
        done |= finish(it) if speculate == "siblings" else {}  # the next one guesses from what this one wrote
    done |= finish(it)
    for number, request in asked.items():
        ids, logprobs = redrawn(model, request, done[number])
        assert len(ids) == tokens
        assert done[number].ids.tolist() == ids
        np.testing.assert_allclose(done[number].logprobs, logprobs, atol=1e-3)
    assert (it.metrics()["accepted_tokens"] > 0) is (speculate == "siblings")
    assert bool(it._runner._guessed_graphs) is (speculate == "siblings")


def test_a_pass_is_recorded_once_for_each_of_few_sizes():
    model = small()
    ours, _ = runners(model, sequences=5)
    for before, counts in (([1] * 5, [2, 1, 1, 4, 1]), ([1] * 3, [1, 1, 8]), ([1] * 3, [1, 1, 7])):
        ours.forward(batch(before, counts))
    assert sorted(ours._guessed_graphs) == [(4, 12, 8, 0, 0), (8, 12, 8, 0, 0)]
    assert not ours._graphs


@given(st.integers(1, 256), st.integers(0, 1024))
def test_recorded_sizes_have_room_and_waste_little(sequences, guesses):
    size, tokens = _rounded(sequences), _rounded_tokens(max(sequences + guesses, _rounded(sequences) + 1))
    assert sequences <= size < tokens
    assert sequences + guesses <= tokens
    assert tokens <= 1.5 * max(sequences + guesses, size + 1)


def test_prompts_and_passes_with_more_tokens_are_not_recorded():
    ours, plain = runners(small(), sequences=2)
    first, second = batch([0, 0], [9, 5], wanted=False), batch([9, 5], [17, 2], seed=1)
    for own in (first, second):
        torch.testing.assert_close(ours.forward(own), plain.forward(own), atol=1e-3, rtol=1e-3)
    assert not ours._guessed_graphs
