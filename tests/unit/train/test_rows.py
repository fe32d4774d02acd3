"""Rows of traces: each sampled token is trained exactly once, and only scored rollouts are compared."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.traces import cancelled, failed
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.seats import begin_seat, join_seats
from sandlot.core.trace import Node, Scored, Tokens, Trace, text_message
from sandlot.core.types import Role
from sandlot.train.algorithms.token_weights import token_weights
from sandlot.train.rows import group_of, rows_of, split_by_seat


def node(parent, text, given, ids):
    tokens = Tokens(
        ids=np.array(ids, "<i4").tobytes(),
        logprobs=np.full(len(ids), -1.0, "<f4").tobytes(),
        mask=bytes([1] * len(ids)),
        versions=((len(ids), 3),),
    )
    context = np.array(given, "<i4").tobytes()
    return Node(message=text_message(Role.ASSISTANT, text), parent=parent, sampled=True, context=context, tokens=tokens)


def tree(parents, sizes) -> Trace:
    """A tree of turns; each token id says which turn sampled it."""
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, "go")))
    for number, (parent, size) in enumerate(zip(parents, sizes, strict=True)):
        trace.append(node(parent, f"turn {number}", [900, 901] if parent == 0 else [902], [number] * size))
    trace.outcome = Scored(RubricScore(points=1, possible=1, value=1.0))
    return trace


@given(st.data())
def test_forks_train_each_sampled_token_exactly_once(data):
    count = data.draw(st.integers(1, 7))
    parents = [0, *(data.draw(st.integers(0, number)) for number in range(1, count))]
    sizes = [data.draw(st.integers(1, 4)) for _ in range(count)]
    rows = rows_of(tree(parents, sizes))
    trained = np.concatenate([row.ids[row.trained] for row in rows])
    assert sorted(trained.tolist()) == sorted(number for number, size in enumerate(sizes) for _ in range(size))
    assert all((row.versions[row.trained] == 3).all() and (row.turns[row.trained] == row.ids[row.trained]).all() for row in rows)
    assert not any(row.trained[row.ids >= 900].any() for row in rows)


def test_a_talkative_seat_does_not_take_the_weight_of_the_other():
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    spoken = [begin_seat(trace, name) for name in ("brief", "talkative")]
    for seat, size in zip(spoken, (1, 9), strict=True):
        seat.append(Node(message=text_message(Role.USER, "go")))
        seat.append(node(0, "turn", [900], [7] * size))
    join_seats(trace, spoken)
    score = RubricScore(points=1, possible=1, value=1.0)
    trace.outcome = Scored(score)
    trace.seats = {name: msgspec.structs.replace(record, score=score) for name, record in trace.seats.items()}
    rows = [row for (own,) in split_by_seat([trace], ("brief", "talkative")) for row in rows_of(own)]
    assert [weights.sum() for weights in token_weights(rows, "rollout")] == pytest.approx([0.5, 0.5])
    assert rows_of(tree([0], [2]))[0].rollout == ("t", 0)  # without seats, the rollout's


def test_failed_and_cancelled_rollouts_never_enter_a_group():
    traces = [tree([0], [2]) for _ in range(4)]
    traces[1].outcome, traces[2].outcome = failed(), cancelled()
    group = group_of("t", traces)
    assert (len(group.members), group.dropped) == (2, 2)
    assert group.rewards.tolist() == [1.0, 1.0]
    assert not group.informative


def test_a_failed_rollout_without_tokens_spoils_nothing():
    broken = Trace(run="r", task="t", rollout=1, seed=0, outcome=failed())
    assert group_of("t", [tree([0], [1]), broken]).dropped == 1


def test_a_trace_without_ids_is_refused():
    trace = tree([0], [1])
    trace.append(Node(message=text_message(Role.ASSISTANT, "spoken"), parent=1, sampled=True))
    with pytest.raises(ConfigError, match="cannot be trained on"):
        rows_of(trace)
