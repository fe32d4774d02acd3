"""What a replica reports, against a twin that walks the engine's real tree; and reports that cannot be true."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from builders.prefix_trees import TreeWriter
from sandlot.core.tokens import packed_ids
from sandlot.model.engine.eviction import eviction_named
from sandlot.model.engine.prefix_log import PrefixLog
from sandlot.model.engine.tree import PrefixTree
from sandlot.model.routing.prefixes import BLOCK_TOKENS, PredictedPrefixes, block_keys
from sandlot.model.routing.reported import ReportedPrefixes, ReportError
from sandlot.model.wire.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, parse_kv_event, parse_kv_events
from sandlot.serve.model.cache import encode_changes

SIZE = 2 * BLOCK_TOKENS


def ids(letters: str) -> list[int]:
    """Each letter is half a key's tokens, so that blocks of the engine end with, between and without whole keys."""
    return [ord(letter) for letter in letters for _ in range(BLOCK_TOKENS // 2)]


def real_keys(tree: PrefixTree) -> set[bytes]:
    """The slow way: the keys of every path in the tree."""
    found: set[bytes] = set()
    for node in tree._owners.values():
        path = b"".join(reversed([each.tokens for each in node.path()]))
        found |= set(block_keys(path))
    return found


class Reader:
    """Follows a log through JSON, as a router does."""

    def __init__(self) -> None:
        self.stream, self.after = "", 0
        self.view = ReportedPrefixes(10_000 * BLOCK_TOKENS)
        self.num_snapshots = 0

    def read(self, log: PrefixLog, own: list[bytes] | None = None) -> None:
        """`own` are the keys of a reply that comes while the events are on their way."""
        poll = self.view.recent.begin_poll()
        body = encode_changes(log.read(self.stream, self.after))
        self.view.recent.add(own or ())
        reply = parse_kv_events(body)
        if reply.after is None:
            self.view = ReportedPrefixes(10_000 * BLOCK_TOKENS, self.view.recent)
            self.num_snapshots += 1
        else:
            assert (reply.stream, reply.after, reply.sequence) == (self.stream, self.after, self.after + len(reply.events))
        self.view.apply([parse_kv_event(event) for event in reply.events])
        self.view.recent.end_poll(poll)
        self.stream, self.after = reply.stream, reply.sequence


moves = st.one_of(
    st.tuples(st.just("write"), st.text("abc", min_size=1, max_size=14)),
    st.tuples(st.sampled_from(["own", "read"]), st.text("abc", max_size=8)),
    st.sampled_from([("evict", ""), ("clear", "")]),
)


@given(
    st.lists(moves, max_size=40), st.integers(4, 20), st.sampled_from(["lru", "cost", "turns"]), st.sampled_from([2, 8, 10_000])
)
def test_a_reader_knows_what_the_tree_holds_whatever_happens_and_however_seldom_it_reads(moves, blocks, eviction, most_changes):
    writer = TreeWriter(blocks, eviction_named(eviction), SIZE)
    writer.tree.log = PrefixLog(SIZE, most_changes)
    always, seldom = Reader(), Reader()
    own: set[bytes] = set()
    """Keys of own replies that the seldom reader's last events cannot include."""
    for move, text in moves:
        keys = block_keys(packed_ids(ids(text)))
        match move:
            case "own":
                seldom.view.recent.add(keys)
                own |= set(keys)
            case "write":
                writer.write(ids(text))
            case "evict":
                writer.tree.evict()
            case "clear":
                writer.tree.clear()
            case "read":
                seldom.read(writer.tree.log, keys)
                own = set(keys)
                assert seldom.view.keys == real_keys(writer.tree)
        always.read(writer.tree.log)
        assert always.view.keys == real_keys(writer.tree)
        every = {key for text in "abc" for key in block_keys(packed_ids(ids(text * 8)))} | own | seldom.view.keys
        assert {key for key in every if key in seldom.view} == own | seldom.view.keys
    if most_changes == 10_000:
        assert always.num_snapshots <= 1


@given(st.lists(st.text("ab", min_size=1, max_size=12), max_size=12), st.text("ab", max_size=14))
def test_a_prompt_is_found_as_far_as_the_tree_finds_it_in_whole_keys(written, asked):
    writer = TreeWriter(200, eviction_named("lru"), SIZE)
    reader = Reader()
    for text in written:
        writer.write(ids(text))
    reader.read(writer.tree.log)
    prompt = packed_ids(ids(asked))
    hit = PredictedPrefixes(BLOCK_TOKENS).match(block_keys(prompt), reader.view)
    assert hit.warm == writer.tree.match(prompt).num_tokens // BLOCK_TOKENS * BLOCK_TOKENS


def test_a_restarted_engine_is_read_from_its_beginning():
    reader = Reader()
    for text in ("aaaa", "bbbb"):
        writer = TreeWriter(20, eviction_named("lru"), SIZE)
        writer.write(ids(text))
        reader.read(writer.tree.log)
        assert reader.view.keys == set(block_keys(packed_ids(ids(text))))


def stored(*names: int, parent: int | None = None, tokens: int | None = None, size: int = SIZE) -> BlockStored:
    return BlockStored(
        block_hashes=list(names),
        parent_block_hash=parent,
        token_ids=[7] * (size * len(names) if tokens is None else tokens),
        block_size=size,
    )


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([stored(1), stored(1)], "twice"),
        ([stored(1, 2, 2)], "twice"),
        ([stored(2, parent=1)], "unknown"),
        ([stored(1, tokens=20), stored(2, parent=1)], "not full"),
        ([BlockRemoved(block_hashes=[1])], "not stored"),
        ([stored(1), BlockRemoved(block_hashes=[1, 1])], "not stored"),
        ([stored(1), AllBlocksCleared(), stored(2, parent=1)], "unknown"),
        ([stored(1, size=24)], "24 tokens"),
        ([stored(1, tokens=0)], "0 tokens"),
        ([stored(1, 2, tokens=SIZE)], "do not fill"),
        ([stored(1, tokens=SIZE + 1)], "do not fill"),
        ([stored(name, tokens=1) for name in range(100)], "more than 64"),
        ([stored(*range(100))], "more than 64"),
        ([stored(*range(33))], "tokens"),
    ],
)
def test_events_that_do_not_fit_together_or_are_too_many_are_refused(events, named):
    view = ReportedPrefixes(64 * BLOCK_TOKENS)
    with pytest.raises(ReportError, match=named):
        view.apply(events)


def test_own_replies_count_until_the_events_that_include_them_have_come():
    view = ReportedPrefixes(64 * BLOCK_TOKENS)
    keys = block_keys(packed_ids([7] * SIZE))
    view.recent.add(keys)
    poll = view.recent.begin_poll()
    later = block_keys(packed_ids([8] * SIZE))
    view.recent.add(later)
    view.apply([stored(1)])
    view.recent.end_poll(poll)
    assert all(key in view for key in keys + later)
    view.apply([BlockRemoved(block_hashes=[1])])  # evicted: own replies say nothing against it any more
    assert not any(key in view for key in keys)
    view.recent.add(keys)
    poll = view.recent.begin_poll()
    view.recent.add(keys)  # computed again after the events were asked for
    view.recent.end_poll(poll)
    assert all(key in view for key in keys)
    view.recent.clear()
    assert not any(key in view for key in later)


def test_own_replies_are_remembered_in_bounded_memory():
    view = ReportedPrefixes(4 * BLOCK_TOKENS)
    for number in range(50):
        view.recent.add([number.to_bytes(8, "big")])
    assert [number for number in range(50) if number.to_bytes(8, "big") in view] == [46, 47, 48, 49]
