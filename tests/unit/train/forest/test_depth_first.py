"""A forest in pieces, depth first, is the forest: its loss, its gradients, with less of it alive at once."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import add_adapters
from sandlot.model.nn.shape import Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import Clip, Entropy, Gspo, Value
from sandlot.train.algorithms.preferences import Dpo
from sandlot.train.forest.attention import BLOCK, block_mask
from sandlot.train.forest.depth_first import ForwardSettings, Walk, pieces_of
from sandlot.train.forest.forest import cut_if_cheaper, cut_rows, forest_of
from sandlot.train.forest.forward import forward_rows
from sandlot.train.rows import Row
from sandlot.train.trainer import Optimisation, Tally, Trainer

pytestmark = pytest.mark.timeout(300)

SHAPE = Shape(family="qwen3", vocabulary=23, hidden=16, layers=2, heads=4, kv_heads=2, head=8, mlp=24, context=256, qk_norm=True)
TREES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


def arrays(rows):
    return [np.array(row, np.int32) for row in rows]


def decoder(seed=1, shape=SHAPE):
    torch.manual_seed(seed)
    model = Decoder(shape).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


def row_of(ids, trained, seed=0):
    rng = np.random.default_rng(seed)
    return Row(
        rollout=("t", seed),
        ids=np.array(ids, np.int32),
        trained=np.array(trained),
        logprobs=rng.normal(-2, 0.3, len(ids)).astype(np.float32),
        versions=np.zeros(len(ids), np.int32),
        turns=np.where(trained, 0, -1).astype(np.int32),
    )


def group(component, *, seed=0, prompt=12, turn=6, tail=10, count=6, paired=False):
    """Rows that share a prompt and some of their turns, long enough for many pieces."""
    rng = np.random.default_rng(seed)
    asked, said = rng.integers(0, 23, prompt), rng.integers(0, 23, (2, turn))
    made = []
    for number in range(count):
        ids = np.concatenate((asked, said[number % 2], rng.integers(0, 23, rng.integers(2, tail + 1))))
        row = row_of(ids, np.arange(len(ids)) >= (prompt if number < 2 else prompt + turn), seed=number)
        signal = np.full(len(ids), 1.0 if number % 2 == 0 else -1.0) if paired else rng.normal(0, 1, len(ids))
        weight = rng.uniform(0.5, 1.5, len(ids)) * row.trained
        streams = (TokenLoss(component, signal.astype(np.float32), weight.astype(np.float32)),)
        made.append(TrainingRow(row, streams, (number ^ 1) if paired else None))
    return made


def trainer_of(tokens, *, lora=False, recompute="nothing"):
    model = decoder()
    if lora:
        add_adapters(model, 4, seed=3).double()
        with torch.no_grad():
            for parameter in (each for each in model.parameters() if each.requires_grad):
                parameter.normal_(0, 0.2)
    trainer = Trainer(model, Optimisation(tokens=tokens, recompute=recompute), critic=True, reference=decoder(3))
    torch.manual_seed(5)
    torch.nn.init.normal_(trainer.critic.weight)
    return trainer


def gradients(trainer, batch):
    settled = {
        "old": None,
        "reference": torch.from_numpy(np.concatenate(trainer.logprobs([e.row for e in batch], trainer.reference))),
    }
    trainer.optimiser.zero_grad(set_to_none=True)
    loss = trainer._loss(batch, [len(batch)], settled, Tally())
    loss.backward()
    return loss.item(), [None if p.grad is None else p.grad.clone() for p in trainer.parameters]


@pytest.mark.parametrize("component", [Clip(0.2, 0.28), Gspo(), Entropy(), Value(), Dpo()], ids=str)
@pytest.mark.parametrize("tokens", [7, 40])
def test_loss_and_gradients_are_those_of_the_whole_forest(component, tokens):
    batch = group(component, paired=isinstance(component, Dpo))
    loss, found = gradients(trainer_of(tokens), batch)
    expected_loss, expected = gradients(trainer_of(10_000), batch)
    assert loss == pytest.approx(expected_loss, abs=1e-10)
    for own, other in zip(found, expected, strict=True):
        assert (own is None) == (other is None) or not (other if own is None else own).any()
        if own is not None and other is not None:
            torch.testing.assert_close(own, other, atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("options", [{"lora": True}, {"recompute": "everything"}], ids=str)
def test_adapters_and_recomputed_layers_change_nothing(options):
    batch = group(Clip())
    _, found = gradients(trainer_of(9, **options), batch)
    _, expected = gradients(trainer_of(10_000, **options), batch)
    for own, other in zip(found, expected, strict=True):
        if other is not None:
            torch.testing.assert_close(own, other, atol=1e-10, rtol=1e-9)


def test_a_whole_update_is_the_same_in_pieces():
    batch = [group(Clip(), seed=seed) for seed in range(2)]
    updates = [trainer_of(tokens).update(batch) for tokens in (3, 10_000)]
    assert updates[0].loss == pytest.approx(updates[1].loss, abs=1e-10)
    assert updates[0].norm == pytest.approx(updates[1].norm, abs=1e-9)


def test_probabilities_without_gradients_are_those_of_the_whole():
    rows = [example.row for example in group(Clip())]
    whole, pieces = forward_rows(decoder(), rows), forward_rows(decoder(), rows, tokens=7)
    torch.testing.assert_close(pieces.logprobs, whole.logprobs, atol=1e-12, rtol=1e-12)
    assert pieces.computed == whole.computed


@given(TREES, st.integers(1, 9))
def test_pieces_are_all_tokens_once_in_order_and_what_they_see_is_held(rows, budget):
    forest = forest_of(arrays(rows))
    pieces = pieces_of(forest, budget)
    assert [(piece.start, piece.stop) for piece in pieces] == [
        (start, stop)
        for start, stop in zip(
            [piece.start for piece in pieces], [piece.start for piece in pieces[1:]] + [len(forest)], strict=True
        )
    ]
    assert pieces[0].start == 0
    assert all(0 < piece.stop - piece.start <= budget for piece in pieces)
    walk = Walk(ForwardSettings(decoder(), 1.0), forest, np.empty(0, np.int64), pieces)
    stack = []
    for piece in pieces:
        del stack[piece.above :]
        held = {int(token) for each in stack for token in each.open}
        for token in range(piece.start, piece.stop):
            seen_by = {k for k in range(piece.start) if token < forest.last[k]}
            assert seen_by <= held
        if piece.inner:
            stack.append(walk._hold(piece, [], []))


@given(TREES, st.integers(1, 9))
@settings(max_examples=10, deadline=None)
def test_any_tree_in_any_pieces_gives_the_same_gradients(rows, budget):
    made = [row_of([0, *ids], [False, *([True] * len(ids))], seed) for seed, ids in enumerate(rows)]
    model = decoder()
    found = []
    for tokens in (budget, 10_000):
        model.zero_grad(set_to_none=True)
        result = forward_rows(model, made, tokens=tokens)
        (result.logprobs.sin() * torch.arange(len(result.logprobs))).sum().backward()
        found.append((result.logprobs.detach(), [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(found[0], found[1], atol=1e-9, rtol=1e-8)


def alive(work):
    """The most bytes alive at once on the CPU, above what was there before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where torch is built for a GPU that is not there, its profiler says so
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
            work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


def test_less_is_alive_at_once():
    shape = replace(SHAPE, hidden=32, mlp=64, layers=2, context=2048)
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 23, 200)
    rows = [row_of(np.concatenate((prompt, rng.integers(0, 23, 100))), np.arange(300) >= 200, number) for number in range(16)]
    peaks = {}
    for tokens in (100, 300, 10_000):
        model = decoder(shape=shape)
        peaks[tokens] = alive(
            lambda model=model, tokens=tokens: forward_rows(model, rows, tokens=tokens).logprobs.sum().backward()
        )
    assert peaks[300] < peaks[10_000] / 3
    assert peaks[100] < peaks[10_000] / 6


def test_a_group_is_cut_where_that_is_less_work_and_stays_whole_where_not():
    short, long = [arrays([[9] * prompt + [number] * 10 for number in range(8)]) for prompt in (2, 60)]
    assert cut_if_cheaper(short, 40) == cut_rows(short, 40)
    assert len(cut_if_cheaper(short, 40)) > 1
    (whole,) = cut_if_cheaper(long, 80)
    assert whole.size == 60 + 80
    assert whole.rows == tuple(range(8))


def test_blocks_say_what_intervals_say():
    rng = np.random.default_rng(0)
    keys, queries = 4 * BLOCK, 2 * BLOCK
    first = torch.from_numpy(np.sort(rng.integers(-50, queries, keys)))
    last = first + torch.from_numpy(rng.integers(0, 300, keys))
    mask = block_mask(first, last, queries, lambda _b, _h, q, k: (first[k] <= q) & (q < last[k]))
    number = torch.arange(queries)[:, None]
    dense = ((first <= number) & (number < last)).view(queries // BLOCK, BLOCK, keys // BLOCK, BLOCK)
    for i in range(queries // BLOCK):
        whole = set(mask.full_kv_indices[0, 0, i, : mask.full_kv_num_blocks[0, 0, i]].tolist())
        some = set(mask.kv_indices[0, 0, i, : mask.kv_num_blocks[0, 0, i]].tolist())
        assert not whole & some
        for j in range(keys // BLOCK):
            block = dense[i, :, j]
            assert block.all() if j in whole else (j in some or not block.any())
