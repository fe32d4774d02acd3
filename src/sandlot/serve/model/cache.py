"""What routers read of a served model's prefix cache: how many tokens it holds, and what it stores and drops."""

from dataclasses import dataclass

import msgspec

from sandlot.core.tokens import unpacked_ids
from sandlot.model.engine.prefix_log import DroppedAll, DroppedBlock, PrefixChange, PrefixChanges, PrefixLog, StoredBlock
from sandlot.model.wire.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, KvEvents


@dataclass(frozen=True, slots=True)
class ServedCache:
    """The prefix cache of a served model, as routers see it."""

    tokens: int | None = None
    """Tokens that it holds at most; None if that is not known."""
    log: PrefixLog | None = None
    """What it stores and drops; None if that is not shown."""


def encode_changes(changes: PrefixChanges) -> bytes:
    """The changes as a reply of `/v1/kv_events`."""
    events = [_event(change, changes.block_size) for change in changes.changes]
    return msgspec.json.encode(KvEvents(stream=changes.stream, after=changes.after, sequence=changes.sequence, events=events))


def _event(change: PrefixChange, block_size: int) -> KvEvent:
    match change:
        case StoredBlock(name, parent, tokens):
            ids = unpacked_ids(tokens)
            return BlockStored(block_hashes=[name], parent_block_hash=parent, token_ids=ids, block_size=block_size)
        case DroppedBlock(name):
            return BlockRemoved(block_hashes=[name])
        case DroppedAll():
            return AllBlocksCleared()
