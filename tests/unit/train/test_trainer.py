"""Settings of the trainer that exclude each other."""

import pytest
import torch

from sandlot.core.errors import ConfigError
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape
from sandlot.train.parallel.ranks import Ranks
from sandlot.train.trainer import Optimisation, Trainer

SHAPE = Shape(family="llama", vocabulary=11, hidden=8, layers=1, heads=2, kv_heads=1, head=4, mlp=8, context=16)


def test_several_processes_cannot_compile():
    with pytest.raises(ValueError, match="one process"):
        Trainer(Decoder(SHAPE), Optimisation(compiled=True), ranks=Ranks(count=2, device=torch.device("cpu")))


def test_an_unknown_word_for_recomputation_is_refused():
    with pytest.raises(ConfigError, match='recompute is True; give one of "nothing", "all but attention", "everything"'):
        Optimisation(recompute=True)


@pytest.mark.parametrize("stored", [True, False, None], ids=["a GPU", "a CPU", "an older version"])
def test_the_optimiser_computes_in_the_way_of_its_own_device_whatever_stored_its_state(stored):
    first = Trainer(Decoder(SHAPE), Optimisation())
    learn(first)
    state = first.state()
    state["optimiser"]["param_groups"][0]["fused"] = stored
    again = Trainer(first.decoder, Optimisation())
    again.restore(state)
    assert again.optimiser.param_groups[0]["fused"] is None
    before = [weight.clone() for weight in again.parameters]
    learn(again)
    assert not any(torch.equal(one, other) for one, other in zip(before, again.parameters, strict=True))
    assert {float(entry["step"]) for entry in again.optimiser.state.values()} == {2.0}


def learn(trainer: Trainer) -> None:
    for weight in trainer.parameters:
        weight.grad = torch.ones_like(weight)
    trainer.optimiser.step()
