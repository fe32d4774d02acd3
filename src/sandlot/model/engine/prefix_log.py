"""What the prefix tree stored and dropped, numbered, for routers in other processes.

The engine's thread writes, and any thread reads. The newest changes are kept, and what the tree holds now: a reader that has
missed changes gets everything instead. Token ids are unpacked by the reader, so that a step does not wait for it.
"""

import secrets
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice

from sandlot.core.tokens import unpacked_ids
from sandlot.model.wire.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, KvEvents

_MOST_CHANGES = 8192
"""Changes that are kept; about a megabyte of JSON."""


@dataclass(frozen=True, slots=True)
class _Stored:
    name: int
    parent: int | None
    tokens: bytes


@dataclass(frozen=True, slots=True)
class _Removed:
    name: int


_Change = _Stored | _Removed | None
"""None: everything was dropped."""


class PrefixLog:
    """The changes of one tree. Its blocks are given by their numbers, which the pool uses again; each gets a new name."""

    def __init__(self, block_size: int, most_changes: int = _MOST_CHANGES) -> None:
        self.stream = secrets.token_hex(8)
        """Another one for every engine, so that a reader notices a restart."""
        self._block_size = block_size
        self._lock = threading.Lock()
        self._held: dict[int, _Stored] = {}
        """By block number, in the order of storing: a block is stored after the one before it."""
        self._changes: deque[_Change] = deque(maxlen=most_changes)
        self._sequence = 0
        self._num_names = 0

    def store(self, block: int, parent: int | None, tokens: bytes) -> None:
        """A block with these tokens was added after another one."""
        with self._lock:
            self._num_names += 1
            before = None if parent is None else self._held[parent].name
            self._held[block] = stored = _Stored(self._num_names, before, tokens)
            self._note(stored)

    def remove(self, block: int) -> None:
        """A block was dropped; none follows it."""
        with self._lock:
            self._note(_Removed(self._held.pop(block).name))

    def clear(self) -> None:
        """Everything was dropped."""
        with self._lock:
            self._held.clear()
            self._note(None)

    def read(self, stream: str, after: int) -> KvEvents:
        """The changes after that number; everything that is held if the stream is another one, or they are not kept any more."""
        with self._lock:
            sequence = self._sequence
            missing = sequence - after
            follows = stream == self.stream and 0 <= missing <= len(self._changes)
            changes = list(islice(self._changes, len(self._changes) - missing, None)) if follows else list(self._held.values())
        events = [self._event(change) for change in changes]
        return KvEvents(stream=self.stream, after=after if follows else None, sequence=sequence, events=events)

    def _note(self, change: _Change) -> None:
        self._changes.append(change)
        self._sequence += 1

    def _event(self, change: _Change) -> KvEvent:
        match change:
            case _Stored(name, parent, tokens):
                return BlockStored(
                    block_hashes=[name],
                    parent_block_hash=parent,
                    token_ids=unpacked_ids(tokens),
                    block_size=self._block_size,
                )
            case _Removed(name):
                return BlockRemoved(block_hashes=[name])
            case None:
                return AllBlocksCleared()
