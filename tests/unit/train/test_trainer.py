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
