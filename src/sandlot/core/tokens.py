"""The exact tokens along a path of a trace: the prompt and the sampled tokens, joined; text is never tokenised again.

`Node.context` and `Node.tokens` of a path, in order, are its prompt and its completions. `held_tokens` is the part of a path that
the next turn must extend; `token_path` is the whole path as the columns a loss reads.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandlot.core.trace import Node, Trace

if TYPE_CHECKING:
    import numpy as np

NO_VERSION = -1
"""In the column of versions: the token was not sampled."""


def packed_ids(ids: Sequence[int]) -> bytes:
    """Ids as stored: int32, little-endian."""
    numbers = array("i", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpacked_ids(data: bytes) -> list[int]:
    """Stored ids as numbers."""
    numbers = array("i")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def path_indices(trace: Trace, leaf: int | None = None) -> list[int]:
    """The node indices of a path, root first; by default to the newest node."""
    found: list[int] = []
    at: int | None = (len(trace.nodes) - 1 if trace.nodes else None) if leaf is None else leaf
    while at is not None:
        found.append(at)
        at = trace.nodes[at].parent
    return found[::-1]


def has_exact_tokens(node: Node) -> bool:
    """True if the node was sampled and its tokens are known."""
    return node.sampled and node.tokens is not None


@dataclass(frozen=True, slots=True)
class HeldTokens:
    """The tokens of a path up to its last exact turn."""

    ids: list[int]
    spans: list[tuple[int, int]]
    """The range of each sampled turn in `ids`: begin and end."""
    nodes: list[int]
    """The sampled node of each span."""
    num_messages: int
    """Number of messages that the ids cover; the ones after them are not rendered yet."""


def held_tokens(trace: Trace, leaf: int) -> HeldTokens:
    """The tokens that the next turn below `leaf` must extend to be the same conversation."""
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    nodes: list[int] = []
    num_messages = 0
    for depth, index in enumerate(path_indices(trace, leaf)):
        node = trace.nodes[index]
        if not node.sampled or node.tokens is None:
            continue
        ids += unpacked_ids(node.context)
        begin = len(ids)
        ids += unpacked_ids(node.tokens.ids)
        spans.append((begin, len(ids)))
        nodes.append(index)
        num_messages = depth + 1
    return HeldTokens(ids, spans, nodes, num_messages)


@dataclass(frozen=True, slots=True)
class TokenPath:
    """One path as numpy columns of equal length: a training row."""

    ids: "np.ndarray[Any, Any]"
    logprobs: "np.ndarray[Any, Any]"
    """float32, of the distribution that was sampled from; NaN where nothing was sampled."""
    mask: "np.ndarray[Any, Any]"
    """uint8, 1 where the token may be trained on."""
    versions: "np.ndarray[Any, Any]"
    """int64, the weight version that sampled the token; `NO_VERSION` where nothing was sampled."""
    nodes: "np.ndarray[Any, Any]"
    """int64, the node whose context or completion the token belongs to."""

    def __len__(self) -> int:
        return len(self.ids)


def token_path(trace: Trace, leaf: int | None = None) -> TokenPath:
    """The columns of one path. Turns without ids are left out: check `Trace.trainable` first."""
    import numpy as np  # noqa: PLC0415 - running needs no numpy

    columns: list[list[Any]] = [[], [], [], [], []]
    for index in path_indices(trace, leaf):
        node = trace.nodes[index]
        if not node.sampled or node.tokens is None:
            continue
        given = np.frombuffer(node.context, dtype="<i4")
        tokens = node.tokens
        num_given, num = len(given), len(tokens)
        blank = np.full(num_given, np.nan, dtype=np.float32)
        mask = np.frombuffer(tokens.mask, dtype=np.uint8) if tokens.mask else np.zeros(num, dtype=np.uint8)
        runs = [np.full(count, version, dtype=np.int64) for count, version in tokens.versions]
        pieces = (
            (given, tokens.ids_array()),
            (blank, tokens.logprobs_array()),
            (np.zeros(num_given, dtype=np.uint8), mask),
            (np.full(num_given, NO_VERSION, dtype=np.int64), *runs),
            (np.full(num_given + num, index, dtype=np.int64),),
        )
        for column, piece in zip(columns, pieces, strict=True):
            column.extend(piece)
    dtypes = (np.int32, np.float32, np.uint8, np.int64, np.int64)
    joined = (np.concatenate([np.zeros(0, dtype), *column]).astype(dtype) for column, dtype in zip(columns, dtypes, strict=True))
    return TokenPath(*joined)


def exact_leaves(trace: Trace) -> Iterator[int]:
    """The exact turns with no exact turn below them: their paths cover every sampled token."""
    above: set[int] = set()
    for index, node in enumerate(trace.nodes):
        if has_exact_tokens(node):
            above.update(at for at in path_indices(trace, index)[:-1] if has_exact_tokens(trace.nodes[at]))
    return (index for index, node in enumerate(trace.nodes) if has_exact_tokens(node) and index not in above)
