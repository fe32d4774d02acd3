from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.analysis.tokens.faults import structure_faults
from sandlot.core.branching import DriftKind, branch_off, classify, common_prefix
from sandlot.core.tokens import exact_leaves, held_tokens, packed_ids, token_path
from sandlot.core.trace import Event, Node, Tokens, Trace, text_message
from sandlot.core.types import Role

ids = st.lists(st.integers(0, 3), max_size=12)


@given(ids, ids)
def test_the_common_prefix_is_the_longest(one, other):
    common = common_prefix(one, other)
    assert one[:common] == other[:common]
    assert common == min(len(one), len(other)) or one[common] != other[common]


@given(ids, ids, st.integers(0, 12), st.integers(0, 5))
def test_a_prompt_is_clean_exactly_if_it_extends_what_is_held(held_ids, incoming, begin, most):
    begin = min(begin, len(held_ids))
    drift = classify(held_ids, incoming, [(begin, len(held_ids))], realign_at_most=most)
    assert (drift.kind is DriftKind.CLEAN) == (incoming[: len(held_ids)] == held_ids)
    assert drift.sampled_lost == len(held_ids) - max(begin, min(drift.common, len(held_ids)))
    if drift.kind is DriftKind.REALIGN:
        assert drift.common >= begin
        assert len(held_ids) - drift.common <= most


def test_a_small_difference_in_the_last_turn_is_realigned_and_any_other_is_a_fork():
    held_ids, spans = [1, 2, 3, 4, 5, 6], [(1, 2), (4, 6)]
    assert classify(held_ids, [1, 2, 3, 4, 5, 9, 9], spans).kind is DriftKind.REALIGN
    assert classify(held_ids, [1, 2, 3, 9, 5, 6], spans).kind is DriftKind.FORK  # in what was given before it
    assert classify(held_ids, [1, 9], spans).kind is DriftKind.FORK  # in an earlier turn
    assert classify(held_ids, [1, 2, 3, 4, 9], spans, realign_at_most=1).kind is DriftKind.FORK  # too much of it
    assert classify([], [1], []).kind is DriftKind.CLEAN


def turns(completions):
    """A linear trace: a question, then turns with a question after each."""
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    leaf = trace.append(Node(message=text_message(Role.USER, "?")))
    for given_ids, sampled in completions:
        num = len(sampled)
        tokens = Tokens(ids=packed_ids(sampled), logprobs=packed_ids([-1] * num), mask=b"\x01" * num, versions=((num, 0),))
        turn = Node(
            message=text_message(Role.ASSISTANT, "!"), parent=leaf, sampled=True, context=packed_ids(given_ids), tokens=tokens
        )
        leaf = trace.append(Node(message=text_message(Role.USER, "?"), parent=trace.append(turn)))
    return trace, leaf


@settings(deadline=None)
@given(st.lists(st.tuples(ids, ids.filter(bool)), min_size=1, max_size=4), ids, st.integers(0, 60))
def test_a_branch_joins_to_the_prompt_again_and_leaves_every_sampled_token_where_it_was(completions, tail, at):
    trace, leaf = turns(completions)
    before = list(trace.nodes)
    incoming = held_tokens(trace, leaf).ids[:at] + tail
    branch = branch_off(trace, leaf, incoming)
    assert trace.nodes[: len(before)] == before
    assert incoming[: len(branch.ids)] == branch.ids
    assert [node.message for node in trace.path(branch.leaf)] == [node.message for node in trace.path(leaf)]
    said_next = Tokens(ids=packed_ids([7]), logprobs=packed_ids([-1]), mask=b"\x01", versions=((1, 0),))
    context = packed_ids(incoming[len(branch.ids) :])
    node = Node(message=text_message(Role.ASSISTANT, "!"), parent=branch.leaf, sampled=True, context=context, tokens=said_next)
    last = trace.append(node)
    assert token_path(trace, last).ids.tolist() == [*incoming, 7]
    trained = [token for end in exact_leaves(trace) for token in _trained(trace, end)]
    assert len(set(trained)) == sum(len(node.tokens) for node in trace.turns())  # by node and place: each token once
    trace.events.append(Event(kind="drift", turn=0))
    assert not [fault for fault in structure_faults(trace) if fault.code not in {"logprob_value", "doubled", "history_again"}]


def _trained(trace, leaf):
    path = token_path(trace, leaf)
    kept = held_tokens(trace, leaf)
    places = [(node, place) for node, (begin, end) in zip(kept.nodes, kept.spans, strict=True) for place in range(end - begin)]
    assert len(places) == int(path.mask.sum())
    return places
