"""What a replica's prefix cache is expected to hold, as the keys of its blocks, in bounded memory.

A prompt is cut into blocks of `BLOCK_TOKENS`. The key of a block is a hash of the block and of the key before it, so it stands
for the whole prefix up to there, and two prompts share a prefix exactly as long as their keys are equal. The least recently used
key is dropped first. A block is always used later than those below it, so a prefix is never known without its beginning.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass

TOKEN_BYTES = 4
"""Bytes of a token: an int32 id. Of text, four bytes count as one token."""
BLOCK_TOKENS = 16
_BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES
_KEY_BYTES = 8


def block_keys(prompt: bytes, model: str = "", begun: Sequence[bytes] = ()) -> list[bytes]:
    """The keys of the prompt's whole blocks. Prompts for different models share none; `begun` are the keys already known."""
    return [*begun, *keys_after(begun[-1] if begun else root_key(model), prompt, len(begun) * _BLOCK_BYTES)]


def root_key(model: str = "") -> bytes:
    """What stands before the first key."""
    return hashlib.blake2b(model.encode(), digest_size=_KEY_BYTES).digest()


def keys_after(key: bytes, prompt: bytes, start: int = 0) -> list[bytes]:
    """The keys of the whole blocks from `start` on; `key` is that of what stands before them."""
    keys: list[bytes] = []
    for at in range(start, len(prompt) - _BLOCK_BYTES + 1, _BLOCK_BYTES):
        key = hashlib.blake2b(key + prompt[at : at + _BLOCK_BYTES], digest_size=_KEY_BYTES).digest()
        keys.append(key)
    return keys


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """How much of a prompt a replica is expected to have, in tokens."""

    warm: int
    """Computed by requests that were answered."""
    computing: int
    """Computed by requests that are under way: a request that follows them waits instead of computing it again."""

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.warm + self.computing


class PredictedPrefixes:
    """The prefixes that one replica is expected to hold: at most `most_tokens`, and those of requests under way."""

    def __init__(self, most_tokens: int) -> None:
        self.resize(most_tokens)
        self._warm: OrderedDict[bytes, None] = OrderedDict()
        self._computing: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._warm)

    def resize(self, most_tokens: int) -> None:
        """Hold so many tokens from the next block on."""
        self._most = max(1, most_tokens // BLOCK_TOKENS)

    def match(self, keys: Sequence[bytes], reported: Container[bytes] | None = None) -> PrefixHit:
        """The longest prefix of these blocks that is expected to be there, or that the replica has reported."""
        known = self._warm if reported is None else reported
        warm = next((count for count, key in enumerate(keys) if key not in known), len(keys))
        rest = keys[warm:]
        computing = next((count for count, key in enumerate(rest) if key not in self._computing), len(rest))
        return PrefixHit(warm * BLOCK_TOKENS, computing * BLOCK_TOKENS)

    def begin(self, keys: Sequence[bytes]) -> None:
        """A request with these blocks is under way."""
        for key in keys:
            self._computing[key] = self._computing.get(key, 0) + 1

    def end(self, keys: Sequence[bytes]) -> None:
        """The request of `begin` is over, one way or another."""
        for key in keys:
            left = self._computing.get(key, 0) - 1  # 0 if everything was dropped meanwhile
            if left > 0:
                self._computing[key] = left
            else:
                self._computing.pop(key, None)

    def add(self, keys: Sequence[bytes]) -> None:
        """These blocks were computed or used now."""
        for key in reversed(keys):  # the beginning last, so that it is the last to be dropped
            self._warm[key] = None
            self._warm.move_to_end(key)
        while len(self._warm) > self._most:
            self._warm.popitem(last=False)

    def drop_older(self, missed: Sequence[bytes]) -> None:
        """The replica did not have these blocks: what was used before them must be gone too."""
        if missed and missed[0] in self._warm:
            while self._warm.popitem(last=False)[0] != missed[0]:
                pass

    def clear(self) -> None:
        """Forget everything: the replica has restarted, or has new weights."""
        self._warm.clear()
        self._computing.clear()
