"""Which sampled tokens are trained: those of a learning agent that its mask allows."""

import numpy as np
import pytest

from sandlot.core.trace import Message, Node, Text, Tokens, Trace
from sandlot.core.types import Role
from sandlot.train.rows import rows_of


def said(parent: int, ids: list[int], mask: bytes, agent: str = "agent") -> Node:
    logprobs = np.full(len(ids), -0.5, "<f4").tobytes()
    tokens = Tokens(ids=np.array(ids, "<i4").tobytes(), logprobs=logprobs, mask=mask, versions=((len(ids), 3),))
    message = Message(role=Role.ASSISTANT, parts=(Text("x"),), agent=agent)
    return Node(message=message, parent=parent, sampled=True, context=np.array([90], "<i4").tobytes(), tokens=tokens)


def trained(*nodes: Node, **asked) -> list[int]:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=Message(role=Role.USER, parts=(Text("go"),))))
    for node in nodes:
        trace.append(node)
    (row,) = rows_of(trace, **asked)
    return row.ids[row.trained].tolist()


@pytest.mark.parametrize(("mask", "ids"), [(b"\1\1\1", [1, 2, 3]), (b"\1\0\1", [1, 3]), (b"\0\0\0", []), (b"", [])])
def test_a_token_whose_mask_is_0_is_context(mask, ids):
    assert trained(said(0, [1, 2, 3], mask)) == ids


def test_what_another_agent_sampled_is_context():
    talk = (said(0, [1], b"\1"), said(1, [2], b"\1", agent="rival"), said(2, [3], b"\1"))
    assert trained(*talk) == [1, 3]
    assert trained(*talk, learners=("rival",)) == [2]
