"""A step on a part of a batch weighs as much as a step on the whole."""

import numpy as np
import pytest
import torch

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Reinforce
from sandlot.train.rows import Group, Member, Row
from sandlot.train.trainer import Optimisation, Trainer

SHAPE = Shape(family="llama", vocabulary=11, hidden=8, layers=1, heads=2, kv_heads=1, head=4, mlp=8, context=16)


def group(task: str) -> Group:
    """Two rollouts of the same tokens in every group, one better than the other."""
    members = []
    for number, ids in enumerate(([1, 2, 3, 4], [1, 2, 5, 6])):
        row = Row(
            rollout=(task, number),
            ids=np.array(ids, np.int32),
            trained=np.array([False, False, True, True]),
            logprobs=np.zeros(4, np.float32),
            versions=np.array([-1, -1, 0, 0], np.int32),
            turns=np.array([-1, -1, 0, 0], np.int32),
        )
        members.append(Member(reward=float(number), rows=(row,)))
    return Group(task=task, members=tuple(members))


def test_the_gradient_of_a_minibatch_is_that_of_the_batch_if_all_groups_are_alike():
    torch.manual_seed(0)
    decoder = Decoder(SHAPE)
    examples = PolicyGradient(loss=Reinforce())([group("a"), group("b"), group("c")])
    norms = [
        Trainer(decoder, Optimisation(learning_rate=0.0, minibatches=minibatches)).update(examples).norm for minibatches in (1, 3)
    ]
    assert norms[0] > 0
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
