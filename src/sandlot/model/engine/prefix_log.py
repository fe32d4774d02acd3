"""What the prefix tree stored and dropped, numbered, for routers in other processes.

The engine's thread writes, and any thread reads. The newest changes are kept, and what the tree holds now: a reader that has
missed changes gets everything instead. Changes are told as they are kept: who sends them to others encodes them.
"""

import secrets
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice

_MOST_CHANGES = 8192
"""Changes that are kept; about a megabyte of JSON."""


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block was added after another one, or at the beginning of a prompt."""

    name: int
    """Used once in a stream."""
    parent: int | None
    tokens: bytes
    """Ids as int32."""


@dataclass(frozen=True, slots=True)
class DroppedBlock:
    """A block was dropped."""

    name: int


@dataclass(frozen=True, slots=True)
class DroppedAll:
    """Everything was dropped."""


PrefixChange = StoredBlock | DroppedBlock | DroppedAll


@dataclass(frozen=True, slots=True)
class PrefixChanges:
    """What a reader gets."""

    stream: str
    after: int | None
    """The changes follow the one with this number; None: they store everything that is held."""
    sequence: int
    """The number of the last change."""
    block_size: int
    changes: list[PrefixChange]


class PrefixLog:
    """The changes of one tree. Its blocks are given by their numbers, which the pool uses again; each gets a new name."""

    def __init__(self, block_size: int, most_changes: int = _MOST_CHANGES) -> None:
        self.stream = secrets.token_hex(8)
        """Another one for every engine, so that a reader notices a restart."""
        self._block_size = block_size
        self._lock = threading.Lock()
        self._held: dict[int, StoredBlock] = {}
        """By block number, in the order of storing: a block is stored after the one before it."""
        self._changes: deque[PrefixChange] = deque(maxlen=most_changes)
        self._sequence = 0
        self._num_names = 0

    def store(self, block: int, parent: int | None, tokens: bytes) -> None:
        """A block with these tokens was added after another one."""
        with self._lock:
            self._num_names += 1
            before = None if parent is None else self._held[parent].name
            self._held[block] = stored = StoredBlock(self._num_names, before, tokens)
            self._note(stored)

    def remove(self, block: int) -> None:
        """A block was dropped; none follows it."""
        with self._lock:
            self._note(DroppedBlock(self._held.pop(block).name))

    def clear(self) -> None:
        """Everything was dropped."""
        with self._lock:
            self._held.clear()
            self._note(DroppedAll())

    def read(self, stream: str, after: int) -> PrefixChanges:
        """The changes after that number; everything that is held if the stream is another one, or they are not kept any more."""
        with self._lock:
            sequence = self._sequence
            missing = sequence - after
            follows = stream == self.stream and 0 <= missing <= len(self._changes)
            changes = islice(self._changes, len(self._changes) - missing, None) if follows else self._held.values()
            return PrefixChanges(self.stream, after if follows else None, sequence, self._block_size, list(changes))

    def _note(self, change: PrefixChange) -> None:
        self._changes.append(change)
        self._sequence += 1
