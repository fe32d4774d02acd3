"""The forest gives the loss and the gradients of the flat batch, in fp64, for every component."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import (
    Cispo,
    Clip,
    Columns,
    Correction,
    CrossEntropy,
    Dppo,
    Entropy,
    Gspo,
    Kl,
    OffPolicyMask,
    Reinforce,
    Sapo,
    Value,
)
from sandlot.train.algorithms.preferences import Dpo, Ipo, SimPo
from sandlot.train.forest.layers import Recompute
from sandlot.train.rows import Row
from sandlot.train.tally import Tally
from sandlot.train.trainer import Optimisation, Trainer

pytestmark = pytest.mark.timeout(300)  # the first optimiser of a process imports half of torch

SHAPE = Shape(family="qwen3", vocabulary=23, hidden=16, layers=2, heads=4, kv_heads=2, head=8, mlp=24, context=64, qk_norm=True)
COMPONENTS = [
    Clip(0.2, 0.28),
    Clip(0.1, 0.1, dual=3.0),
    Clip(correction=Correction("truncate", high=1.2)),
    Clip(correction=Correction("mask", "geometric", low=0.9, high=1.1)),
    Clip(correction=Correction("truncate", "sequence")),
    Gspo(),
    Cispo(high=1.1),
    Reinforce(),
    CrossEntropy(),
    Kl("k1"),
    Kl("k2"),
    Kl("k3"),
    Entropy(),
    Value(),
    Sapo(),
    Dppo(0.05, 0.05, pull=0.1),
    OffPolicyMask(Clip(), 0.01),
    Dpo(),
    Ipo(),
    SimPo(),
]
PAIRED = (Dpo, Ipo, SimPo)


def decoder(seed):
    torch.manual_seed(seed)
    model = Decoder(SHAPE).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


def rows(seed, count=6):
    """Rows that share a prompt, and some of their turns."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, 23, 5)
    turn = rng.integers(0, 23, 4)
    made = []
    for number in range(count):
        tail = rng.integers(0, 23, rng.integers(2, 7))
        ids = np.concatenate((prompt, turn if number % 2 else rng.integers(0, 23, 4), tail)).astype(np.int32)
        trained = np.arange(len(ids)) >= (9 if number == 1 else 5)
        made.append(
            Row(
                rollout=("t", number),
                ids=ids,
                trained=trained,
                logprobs=rng.normal(-2, 0.3, len(ids)).astype(np.float32),
                versions=np.zeros(len(ids), np.int32),
                turns=np.where(trained, 0, -1).astype(np.int32),
            )
        )
    return made


def examples(component, seed=0):
    rng = np.random.default_rng(seed + 100)
    made = []
    for number, row in enumerate(rows(seed)):
        sign = 1.0 if number % 2 == 0 else -1.0
        signal = np.full(len(row), sign) if isinstance(component, PAIRED) else rng.normal(0, 1, len(row))
        weight = rng.uniform(0.5, 1.5, len(row)) * row.trained
        if isinstance(component, Gspo):  # its gradient is that of its value where a row's tokens count alike
            signal, weight = np.full(len(row), signal[0]), weight.max() * row.trained
        partner = (number ^ 1) if isinstance(component, PAIRED) else None
        made.append(TrainingRow(row, (TokenLoss(component, signal.astype(np.float32), weight.astype(np.float32)),), partner))
    return made


def flat_loss(model, critic, old_model, reference_model, batch):
    """The obvious way: each row alone, nothing shared, everything joined at the end."""

    def along(which, row):
        ids = torch.from_numpy(row.ids.astype(np.int64))
        hidden = which(ids, torch.arange(len(ids)), causal_attend())
        logits = torch.log_softmax(which.logits(hidden), -1)
        chosen = logits[:-1].gather(1, ids[1:, None])[:, 0]
        spread = -(logits.exp() * logits).sum(-1)[:-1]
        wanted = torch.from_numpy(row.trained[1:])
        return chosen[wanted], spread[wanted], critic(hidden)[:-1, 0][wanted]

    parts = [along(model, example.row) for example in batch]
    logprobs, entropy, values = (torch.cat(column) for column in zip(*parts, strict=True))
    with torch.no_grad():
        old = torch.cat([along(old_model, example.row)[0] for example in batch])
        reference = torch.cat([along(reference_model, example.row)[0] for example in batch])
    columns = Columns(
        logprobs=logprobs,
        old=old,
        behaviour=torch.cat([torch.from_numpy(example.row.logprobs[example.row.trained]) for example in batch]),
        signal=torch.cat([torch.from_numpy(example.streams[0].signal[example.row.trained]) for example in batch]),
        row=torch.cat([torch.full((int(e.row.trained.sum()),), n) for n, e in enumerate(batch)]),
        rows=len(batch),
        partner=torch.tensor([-1 if example.partner is None else example.partner for example in batch]),
        reference=reference,
        entropy=entropy,
        values=values,
    )
    weight = torch.cat([torch.from_numpy(example.streams[0].weight[example.row.trained]) for example in batch])
    return (batch[0].streams[0].component(columns) * weight).sum()


def trainer_of(tokens=10_000):
    trainer = Trainer(decoder(1), Optimisation(tokens=tokens), critic=True, reference=decoder(3))
    torch.manual_seed(5)
    torch.nn.init.normal_(trainer.critic.weight)
    return trainer


def settled_of(trainer, batch):
    """What is computed once, by models that do not learn."""
    return {
        "old": torch.from_numpy(np.concatenate(trainer.logprobs([e.row for e in batch], decoder(2)))),
        "reference": torch.from_numpy(np.concatenate(trainer.logprobs([e.row for e in batch], trainer.reference))),
    }


def forest_gradients(trainer, batch, recompute="nothing"):
    trainer.optimisation = replace(trainer.optimisation, recompute=recompute)
    loss = trainer._loss(batch, [len(batch)], settled_of(trainer, batch), Tally())
    return loss, torch.autograd.grad(loss, trainer.parameters, allow_unused=True)


def every_component():
    """Whatever is computed again; `make test` has that for a few, since it knows nothing of the components."""
    for recompute in get_args(Recompute):
        for component in COMPONENTS:
            few = recompute == "nothing" or isinstance(component, (Gspo, Entropy, Value, Dpo))
            yield pytest.param(component, recompute, id=f"{component}-{recompute}", marks=() if few else pytest.mark.system)


@pytest.mark.parametrize(("component", "recompute"), [*every_component()])
def test_loss_and_gradients_are_those_of_the_flat_batch(component, recompute):
    trainer, batch = trainer_of(), examples(component)
    loss, gradients = forest_gradients(trainer, batch, recompute)
    expected = flat_loss(trainer.decoder, trainer.critic, decoder(2), trainer.reference, batch)
    expected_gradients = torch.autograd.grad(expected, trainer.parameters, allow_unused=True)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
    for own, other in zip(gradients, expected_gradients, strict=True):
        assert own is not None, "every weight has a gradient, if only zero: processes that sum them must agree on which"
        torch.testing.assert_close(own, torch.zeros_like(own) if other is None else other, atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize(
    "component", [Clip(0.2, 0.28), Gspo(), Kl("k2"), Entropy(), Value(), Sapo(), Dppo(), Dpo(), Ipo(), SimPo()], ids=str
)
def test_gradients_agree_with_finite_differences(component):
    trainer, batch = trainer_of(), examples(component, seed=4)
    _, gradients = forest_gradients(trainer, batch)
    settled = settled_of(trainer, batch)
    rng = np.random.default_rng(0)
    for parameter, gradient in zip(trainer.parameters, gradients, strict=True):
        if gradient is None:
            continue
        place = tuple(int(rng.integers(size)) for size in parameter.shape)
        step = 1e-6
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[place] += sign * step
                losses.append(trainer._loss(batch, [len(batch)], settled, Tally()).item())
                parameter[place] -= sign * step
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(gradient[place].item(), abs=1e-6, rel=1e-5)


@pytest.mark.parametrize("component", [Clip(), Gspo(), Kl("k3"), Dpo()], ids=str)
def test_cutting_and_packing_a_batch_do_not_change_its_gradient(component):
    groups = [examples(component, seed) for seed in range(3)]
    updates = [trainer_of(tokens).update(groups) for tokens in (4, 30, 60, 200, 10_000)]
    assert [update.norm for update in updates] == pytest.approx([updates[0].norm] * 5, abs=1e-9)
    assert [update.loss for update in updates] == pytest.approx([updates[0].loss] * 5, abs=1e-9)
    if not isinstance(component, PAIRED):  # pairs stay together
        computed = [update.computed for update in updates]
        assert computed[-1] <= computed[0] < computed[1] < updates[0].flat, "4 go depth first, 30 are cut"


def test_a_gradient_that_is_not_a_number_leaves_the_weights_alone():
    trainer, batch = trainer_of(), examples(Clip())
    before = [parameter.clone() for parameter in trainer.parameters]
    batch[0].streams[0].signal[:] = np.nan
    with pytest.raises(FloatingPointError, match="weights were not changed"):
        trainer.update([batch])
    assert all(torch.equal(old, new) for old, new in zip(before, trainer.parameters, strict=True))


def test_a_trainer_goes_on_from_its_state_as_if_nothing_had_happened():
    batches = [[examples(Clip(), seed)] for seed in range(4)]
    straight = trainer_of()
    expected = [straight.update(batch).loss for batch in batches]
    first = trainer_of()
    losses = [first.update(batch).loss for batch in batches[:2]]
    second = trainer_of()
    second.decoder.load_state_dict(first.decoder.state_dict())
    second.restore(first.state())
    assert losses + [second.update(batch).loss for batch in batches[2:]] == expected
