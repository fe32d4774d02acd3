"""What a server's prefix cache stores and drops, as `/v1/kv_events` of our own server tells it.

The events have the names and fields of vLLM's KV events, in JSON. They are numbered from 1; `sequence` is the number of the last
one. A reply goes on after the number that was asked for (`after`), or it is a snapshot (`after` is null): then its events store
everything that is in the cache, in place of whatever was known. A restarted server has another `stream`.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

KV_EVENTS_PATH = "/v1/kv_events"
"""For a snapshot; `/STREAM/NUMBER` follows for the events after that number."""
KV_EVENTS_BYTES = 16 * 2**20
"""Limit of a reply."""

_MOST_EVENTS = 2**18
_Number = Annotated[int, Meta(ge=0, lt=2**53)]
"""Whole in every JSON parser."""
_TokenId = Annotated[int, Meta(ge=0, lt=2**31)]


class BlockStored(Struct, frozen=True, kw_only=True, tag=True):
    """Blocks that follow one another were computed. Only the last may have fewer tokens than `block_size`."""

    block_hashes: Annotated[list[_Number], Meta(min_length=1, max_length=_MOST_EVENTS)]
    """Names of the blocks, each used once in a stream."""
    parent_block_hash: _Number | None
    """The block before them; None at the beginning of a prompt."""
    token_ids: list[_TokenId]
    block_size: Annotated[int, Meta(ge=1, le=2**16)]


class BlockRemoved(Struct, frozen=True, kw_only=True, tag=True):
    """Blocks were dropped."""

    block_hashes: Annotated[list[_Number], Meta(min_length=1, max_length=_MOST_EVENTS)]


class AllBlocksCleared(Struct, frozen=True, tag=True):
    """Everything was dropped, as after an update of the weights."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KvEvents(Struct, frozen=True, kw_only=True):
    """A reply. Its events are parsed one by one (`parse_kv_event`): all of them at once would stop the loop for too long."""

    stream: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_-]+\Z")]
    after: _Number | None
    """The events follow the one with this number; None: they are a snapshot."""
    sequence: _Number
    """The number of the last event."""
    events: Annotated[list[Raw], Meta(max_length=_MOST_EVENTS)]


_REPLY = Decoder(KvEvents)
_EVENT: Decoder[KvEvent] = Decoder(KvEvent)


def parse_kv_events(reply: bytes) -> KvEvents:
    """A reply with events that are not parsed yet; `ValueError` if it is none."""
    try:
        return _REPLY.decode(reply)
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {error}") from None


def parse_kv_event(event: Raw) -> KvEvent:
    """One event; `ValueError` if it is none."""
    try:
        return _EVENT.decode(event)
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {error}") from None
