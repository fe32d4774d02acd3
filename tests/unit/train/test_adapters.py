"""Adapters learn what they would learn as `W + scale * B A`, written out and left to autograd."""

from itertools import groupby
from typing import get_args

import numpy as np
import pytest
import torch
from torch.func import functional_call

from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.layout import projections
from sandlot.model.nn.lora import add_adapters
from sandlot.model.nn.shape import Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import Clip
from sandlot.train.forest.layers import Recompute
from sandlot.train.rows import Row
from sandlot.train.trainer import Optimisation, Trainer

SHAPE = Shape(family="qwen3", vocabulary=23, hidden=16, layers=2, heads=4, kv_heads=2, head=8, mlp=24, context=64, qk_norm=True)
RANK, ALPHA, RATE = 3, 6.0, 1e-2
pytestmark = pytest.mark.timeout(300)  # the first optimiser of a process imports half of torch


def decoder() -> Decoder:
    torch.manual_seed(3)
    model = Decoder(SHAPE).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


def learner(**optimisation) -> Trainer:
    """Adapters that add something already: zeros would hide half of the gradients."""
    model = add_adapters(decoder(), RANK, ALPHA).double()
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in (each for each in model.parameters() if each.requires_grad):
            parameter.normal_(0, 0.1)
    return Trainer(model, Optimisation(learning_rate=RATE, max_norm=1e9, **optimisation))


def examples(seed: int) -> list[TrainingRow]:
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, 23, 5)
    made = []
    for number in range(4):
        ids = np.concatenate((prompt, rng.integers(0, 23, rng.integers(2, 7)))).astype(np.int32)
        trained = np.arange(len(ids)) >= 5
        row = Row(
            rollout=("t", number),
            ids=ids,
            trained=trained,
            logprobs=np.zeros(len(ids), np.float32),
            versions=np.zeros(len(ids), np.int32),
            turns=np.where(trained, 0, -1).astype(np.int32),
        )
        signal = rng.normal(0, 1, len(ids)).astype(np.float32)
        made.append(TrainingRow(row, (TokenLoss(Clip(), signal, trained.astype(np.float32) / 10),)))
    return made


class Twin:
    """Two leaves for each Hugging Face projection, and one dense matrix made of them in every forward pass."""

    def __init__(self, trainer: Trainer) -> None:
        self.base = decoder()
        self.leaves = {
            name: [(a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()) for a, b in linear.parts()]
            for name, linear in adapted_linears(trainer.decoder)
        }
        flat = [tensor for parts in self.leaves.values() for pair in parts for tensor in pair]
        self.optimiser = torch.optim.AdamW(flat, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, batch: list[TrainingRow]) -> float:
        weights = dict(self.base.named_parameters())
        for name, _ in groupby(projections(SHAPE), key=lambda projection: projection.linear):
            added = torch.cat([b @ a for a, b in self.leaves[name]])
            weights[f"{name}.weight"] = weights[f"{name}.weight"].detach() + ALPHA / RANK * added
        loss = torch.zeros((), dtype=torch.float64)
        for example in batch:
            ids = torch.from_numpy(example.row.ids.astype(np.int64))
            hidden = functional_call(self.base, weights, (ids, torch.arange(len(ids)), causal_attend()))
            chosen = torch.log_softmax(self.base.logits(hidden), -1)[:-1].gather(1, ids[1:, None])[:, 0]
            ratio = (chosen - chosen.detach()).exp()
            stream = example.streams[0]
            loss = loss - (ratio * torch.from_numpy(stream.signal[1:]) * torch.from_numpy(stream.weight[1:])).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


@pytest.mark.parametrize("recompute", get_args(Recompute))
def test_steps_are_those_of_dense_weights(recompute):
    trainer = learner(recompute=recompute)
    twin = Twin(trainer)
    before = {name: parameter.clone() for name, parameter in trainer.decoder.named_parameters() if "lora" not in name}
    for seed in range(4):
        batch = examples(seed)
        assert trainer.update([batch]).loss == pytest.approx(twin.step(batch), abs=1e-10)
    for name, linear in adapted_linears(trainer.decoder):
        for (a, b), (twin_a, twin_b) in zip(linear.parts(), twin.leaves[name], strict=True):
            torch.testing.assert_close(a, twin_a, atol=1e-8, rtol=0)
            torch.testing.assert_close(b, twin_b, atol=1e-8, rtol=0)
    after = dict(trainer.decoder.named_parameters())
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items()), "only adapters learn"


def test_only_adapters_are_optimised():
    trainer = learner()
    adapters = {id(each) for name, each in trainer.decoder.named_parameters() if ".lora_" in name}
    assert {id(parameter) for parameter in trainer.parameters} == adapters
    trainer.update([examples(0)])
    assert len(trainer.state()["optimiser"]["state"]) == len(trainer.parameters)
