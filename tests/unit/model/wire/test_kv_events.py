"""Cache events as a server writes them, and what is not taken for such."""

import json

import pytest

from sandlot.model.wire.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, parse_kv_event, parse_kv_events

STORED = {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": [5, 6], "block_size": 16}


def reply(**fields) -> bytes:
    return json.dumps({"stream": "s1", "after": None, "sequence": 3, "events": []} | fields).encode()


def parsed(body: bytes) -> list:
    return [parse_kv_event(event) for event in parse_kv_events(body).events]


def test_the_events_have_vllms_names_and_fields():
    removed, cleared = {"type": "BlockRemoved", "block_hashes": [1]}, {"type": "AllBlocksCleared"}
    events = parsed(reply(events=[STORED | {"lora_id": None, "medium": "GPU"}, removed, cleared]))
    stored = BlockStored(block_hashes=[1], parent_block_hash=None, token_ids=[5, 6], block_size=16)
    assert events == [stored, BlockRemoved(block_hashes=[1]), AllBlocksCleared()]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"events": ' + b"[" * 200_000,
        reply(stream=""),
        reply(stream="../../v1/models"),
        reply(stream="a" * 1000),
        reply(stream="a b\r\nX: y"),
        reply(stream="s1\n"),
        reply(stream="\ns1"),
        reply(stream="s1\nX: y"),
        reply(sequence=-1),
        reply(sequence=2**60),
        reply(sequence=1e300),
        reply(after="1"),
        reply(events=[{"type": "Other"}]),
        reply(events=[5]),
        reply(events=[]).replace(b"[]", b"[" + b"[" * 200_000 + b"]" * 200_000 + b"]"),
        reply(events=[STORED | {"token_ids": [-1]}]),
        reply(events=[STORED | {"token_ids": [2**31]}]),
        reply(events=[STORED | {"token_ids": [10**100]}]),
        reply(events=[STORED | {"token_ids": [0.5]}]),
        reply(events=[STORED | {"block_hashes": []}]),
        reply(events=[STORED | {"block_hashes": [2**64]}]),
        reply(events=[STORED | {"block_size": 0}]),
        reply(events=[STORED | {"block_size": 2**40}]),
        reply(events=[{"type": "AllBlocksCleared"}] * (2**18 + 1)),
    ],
)
def test_what_is_no_reply_is_a_value_error(body):
    with pytest.raises(ValueError):
        parsed(body)
