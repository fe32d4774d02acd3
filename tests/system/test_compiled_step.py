"""The compiled training step equals the plain one within rounding, and is compiled once for all sizes. Needs a C++ compiler."""

from typing import get_args

import numpy as np
import pytest
import torch

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import add_adapters
from sandlot.model.nn.shape import Rope, Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import Clip, Entropy, Value
from sandlot.train.forest.layers import Recompute, compiled
from sandlot.train.rows import Row
from sandlot.train.tally import Tally
from sandlot.train.trainer import Optimisation, Trainer

# torch warns about its own code while it compiles.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore")]

SHAPE = Shape(family="qwen3", vocabulary=211, hidden=64, layers=3, heads=4, kv_heads=2, head=16, mlp=96, context=512, tied=True,
              qk_norm=True, rope=Rope(theta=1e6))  # fmt: skip


def batch(lengths: list[int], shared: int) -> list[TrainingRow]:
    rng = np.random.default_rng(sum(lengths))
    prompt = rng.integers(0, SHAPE.vocabulary, shared)
    rows = []
    for number, length in enumerate(lengths):
        ids = np.concatenate((prompt, rng.integers(0, SHAPE.vocabulary, length))).astype(np.int32)
        trained = np.arange(len(ids)) >= shared
        nowhere = np.where(trained, 0, -1).astype(np.int32)
        logprobs = rng.normal(-5, 0.1, len(ids)).astype(np.float32)
        row = Row(rollout=("t", number), ids=ids, trained=trained, logprobs=logprobs, versions=nowhere, turns=nowhere)
        signal, weight = rng.normal(0, 1, len(ids)).astype(np.float32), (trained / 100).astype(np.float32)
        losses = (Clip(0.2, 0.28), Value(None), Entropy())
        rows.append(TrainingRow(row, tuple(TokenLoss(loss, signal, weight) for loss in losses)))
    return rows


def step(rows: list[TrainingRow], *, lora: bool, **settings) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(0)
    decoder = Decoder(SHAPE)
    if lora:
        add_adapters(decoder, rank=4)
    trainer = Trainer(decoder, Optimisation(**settings), critic=True)
    torch.nn.init.normal_(trainer.critic.weight, 0, 0.1)
    loss = trainer._loss(rows, [len(rows)], {"old": None, "reference": None}, Tally())
    loss.backward()  # `torch.autograd.grad` would not reach into layers that are recomputed
    return loss.detach(), [parameter.grad for parameter in trainer.parameters]


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("recompute", get_args(Recompute))
def test_compiled_and_plain_agree_for_any_size(lora, recompute):
    from torch._dynamo.utils import counters  # five CPU-seconds, which a run of other tests does not pay

    compiled = []
    for rows in (batch([20, 31, 9], 12), batch([70], 3), batch([8] * 6, 1)):
        plain_loss, plain = step(rows, lora=lora, compiled=False, recompute=recompute)
        loss, gradients = step(rows, lora=lora, compiled=True, recompute=recompute)
        torch.testing.assert_close(loss, plain_loss, rtol=1e-5, atol=1e-6)
        for one, other in zip(gradients, plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
        compiled.append(counters["stats"]["unique_graphs"])
    assert compiled[-1] == compiled[1], "a new size was compiled again"


@pytest.mark.parametrize("lean", [False, True])
def test_layers_that_are_computed_again_store_what_they_are_given(lean):
    torch.manual_seed(0)
    decoder = Decoder(SHAPE)
    block, count = decoder.blocks[0], 24
    functions = compiled().lean if lean else compiled()
    given = [torch.randn(count, SHAPE.hidden, requires_grad=True), *decoder.angles(torch.arange(count), torch.float32)]
    stored = []

    def keep(tensor):
        if tensor.ndim:  # constants of the norms
            stored.append(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        attended = torch.randn(count, SHAPE.heads, SHAPE.head, requires_grad=True)
        results = (*functions.inputs(block, *given), functions.outputs(block, given[0], attended))
    known = {tensor.data_ptr() for tensor in (*given, attended, *block.parameters())}
    assert all(result.requires_grad for result in results)
    assert (set(stored) <= known) is lean
