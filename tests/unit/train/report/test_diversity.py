"""Diversity of rollouts within groups: the figures agree with the slow and obvious way to count them."""

import math
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.traces import failed, make_trace
from sandlot.core.trace import Message, Node, Text, ToolCall, Trace
from sandlot.core.types import Role
from sandlot.train.report.diversity import MEMBERS, actions_of, distance, diversity_of, entropy, first_call, mean_distance

WORDS = st.text("abc", min_size=1, max_size=1)
SEQUENCES = st.lists(WORDS, max_size=6).map(tuple)


def acted(task: str, rollout: int, *turns) -> Trace:
    """A rollout whose turns are calls (name, arguments) or words."""
    trace = make_trace(task, rollout)
    trace.nodes.clear()
    for number, turn in enumerate(turns):
        part = Text(turn) if isinstance(turn, str) else ToolCall(id=f"c{rollout}.{number}", name=turn[0], arguments=turn[1])
        trace.append(
            Node(message=Message(role=Role.ASSISTANT, parts=(part,)), parent=number - 1 if number else None, sampled=True)
        )
    return trace


def slow_distance(one, other) -> float:
    @cache
    def edits(a, b):
        if a == len(one) or b == len(other):
            return len(one) - a + len(other) - b
        return min(edits(a + 1, b) + 1, edits(a, b + 1) + 1, edits(a + 1, b + 1) + (one[a] != other[b]))

    return edits(0, 0) / max(len(one), len(other)) if one or other else 0.0


@settings(deadline=None)
@given(SEQUENCES, SEQUENCES)
def test_the_distance_is_the_fewest_edits_of_all(one, other):
    assert distance(one, other) == slow_distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= 1
    assert (distance(one, other) == 0) == (one == other)


@settings(deadline=None)
@given(st.lists(SEQUENCES, min_size=2, max_size=12))
def test_the_mean_distance_is_over_all_pairs_of_the_first_members(members):
    pairs = list(combinations(members[:MEMBERS], 2))
    assert mean_distance(members) == pytest.approx(sum(slow_distance(*pair) for pair in pairs) / len(pairs))


@given(st.lists(WORDS, max_size=12))
def test_entropy_is_that_of_the_shares(values):
    shares = [values.count(value) / len(values) for value in set(values)]
    assert entropy(values) == pytest.approx(-sum(share * math.log(share) for share in shares), abs=1e-12)
    assert 0 <= entropy(values) <= math.log(max(1, len(values))) + 1e-12


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), SEQUENCES.filter(bool)), max_size=12))
def test_a_step_is_the_mean_of_its_groups(rollouts):
    traces = [acted(f"t{task}", number, *words) for number, (task, words) in enumerate(rollouts)]
    groups = [group for task in range(3) if len(group := [words for own, words in rollouts if own == task]) > 1]
    found = diversity_of([[trace for trace in traces if trace.task == f"t{task}"] for task in range(3)])
    if not groups:
        assert found is None
        return
    assert found.groups == len(groups)
    assert found.distinct == pytest.approx(sum(len(set(group)) / len(group) for group in groups) / len(groups))
    assert found.first_entropy == 0, "nobody called a tool"


def test_calls_are_compared_with_their_arguments_and_whatever_their_order():
    one, other = acted("t", 0, ("run", {"a": 1, "b": 2}), "done"), acted("t", 1, ("run", {"b": 2, "a": 1}), " done ")
    assert actions_of(one) == actions_of(other) == ('run {"a":1,"b":2}', "done")
    found = diversity_of([[one, other]])
    assert (found.distinct, found.distance, found.first_entropy) == (0.5, 0.0, 0.0)
    third = acted("t", 2, "let me think", ("look", {}), "done")
    assert first_call(third) == "look {}"
    found = diversity_of([[one, third]])
    assert found.distinct == 1
    assert found.first_entropy == pytest.approx(math.log(2))
    assert found.distance == pytest.approx(2 / 3)


def test_a_rollout_without_a_score_is_not_compared():
    lost = acted("t", 1, "b")
    lost.outcome = failed()
    assert diversity_of([[acted("t", 0, "a"), lost]]) is None
    assert diversity_of([]) is None
