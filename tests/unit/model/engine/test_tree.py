"""The prefix tree against a twin that is a set of all prefixes it was ever given."""

import hypothesis.strategies as st
from hypothesis import given

from builders.prefix_trees import TreeWriter, spelled
from fakes.engine_twin import check_blocks
from sandlot.model.engine.eviction import ByCost, LeastRecent, eviction_named

SIZE = 3


texts = st.lists(st.integers(0, 2), min_size=1, max_size=11)


@given(st.lists(texts, max_size=12), texts)
def test_the_longest_prefix_ever_written_is_found(written, asked):
    writer = TreeWriter(200, ByCost())
    for ids in written:
        writer.write(ids)
    prefixes = {tuple(ids[:count]) for ids in written for count in range(len(ids) + 1)} | {()}
    longest = max(count for count in range(len(asked) + 1) if tuple(asked[:count]) in prefixes)
    match = writer.tree.match(spelled(asked))
    assert match.num_tokens == longest
    assert len(match.blocks) * SIZE == match.node.depth


@given(st.lists(texts, max_size=30), st.integers(4, 12), st.sampled_from(["lru", "cost", "turns"]))
def test_what_is_found_was_written_whatever_was_evicted(written, blocks, name):
    writer = TreeWriter(blocks, eviction_named(name, attention=0.1))
    prefixes = {()}
    for ids in written:
        match = writer.tree.match(spelled(ids))
        assert tuple(ids[: match.num_tokens]) in prefixes
        writer.write(ids)
        prefixes |= {tuple(ids[:count]) for count in range(len(ids) + 1)}
        check_blocks(writer.blocks)
        assert len(writer.tree) == writer.blocks.num_idle == blocks - writer.blocks.num_free
    while writer.tree.evict():
        check_blocks(writer.blocks)
    assert writer.blocks.num_free == blocks
    assert not len(writer.tree)


orders = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2), texts),
    st.tuples(st.just("pin"), st.integers(0, 2), texts),
    st.tuples(st.just("forget"), st.integers(0, 2), st.just([])),
)


@given(st.lists(orders, max_size=30), st.integers(4, 40))
def test_roots_share_nothing_and_one_is_forgotten_alone(orders, blocks):
    writer, prefixes = TreeWriter(blocks, ByCost()), {root: {()} for root in range(3)}
    for order, root, ids in orders:
        if order == "forget":
            others = {node.block for node in writer.tree._owners.values() if top(node) is not writer.tree._roots.get(root)}
            writer.tree.forget(root)
            prefixes[root] = {()}
            assert set(writer.tree._owners) == others
        else:
            match = writer.tree.match(spelled(ids), root)
            assert tuple(ids[: match.num_tokens]) in prefixes[root]
            writer.write(ids, root)
            prefixes[root] |= {tuple(ids[:count]) for count in range(len(ids) + 1)}
            if order == "pin":
                writer.tree.pin(f"session {len(ids) % 2}", writer.tree.match(spelled(ids), root).node)
        check_blocks(writer.blocks)
        assert len(writer.tree) == writer.blocks.num_idle == blocks - writer.blocks.num_free
        assert writer.tree.num_pinned == sum(node.pins > 0 for node in writer.tree._owners.values())
        assert all(node.block in writer.tree._owners for node in writer.tree._sessions.values())
    while writer.tree.evict():
        pass
    assert writer.blocks.num_free == blocks


def top(node):
    while node.parent is not None:
        node = node.parent
    return node


@given(st.lists(st.tuples(texts, st.sampled_from("abc"), st.booleans()), max_size=25), st.integers(4, 9))
def test_pins_never_stop_progress_and_are_counted(orders, blocks):
    writer = TreeWriter(blocks, ByCost(running=1e6))
    for ids, session, release in orders:
        writer.write(ids)
        writer.tree.pin(session, writer.tree.match(spelled(ids)).node)
        if release:
            writer.tree.unpin(session)
        assert writer.tree.num_pinned == sum(node.pins > 0 for node in writer.tree._owners.values())
    for session in "abc":
        writer.tree.unpin(session)
    assert writer.tree.num_pinned == 0
    assert all(not node.pins and not node.sessions for node in writer.tree._owners.values())
    while writer.tree.evict():
        pass
    assert writer.blocks.num_free == blocks


def test_a_pinned_session_outlives_one_that_nobody_waits_for():
    writer = TreeWriter(6, ByCost(running=8.0))
    writer.write([1] * 9)
    writer.tree.pin("waits", writer.tree.match(spelled([1] * 9)).node)
    for other in range(2, 6):
        writer.write([other] * 9)
    assert writer.write([1] * 9) == 0
    writer.tree.unpin("waits")
    for other in range(2, 6):
        writer.write([other] * 9)
    assert writer.write([1] * 9) == 9


def test_what_only_an_ended_rollout_has_used_goes_first():
    writer = TreeWriter(6, eviction_named("turns"))
    for session, ids in (("one", [1] * 6 + [2] * 3), ("two", [1] * 6 + [3] * 3)):  # they share a prompt
        writer.write(ids)
        writer.tree.pin(session, writer.tree.match(spelled(ids)).node)
    writer.write([4] * 6)  # newer than both
    writer.tree.release("two")
    assert writer.tree.evict()
    assert writer.tree.match(spelled([1] * 6 + [3] * 3)).num_tokens == 6
    writer.tree.release("one")
    assert writer.tree.evict()
    assert writer.tree.match(spelled([1] * 6 + [2] * 3)).num_tokens == 6  # the prompt had two users: it may have more
    assert writer.tree.match(spelled([4] * 6)).num_tokens == 6


def test_a_block_of_an_ended_rollout_that_another_uses_is_kept_again():
    writer = TreeWriter(4, eviction_named("turns"))
    writer.write([1] * 6)
    writer.tree.pin("one", writer.tree.match(spelled([1] * 6)).node)
    writer.tree.release("one")
    assert all(node.has_ended for node in writer.tree._owners.values())
    writer.write([1] * 6)
    assert not any(node.has_ended for node in writer.tree._owners.values())


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6))
def test_by_recent_use_it_is_what_a_list_of_uses_says(uses, blocks):
    writer = TreeWriter(blocks, LeastRecent())
    recent: list[int] = []
    for use in uses:
        assert writer.write([use] * SIZE) == (0 if use in recent else SIZE)
        recent = [other for other in recent if other != use] + [use]
        recent = recent[-blocks:]


def test_deep_blocks_are_dearer_than_shallow_ones_of_the_same_age():
    writer = TreeWriter(8, ByCost(attention=1.0))
    writer.write([1] * 15)
    writer.write([2] * 9)
    assert writer.tree.evict()
    assert writer.tree.match(spelled([1] * 15)).num_tokens == 15
    assert writer.tree.match(spelled([2] * 9)).num_tokens == 6


def test_what_runs_is_never_evicted():
    writer = TreeWriter(2, ByCost())
    writer.write([1] * 6)
    match = writer.tree.match(spelled([1] * 6))
    for block in match.blocks:
        writer.blocks.hold(block)
    assert not writer.tree.evict()
    writer.blocks.drop(match.blocks[1])
    assert writer.tree.evict()
    assert not writer.tree.evict()


def test_clearing_forgets_everything_at_once():
    writer = TreeWriter(9, ByCost())
    writer.write([1, 2, 3, 4])
    writer.tree.pin("a", writer.tree.match(spelled([1, 2, 3])).node)
    writer.tree.clear()
    assert writer.tree.match(spelled([1, 2, 3, 4])).num_tokens == 0
    assert writer.blocks.num_free == 9
    assert writer.tree.num_pinned == 0
    writer.tree.unpin("a")


def test_sessions_nobody_releases_do_not_pile_up():
    writer = TreeWriter(8, ByCost())
    writer.write([1] * 9)
    node = writer.tree.match(spelled([1] * 9)).node
    for number in range(1000):
        writer.tree.pin(f"session {number}", node)
    assert len(node.sessions) <= 8
    assert "session 999" in node.sessions
