"""What routers read of a served model's prefix cache: how many tokens it holds, and what it stores and drops."""

from functools import partial

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException

from sandlot.core.tokens import unpacked_ids
from sandlot.model.engine.prefix_log import DroppedAll, DroppedBlock, PrefixChange, PrefixChanges, PrefixLog, StoredBlock
from sandlot.model.wire.kv_events import KV_EVENTS_BYTES, AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, KvEvents


class ServedCache:
    """The prefix cache of a served model, as routers see it."""

    def __init__(self, tokens: int | None = None, log: PrefixLog | None = None, *, reply_bytes: int = KV_EVENTS_BYTES) -> None:
        self.tokens = tokens
        """Tokens that it holds at most; None if that is not known."""
        self._log = log
        self._reply_bytes = reply_bytes
        self._one = CapacityLimiter(1)
        """A snapshot takes a large part of a second: readers wait for one another, not the engine for all of them."""
        self._kept: tuple[int, bytes] | None = None
        """The last snapshot with its number: the next readers get the same until something changes."""

    async def read(self, stream: str, after: int) -> bytes:
        """A reply of `/v1/kv_events`. HTTP 404 if the cache is not shown; 503 if more is cached than readers take."""
        if self._log is None:
            raise HTTPException(404, "this server shows no cache events; start it with `--kv-events`, without adapters")
        return await to_thread.run_sync(partial(self._read, self._log, stream, after), limiter=self._one)

    def _read(self, log: PrefixLog, stream: str, after: int) -> bytes:
        changes = log.read(stream, after)
        if changes.after is None and self._kept is not None and self._kept[0] == changes.sequence:
            return self._kept[1]
        body = encode_changes(changes, self._reply_bytes)
        if body is None:
            raise HTTPException(503, f"the cache holds more than events of {self._reply_bytes} bytes can tell")
        if changes.after is None:
            self._kept = changes.sequence, body
        return body


def encode_changes(changes: PrefixChanges, limit: int = KV_EVENTS_BYTES) -> bytes | None:
    """The changes as a reply of `/v1/kv_events`; None if it is larger than that, which is noticed before all is encoded."""
    events: list[msgspec.Raw] = []
    left = limit
    for change in changes.changes:
        event = msgspec.json.encode(_event(change, changes.block_size))
        left -= len(event) + 1
        if left < 0:
            return None
        events.append(msgspec.Raw(event))
    reply = KvEvents(stream=changes.stream, after=changes.after, sequence=changes.sequence, events=events)
    body = msgspec.json.encode(reply)
    return body if len(body) <= limit else None


def _event(change: PrefixChange, block_size: int) -> KvEvent:
    match change:
        case StoredBlock(name, parent, tokens):
            ids = unpacked_ids(tokens)
            return BlockStored(block_hashes=[name], parent_block_hash=parent, token_ids=ids, block_size=block_size)
        case DroppedBlock(name):
            return BlockRemoved(block_hashes=[name])
        case DroppedAll():
            return AllBlocksCleared()
