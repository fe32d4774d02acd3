"""What a replica's prefix cache holds, by the events that the replica itself reports, in bounded memory.

Each reported block gives the keys of `prefixes.py`, so a prompt is compared with it as with what is predicted. Reports come a
little later than replies. Until they do, what this router's own requests have computed counts as held too.

A replica may be broken or hostile: what does not follow from its own earlier events is a `ReportError`, and so is more than fits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sandlot.core.tokens import packed_ids
from sandlot.model.routing.prefixes import BLOCK_TOKENS, TOKEN_BYTES, keys_after, root_key
from sandlot.model.wire.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent


class ReportError(ValueError):
    """The replica's events do not fit together, or are too many."""


@dataclass(frozen=True, slots=True)
class _Block:
    keys: list[bytes]
    end: bytes | None
    """The key that the next block goes on from; None if this one is not full, so that none follows it."""


class RecentPrefixes:
    """What own requests have computed that were answered, until events come that include it: at most `most_tokens`."""

    def __init__(self, most_tokens: int) -> None:
        self._most = max(1, most_tokens // BLOCK_TOKENS)
        self._keys: dict[bytes, int] = {}
        """With the poll that came before."""
        self._num_polls = 0

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[bytes]) -> None:
        """An own request has computed or used these now."""
        for key in keys:
            self._keys[key] = self._num_polls
        while len(self._keys) > self._most:
            del self._keys[next(iter(self._keys))]

    def begin_poll(self) -> int:
        """Events are asked for, which include what own requests have computed until now; a number for `end_poll`."""
        self._num_polls += 1
        return self._num_polls

    def end_poll(self, number: int) -> None:
        """These events have come and were applied: what is older is there only if it was reported."""
        for key in [key for key, since in self._keys.items() if since < number]:
            del self._keys[key]

    def clear(self) -> None:
        """All of it is void: the replica has new weights."""
        self._keys.clear()


class ReportedPrefixes:
    """The prefixes that one replica has: at most `most_tokens`. A snapshot makes a new one that goes on with what is `recent`."""

    def __init__(self, most_tokens: int, recent: RecentPrefixes | None = None) -> None:
        self.recent = recent or RecentPrefixes(most_tokens)
        self._most = max(1, most_tokens // BLOCK_TOKENS)
        self._blocks: dict[int, _Block] = {}
        """By their names."""
        self._counts: dict[bytes, int] = {}
        """How many blocks have each key: two that differ may begin alike."""
        self._root = root_key()

    def __contains__(self, key: object) -> bool:
        return key in self._counts or key in self.recent

    def __len__(self) -> int:
        """How many keys were reported."""
        return len(self._counts)

    @property
    def keys(self) -> set[bytes]:
        """The keys of everything that was reported."""
        return set(self._counts)

    def apply(self, events: Iterable[KvEvent]) -> None:
        """Follow events of the replica; after a `ReportError` this is of no use any more."""
        for event in events:
            match event:
                case BlockStored():
                    self._store(event)
                case BlockRemoved(block_hashes=names):
                    for name in names:
                        self._remove(name)
                case AllBlocksCleared():
                    self._blocks.clear()
                    self._counts.clear()

    def _store(self, event: BlockStored) -> None:
        size, names = event.block_size, event.block_hashes
        if size % BLOCK_TOKENS:
            raise ReportError(f"blocks of {size} tokens are not whole multiples of {BLOCK_TOKENS}")
        if not (len(names) - 1) * size < len(event.token_ids) <= len(names) * size:
            raise ReportError(f"{len(event.token_ids)} tokens do not fill {len(names)} blocks of {size}")
        if len(self._blocks) + len(names) > self._most:
            raise ReportError(f"more than {self._most} blocks")
        end = self._root
        if event.parent_block_hash is not None:
            parent = self._blocks.get(event.parent_block_hash)
            if parent is None or parent.end is None:
                why = "unknown" if parent is None else "not full"
                raise ReportError(f"block {names[0]} follows block {event.parent_block_hash}, which is {why}")
            end = parent.end
        tokens = packed_ids(event.token_ids)
        for place, name in enumerate(names):
            if name in self._blocks:
                raise ReportError(f"block {name} is stored twice")
            own = tokens[place * size * TOKEN_BYTES : (place + 1) * size * TOKEN_BYTES]
            keys = keys_after(end, own)
            is_full = len(own) == size * TOKEN_BYTES
            self._blocks[name] = _Block(keys, keys[-1] if is_full else None)
            for key in keys:
                self._counts[key] = self._counts.get(key, 0) + 1
            if len(self._counts) > self._most:
                raise ReportError(f"more than {self._most * BLOCK_TOKENS} tokens")
            end = keys[-1] if keys else end

    def _remove(self, name: int) -> None:
        block = self._blocks.pop(name, None)
        if block is None:
            raise ReportError(f"block {name} is removed but was not stored")
        for key in block.keys:
            left = self._counts[key] - 1
            if left:
                self._counts[key] = left
            else:
                del self._counts[key]
