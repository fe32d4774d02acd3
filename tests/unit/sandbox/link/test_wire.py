"""The parser of what sandboxes send, fed with honest and hostile bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import SandboxError
from sandlot.sandbox.link.wire import (
    FRAME_MAX,
    Frame,
    FrameKind,
    FrameReader,
    ListingEntry,
    pack_frame,
    pack_text,
    take_entries,
    take_exit,
    take_failure,
    take_number,
)

frames = st.lists(st.tuples(st.sampled_from(list(FrameKind)), st.integers(0, 2**32 - 1), st.binary(max_size=300)), max_size=8)


@given(frames, st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_frames_survive_any_cutting(items, cuts):
    data = b"".join(pack_frame(*item) for item in items)
    reader, seen, at, turn = FrameReader(), [], 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        seen += reader.feed(data[at : at + step])
        at, turn = at + step, turn + 1
    assert seen == [Frame(int(kind), channel, payload) for kind, channel, payload in items]


@given(st.binary(max_size=500))
def test_hostile_bytes_are_frames_or_a_sandbox_error(data):
    with suppress(SandboxError):
        for item in FrameReader().feed(data):
            assert len(item.payload) <= len(data)


@given(st.binary(max_size=300))
@pytest.mark.parametrize("parse", [take_entries, take_exit, take_failure, take_number])
def test_hostile_payloads_are_values_or_a_sandbox_error(parse, data):
    with suppress(SandboxError):
        parse(data)


@pytest.mark.parametrize("length", [0, 4, FRAME_MAX + 1, 2**32 - 1])
def test_an_impossible_length_is_refused_before_anything_is_gathered(length):
    with pytest.raises(SandboxError, match="impossible length"):
        FrameReader().feed(length.to_bytes(4, "little"))


def test_a_frame_that_is_too_long_is_not_sent():
    with pytest.raises(ValueError, match="longer than"):
        pack_frame(FrameKind.INPUT, 1, b"x" * FRAME_MAX)


entries = st.builds(
    ListingEntry,
    path=st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    kind=st.sampled_from("fdlot-"),
    image_kind=st.sampled_from("fdlo-"),
    mode=st.integers(0, 2**32 - 1),
    uid=st.integers(0, 2**32 - 1),
    gid=st.integers(0, 2**32 - 1),
    size=st.integers(0, 2**64 - 1),
    mtime_ns=st.integers(0, 2**64 - 1),
    image_size=st.integers(0, 2**64 - 1),
)


def packed(entry: ListingEntry) -> bytes:
    """The slow, obvious twin of what files.c writes."""
    numbers = ((entry.mode, 4), (entry.uid, 4), (entry.gid, 4), (entry.size, 8), (entry.mtime_ns, 8), (entry.image_size, 8))
    head = entry.kind.encode() + entry.image_kind.encode()
    return head + b"".join(value.to_bytes(width, "little") for value, width in numbers) + pack_text(entry.path)


@given(st.lists(entries, max_size=5))
def test_listings_are_read_as_they_were_written(items):
    assert take_entries(b"".join(packed(item) for item in items)) == items


@given(st.lists(entries, min_size=1, max_size=3), st.integers(1, 60))
def test_a_listing_cut_short_is_refused(items, cut):
    data = b"".join(packed(item) for item in items)
    boundaries = {sum(len(packed(item)) for item in items[:count]) for count in range(len(items) + 1)}
    kept = max(0, len(data) - cut)
    if kept in boundaries:
        assert take_entries(data[:kept]) == items[: sorted(boundaries).index(kept)]
    else:
        with pytest.raises(SandboxError):
            take_entries(data[:kept])
