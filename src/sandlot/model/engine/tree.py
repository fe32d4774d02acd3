"""The prefix tree: maps token ids to the KV blocks that were computed for them.

Each node is a `PrefixBlock`; only leaves may have fewer tokens than a block. A path from the root is a prefix. Running sequences
hold the blocks of their path, so those are never evicted; idle leaves are, cheapest first. The base model and every adapter have
a root of their own, so no prefix is shared between them. All blocks below a root are of one weight version: an update clears the
tree.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from sandlot.model.engine.blocks import Blocks
from sandlot.model.engine.eviction import BlockUse, Eviction
from sandlot.model.engine.prefix_log import PrefixLog

ID_BYTES = 4
"""Tokens are stored as little-endian int32."""

BASE = 0
"""The root of the base model; that of an adapter is its version, which is above."""

_MAX_SCANNED = 32
"""Maximum siblings with the same first token that are compared for a partial match."""


@dataclass(slots=True, eq=False)
class PrefixBlock:
    """A node of the tree: one KV block and its tokens."""

    parent: "PrefixBlock | None"
    tokens: bytes
    block: int
    depth: int = 0
    """Number of tokens from the root to its end."""
    children: "dict[bytes, dict[bytes, PrefixBlock]]" = field(default_factory=dict[bytes, "dict[bytes, PrefixBlock]"])
    """By first token, then by all tokens."""
    mark: float = 0.0
    """When it was last used, as the eviction measures it."""
    price: float = 0.0
    pins: int = 0
    """Number of pinned sessions whose path contains it."""
    sessions: set[str] = field(default_factory=set[str])
    """Sessions whose path ends here."""
    owner: str | None = None
    """The only session that has used it; empty if there were several."""
    has_ended: bool = False
    """True if its only session has been released, and nobody has used it since."""

    @property
    def use(self) -> BlockUse:
        """What is known about the rollouts that use it."""
        return BlockUse.RUNNING if self.pins else BlockUse.ENDED if self.has_ended else BlockUse.OTHER

    def path(self) -> "Iterator[PrefixBlock]":
        """The block and its ancestors, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


@dataclass(frozen=True, slots=True)
class Match:
    """The longest cached prefix of a sequence."""

    node: PrefixBlock
    """The last fully matching block."""
    blocks: list[int]
    partial: PrefixBlock | None
    """A child that begins with the next `num_partial` tokens; it must be copied before use."""
    num_partial: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the prefix."""
        return self.node.depth + self.num_partial


class PrefixTree:
    """All prefixes in the KV cache."""

    def __init__(self, blocks: Blocks, block_size: int, eviction: Eviction) -> None:
        self._blocks = blocks
        self._stride = block_size * ID_BYTES
        self._eviction = eviction
        self._roots: dict[int, PrefixBlock] = {}
        self._owners: dict[int, PrefixBlock] = {}
        self._cheapest: list[tuple[float, int, PrefixBlock]] = []
        self._ticket = count()
        self._sessions: dict[str, PrefixBlock] = {}
        self.num_evicted = 0
        self.num_pinned = 0
        """Blocks on the paths of pinned sessions."""
        self.log = PrefixLog(block_size)

    def __len__(self) -> int:
        return len(self._owners)

    def match(self, ids: bytes, root: int = BASE) -> Match:
        """The longest prefix cached below a root: full blocks and a part of one more. It does not hold the blocks."""
        if root not in self._roots:
            self._roots[root] = PrefixBlock(None, b"", -1)
        node, blocks, at = self._roots[root], list[int](), 0
        while (child := _child(node, ids[at : at + self._stride])) and len(child.tokens) == self._stride:
            node, at = child, at + self._stride
            blocks.append(node.block)
        rest = ids[at : at + self._stride]
        partial, longest = None, 0
        for sibling in islice(reversed(node.children.get(rest[:ID_BYTES], {}).values()), _MAX_SCANNED):
            common = _common(sibling.tokens, rest)
            if common > longest:
                partial, longest = sibling, common
        return Match(node, blocks, partial, longest)

    def add(self, node: PrefixBlock, tokens: bytes, block: int) -> PrefixBlock:
        """Add a child with these tokens and this block. If one exists, return it instead; its block is another."""
        siblings = node.children.setdefault(tokens[:ID_BYTES], {})
        if tokens in siblings:
            return siblings[tokens]
        if len(tokens) < self._stride:
            for other in siblings.values():
                if other.tokens.startswith(tokens):
                    return other
        for other in [other for other in siblings.values() if tokens.startswith(other.tokens)]:
            self._remove(other)
        child = PrefixBlock(node, tokens, block, node.depth + len(tokens) // ID_BYTES)
        node.children.setdefault(tokens[:ID_BYTES], {})[tokens] = child
        self._owners[block] = child
        self._blocks.adopt(block)
        self.log.store(block, None if node.parent is None else node.block, tokens)
        self._price(child, self._eviction.mark())
        return child

    def touch(self, node: PrefixBlock) -> None:
        """Mark the path to a block as used now."""
        for each in node.path():
            each.has_ended = False
            self._price(each, self._eviction.mark())

    def pin(self, session: str, node: PrefixBlock) -> None:
        """Raise the price of the path that a session ends with, until `unpin`."""
        self.unpin(session)
        if node.parent is None:
            return
        if len(self._sessions) >= self._blocks.total:  # more sessions than blocks: drop the oldest
            self.unpin(next(iter(self._sessions)))
        self._sessions[session] = node
        node.sessions.add(session)
        for each in node.path():
            self.num_pinned += each.pins == 0
            each.pins += 1
            each.owner = session if each.owner in (None, session) else ""
            self._price(each, each.mark)

    def release(self, session: str) -> None:
        """The session has ended: restore the price of its path, and note what nobody else has used."""
        node = self._sessions.get(session)
        self.unpin(session)
        for each in node.path() if node is not None else ():
            if each.owner == session:
                each.has_ended = True
                self._price(each, each.mark)

    def unpin(self, session: str) -> None:
        """Restore the normal price of a session's path."""
        node = self._sessions.pop(session, None)
        if node is None:
            return
        node.sessions.discard(session)
        for each in node.path():
            each.pins -= 1
            self.num_pinned -= each.pins == 0
            self._price(each, each.mark)

    def evict(self) -> bool:
        """Free the cheapest idle leaf; False if there is none."""
        for block in self._blocks.idled:
            if node := self._owners.get(block):
                self._offer(node)
        self._blocks.idled.clear()
        while self._cheapest:
            price, _, node = heapq.heappop(self._cheapest)
            if price == node.price and self._is_evictable(node):
                self._eviction.note_evicted(price)
                self.num_evicted += 1
                self._remove(node)
                return True
        return False

    def forget(self, root: int) -> None:
        """Remove a root with its blocks and pins: nothing can match it again. No running sequence may be below it."""
        top = self._roots.pop(root, None)
        for node in reversed(list(_below(top)) if top is not None else []):  # the log wants children before their parents
            for session in list(node.sessions):
                self.unpin(session)
            del self._owners[node.block]
            self._blocks.disown(node.block)
            self.log.remove(node.block)

    def clear(self) -> None:
        """Remove all blocks and pins, after a weight update. Running sequences keep the blocks they hold."""
        for session in list(self._sessions):
            self.unpin(session)
        for block in self._owners:
            self._blocks.disown(block)
        self._roots.clear()
        self._owners.clear()
        self._cheapest.clear()
        self._blocks.idled.clear()
        self.log.clear()

    def _price(self, node: PrefixBlock, mark: float) -> None:
        tokens = len(node.tokens) // ID_BYTES
        node.mark = mark
        price = self._eviction.price(mark, node.depth - tokens, tokens, node.use)
        if price != node.price:
            node.price = price
            self._offer(node)

    def _is_evictable(self, node: PrefixBlock) -> bool:
        return not node.children and self._owners.get(node.block) is node and self._blocks.is_idle(node.block)

    def _offer(self, node: PrefixBlock) -> None:
        if not self._is_evictable(node):
            return
        if len(self._cheapest) > 4 * self._blocks.total:  # drop outdated entries
            self._cheapest = [entry for entry in self._cheapest if entry[0] == entry[2].price and self._is_evictable(entry[2])]
            heapq.heapify(self._cheapest)
        heapq.heappush(self._cheapest, (node.price, next(self._ticket), node))

    def _remove(self, node: PrefixBlock) -> None:
        parent = node.parent
        assert parent is not None
        siblings = parent.children[node.tokens[:ID_BYTES]]
        del siblings[node.tokens]
        if not siblings:
            del parent.children[node.tokens[:ID_BYTES]]
        self.num_pinned -= node.pins > 0
        del self._owners[node.block]
        self._blocks.disown(node.block)
        self.log.remove(node.block)
        for session in list(node.sessions):
            self._sessions[session] = parent
            parent.sessions.add(session)
        if parent.parent is None:
            for session in parent.sessions:
                del self._sessions[session]
            parent.sessions.clear()
        else:
            self._offer(parent)


def _below(top: PrefixBlock) -> Iterator[PrefixBlock]:
    """All blocks below one, parents before children."""
    pending = [top]
    while pending:
        children = [child for siblings in pending.pop().children.values() for child in siblings.values()]
        yield from children
        pending += children


def _child(node: PrefixBlock, tokens: bytes) -> PrefixBlock | None:
    siblings = node.children.get(tokens[:ID_BYTES])
    return siblings.get(tokens) if siblings else None


def _common(left: bytes, right: bytes) -> int:
    """The number of equal tokens at the beginning."""
    if left == right:
        return len(left) // ID_BYTES
    most = min(len(left), len(right))
    low, high = 0, most // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[: middle * ID_BYTES] == right[: middle * ID_BYTES] else (low, middle - 1)
    return low
