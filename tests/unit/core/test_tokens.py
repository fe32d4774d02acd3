import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.analysis.tokens.faults import structure_faults
from sandlot.core.tokens import NO_VERSION, exact_leaves, held_tokens, packed_ids, path_indices, token_path, unpacked_ids
from sandlot.core.trace import Event, Message, Node, Text, Tokens, Trace
from sandlot.core.types import Role

ids = st.lists(st.integers(0, 2**31 - 1), max_size=4)
some_ids = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4)


@given(ids)
def test_ids_survive_being_stored_as_little_endian_int32(numbers):
    assert unpacked_ids(packed_ids(numbers)) == numbers
    assert np.frombuffer(packed_ids(numbers), "<i4").tolist() == numbers


@st.composite
def trees(draw):
    """Random trees: environment nodes, exact turns, and turns whose ids nobody knows."""
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    for index in range(draw(st.integers(1, 12))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        kind = draw(st.sampled_from(["given", "sampled", "spoken"]))
        role = Role.USER if kind == "given" else Role.ASSISTANT
        message = Message(role=role, parts=(Text(str(index)),))
        if kind != "sampled":
            trace.append(Node(message=message, parent=parent, sampled=kind == "spoken"))
            continue
        sampled = draw(some_ids)
        logprobs = np.asarray([-0.5 - index] * len(sampled), "<f4").tobytes()
        tokens = Tokens(ids=packed_ids(sampled), logprobs=logprobs, mask=b"\x01" * len(sampled), versions=((len(sampled), 3),))
        trace.append(Node(message=message, parent=parent, sampled=True, context=packed_ids(draw(ids)), tokens=tokens))
    return trace


def obvious(trace, leaf):
    """The path's rows, one token at a time."""
    rows = []
    for index in path_indices(trace, leaf):
        node = trace.nodes[index]
        if node.sampled and node.tokens:
            rows += [(token, None, 0, NO_VERSION, index) for token in unpacked_ids(node.context)]
            logprobs = node.tokens.logprobs_array().tolist()
            rows += [(token, value, 1, 3, index) for token, value in zip(unpacked_ids(node.tokens.ids), logprobs, strict=True)]
    return rows


@settings(deadline=None)
@given(trees())
def test_a_path_is_its_contexts_and_completions_joined(trace):
    for leaf in range(len(trace.nodes)):
        path, rows = token_path(trace, leaf), obvious(trace, leaf)
        assert len(path) == len(rows)
        columns = zip(path.ids, path.logprobs, path.mask, path.versions, path.nodes, strict=True)
        for (token, logprob, mask, version, node), row in zip(columns, rows, strict=True):
            assert (token, mask, version, node) == (row[0], *row[2:])
            assert math.isnan(logprob) if row[1] is None else logprob == row[1]
        kept = held_tokens(trace, leaf)
        assert kept.ids == path.ids.tolist()
        sampled = [token for begin, end in kept.spans for token in kept.ids[begin:end]]
        assert sampled == path.ids[path.mask == 1].tolist()


@settings(deadline=None)
@given(trees())
def test_the_paths_of_all_leaves_cover_every_sampled_token(trace):
    covered = {index for leaf in exact_leaves(trace) for index in path_indices(trace, leaf)}
    assert {index for index, node in enumerate(trace.nodes) if node.sampled and node.tokens} <= covered
    ends = list(exact_leaves(trace))
    assert not any(one in path_indices(trace, other)[:-1] for one in ends for other in ends)


@settings(deadline=None)
@given(trees())
def test_a_tree_is_faultless_exactly_if_its_turns_are_exact_and_its_branches_are_told(trace):
    spoken = [index for index, node in enumerate(trace.nodes) if node.sampled and not node.tokens]
    codes = [fault.code for fault in structure_faults(trace)]
    assert codes.count("no_ids") == len(spoken)
    num_forks = len(list(exact_leaves(trace))) - 1
    assert ("silent_fork" in codes) == (num_forks > 0)
    for num_told in range(1, num_forks + 1):
        trace.events.append(Event(kind="drift", turn=0))
        assert ("silent_fork" in [fault.code for fault in structure_faults(trace)]) == (num_told < num_forks)


def test_an_empty_trace_has_an_empty_path():
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    assert len(token_path(trace)) == 0
    assert list(exact_leaves(trace)) == []
    assert structure_faults(trace) == []
