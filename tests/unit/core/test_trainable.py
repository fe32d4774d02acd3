"""Which traces can be trained on: those whose every turn has its exact tokens with a log-probability each."""

import pytest

from builders.traces import make_trace
from sandlot.core.tokens import packed_ids
from sandlot.core.trace import Node, Tokens, text_message
from sandlot.core.types import Role

EXACT = Tokens(ids=packed_ids([1, 2]), logprobs=bytes(8), mask=b"\1\1", versions=((2, 0),))
GIVEN = Node(message=text_message(Role.USER, "Go."))


def said(tokens: Tokens | None) -> Node:
    return Node(message=text_message(Role.ASSISTANT, "Done."), sampled=True, tokens=tokens)


@pytest.mark.parametrize(
    ("nodes", "trainable"),
    [
        ([GIVEN, said(EXACT)], True),
        ([GIVEN, said(EXACT), GIVEN, said(EXACT)], True),
        ([GIVEN], False),
        ([GIVEN, said(None)], False),
        ([GIVEN, said(EXACT), GIVEN, said(None)], False),
        ([GIVEN, said(Tokens(ids=packed_ids([1, 2])))], False),
        ([GIVEN, said(Tokens(ids=packed_ids([1, 2]), logprobs=bytes(4)))], False),
    ],
)
def test_every_turn_needs_its_tokens_and_their_log_probabilities(nodes, trainable):
    trace = make_trace()
    trace.nodes = nodes
    assert trace.trainable is trainable
