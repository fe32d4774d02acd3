"""Each seat of a rollout is checked as the single agent that it is trained as."""

import msgspec
import numpy as np
import pytest

from sandlot.analysis.tokens.faults import FaultCode, structure_faults
from sandlot.core.seats import begin_seat, join_seats
from sandlot.core.trace import Node, Tokens, Trace, text_message
from sandlot.core.types import Role


def turn(token: int, mask: int = 1) -> Node:
    ids, logprobs = np.array([token, token], "<i4").tobytes(), np.full(2, -1.0, "<f4").tobytes()
    tokens = Tokens(ids=ids, logprobs=logprobs, mask=bytes([mask] * 2), versions=((2, 0),))
    context = np.array([900], "<i4").tobytes()
    return Node(message=text_message(Role.ASSISTANT, "So."), parent=0, sampled=True, context=context, tokens=tokens)


def joined(*turns: list[Node]) -> Trace:
    """A seat for each list; all its turns answer its first message."""
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    seats = [begin_seat(trace, f"seat{number}") for number in range(len(turns))]
    for seat, nodes in zip(seats, turns, strict=True):
        seat.append(Node(message=text_message(Role.USER, "go")))
        for node in nodes:
            seat.append(msgspec.structs.replace(node))
    join_seats(trace, seats)
    return trace


def test_honest_seats_have_no_fault():
    assert structure_faults(joined([turn(1)], [turn(2)])) == []


def test_a_turn_of_a_seat_that_is_masked_out_is_found():
    trace = joined([turn(1)], [turn(2, mask=0)])
    (fault,) = structure_faults(trace)
    assert fault.code is FaultCode.MASK_VALUE
    assert trace.nodes[fault.node].message.agent == "seat1"


@pytest.mark.parametrize("others", [[], [turn(3)]])
def test_a_seat_has_no_branch_to_spare_for_another(others):
    trace = joined(others, [turn(1), turn(2)])
    found = [fault for fault in structure_faults(trace) if fault.code is FaultCode.SILENT_FORK]
    assert [trace.nodes[fault.node].message.agent for fault in found] == ["seat1"]


def test_a_doubled_turn_is_named_by_its_place_in_the_stored_trace():
    trace = joined([turn(5)], [turn(1), turn(1)])
    (fault,) = [fault for fault in structure_faults(trace) if fault.code is FaultCode.DOUBLED]
    first, second = (index for index in trace.seats["seat1"].nodes if trace.nodes[index].sampled)
    assert (fault.node, fault.detail) == (second, f"the same tokens as node {first}, with the same parent")
