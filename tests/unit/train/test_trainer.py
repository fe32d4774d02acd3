"""Settings of the trainer that exclude each other."""

import pytest
import torch

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape
from sandlot.train.parallel.ranks import Ranks
from sandlot.train.trainer import Optimisation, Trainer

SHAPE = Shape(family="llama", vocabulary=11, hidden=8, layers=1, heads=2, kv_heads=1, head=4, mlp=8, context=16)


def test_several_processes_cannot_compile():
    with pytest.raises(ValueError, match="one process"):
        Trainer(Decoder(SHAPE), Optimisation(compiled=True), ranks=Ranks(count=2, device=torch.device("cpu")))
