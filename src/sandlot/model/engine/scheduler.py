"""Plans steps and assigns KV blocks.

Decoding sequences get their next token first; the rest of the step's token budget goes to prompts in order of seating. A sequence
is seated if blocks for all of its tokens are available. It waits while another sequence computes the block that it needs next, so
a group's prompt is computed once. If blocks run out, the newest sequence is preempted: its blocks go to the prefix tree, and it
resumes with those that were not evicted.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from sandlot.model.engine.blocks import Blocks
from sandlot.model.engine.cache import KVCache
from sandlot.model.engine.request import Sequence
from sandlot.model.engine.seats import Rows, Seats
from sandlot.model.engine.tree import ID_BYTES, Match, PrefixBlock, PrefixTree


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The rows of the next step, decoding ones first, and the number of tokens of each."""

    rows: Rows
    counts: Rows
    num_decoding: int
    guessed: Rows
    """How many of each row's tokens are guesses, after those that are known."""


class Scheduler:
    """The queue, the seats and their blocks."""

    def __init__(self, cache: KVCache, blocks: Blocks, tree: PrefixTree, seats: Seats, *, chunk: int, share: bool) -> None:
        self.blocks = blocks
        self.tree = tree
        self.seats = seats
        self.waiting: deque[Sequence] = deque()
        self.chunk = chunk
        """Maximum tokens per step."""
        self.version = 0
        self.num_preempted = 0
        self.num_prompt_tokens = 0
        self.num_cached_tokens = 0
        self._cache = cache
        self._share = share
        self._num_seated = 0

    @property
    def num_available(self) -> int:
        """Blocks that are free or can be evicted."""
        return self.blocks.num_free + self.blocks.num_idle

    def plan(self, now: float) -> StepPlan:
        """Seat waiting sequences if there is room, and divide the step's token budget."""
        self._grow()
        rows = np.flatnonzero(self.seats.taken)
        needs = self.seats.totals[rows] - self.seats.lengths[rows]
        self._admit(self.chunk - int((needs == 1).sum()) - int(needs[needs > 1].sum()), now)
        rows = np.flatnonzero(self.seats.taken)
        needs = self.seats.totals[rows] - self.seats.lengths[rows]
        decoding, rest = rows[needs == 1], rows[needs > 1]
        rest = rest[np.argsort(self.seats.orders[rest])]
        needs = self.seats.totals[rest] - self.seats.lengths[rest]
        room = self.chunk - len(decoding) - (np.cumsum(needs) - needs)
        counts = np.minimum(needs, room)
        rest, counts = rest[counts > 0], counts[counts > 0]
        rows, counts = np.concatenate((decoding, rest)), np.concatenate((np.ones_like(decoding), counts))
        return StepPlan(rows, counts, len(decoding), np.zeros_like(rows))

    def plan_ahead(self, rows: Rows) -> Rows:
        """The rows whose next token can be computed before it is known here, after a step that samples for `rows`.

        None, if the next step has other work too or too few blocks.
        """
        seats = self.seats
        going = rows[seats.totals[rows] + 1 < seats.ends[rows]]
        full = going[seats.lengths[going] >= seats.num_blocks[going] * seats.block_size]
        others = (self.waiting and seats.num_free) or int(seats.taken.sum()) != len(rows)
        if others or len(full) > self.num_available:
            return rows[:0]
        for row in full.tolist():
            seats.give(row, self._take())
        return going

    def reserve(self, row: int, count: int) -> int:
        """Give a row blocks for `count` tokens after those it has, or for as many as there are free blocks; returns how many.

        Nothing is evicted for them: a guess may be wrong, and a cached prefix is needed later.
        """
        seats = self.seats
        total, size = int(seats.totals[row]), seats.block_size
        while count and seats.num_blocks[row] * size < total + count:
            if not self.blocks.num_free:
                return max(int(seats.num_blocks[row]) * size - total, 0)
            seats.give(row, self.blocks.take())
        return count

    def give_back(self, row: int) -> None:
        """Take from a row the blocks that its next token does not need."""
        seats = self.seats
        while seats.num_blocks[row] > seats.lengths[row] // seats.block_size + 1:
            self.blocks.drop(seats.take_back(row))

    def keep(self, sequence: Sequence, *, whole: bool) -> PrefixBlock | None:
        """Add its computed blocks to the prefix tree, with `whole` also the last, partly filled one; returns the last."""
        node, seats, row = sequence.node, self.seats, sequence.seat
        if node is None:
            return None
        length, size = int(seats.lengths[row]), seats.block_size
        while node.depth + size <= length:
            index = node.depth // size
            block = int(seats.tables[row, index])
            node = self.tree.add(node, seats.ids[row, node.depth : node.depth + size].tobytes(), block)
            if node.block != block:  # another sequence computed the same block: share it
                self.blocks.hold(node.block)
                self.blocks.drop(block)
                seats.tables[row, index] = node.block
        sequence.node = node
        if whole and node.depth < length:
            rest = seats.ids[row, node.depth : length].tobytes()
            return self.tree.add(node, rest, int(seats.tables[row, node.depth // size]))
        return node

    def leave(self, sequence: Sequence) -> None:
        """Remove a sequence from its seat and drop its blocks."""
        seats, row = self.seats, sequence.seat
        fresh = seats.versions[row, len(sequence.ids) : seats.totals[row]]
        sequence.stale += int((fresh != sequence.kv_version).sum())
        blocks = seats.blocks_of(row)
        seats.unseat(sequence)
        sequence.node = None
        for block in blocks:
            self.blocks.drop(block)

    def preempt(self, sequence: Sequence) -> None:
        """Unseat a sequence and put it first in the queue."""
        self.keep(sequence, whole=False)
        self.leave(sequence)
        self.waiting.appendleft(sequence)

    def _grow(self) -> None:
        """Give a block to each sequence whose next token needs one, oldest first; preempt the newest if none is left."""
        seats = self.seats
        full = seats.taken & (seats.lengths >= seats.num_blocks * seats.block_size)
        for row in sorted(np.flatnonzero(full).tolist(), key=seats.orders.__getitem__):
            while seats.taken[row] and not self.num_available:
                self.num_preempted += 1
                self.preempt(max(seats, key=lambda sequence: sequence.order))
            if seats.taken[row]:
                seats.give(row, self._take())

    def _admit(self, budget: int, now: float) -> None:
        """Seat sequences from the queue while the step has token budget for them."""
        if not self.waiting or not self.seats.num_free or budget <= 0:
            return
        computing = {self._next_block(each.spelled, each.node) for each in self.seats if each.node and self._is_prefilling(each)}
        passed: list[Sequence] = []
        while self.waiting and self.seats.num_free and budget > 0 and len(passed) <= len(self.seats.taken):
            sequence = self.waiting.popleft()
            match = self._match(sequence)
            key = self._next_block(sequence.spelled, match.node)
            computes_more = self._share and match.num_tokens < len(sequence.ids) - 1
            if computes_more and key in computing:
                passed.append(sequence)
                continue
            if not self._seat(sequence, match, now):
                passed.append(sequence)
                break
            if computes_more:
                computing.add(key)
            budget -= len(sequence.ids) - int(self.seats.lengths[sequence.seat])
        self.waiting.extendleft(reversed(passed))

    def _is_prefilling(self, sequence: Sequence) -> bool:
        return bool(self.seats.totals[sequence.seat] - self.seats.lengths[sequence.seat] > 1)

    def _next_block(self, spelled: bytes, node: PrefixBlock) -> tuple[PrefixBlock, bytes]:
        """The key of the block it computes next: parent and tokens."""
        at = node.depth * ID_BYTES
        return node, spelled[at : min(at + self.seats.block_size * ID_BYTES, len(spelled) - ID_BYTES)]

    def _match(self, sequence: Sequence) -> Match:
        # The last token is always computed: the next one is sampled from its logits.
        return self.tree.match(sequence.spelled[:-ID_BYTES] if self._share else b"", sequence.root)

    def _seat(self, sequence: Sequence, match: Match, now: float) -> bool:
        """Give it a row and blocks for all of its tokens; False if there are too few blocks."""
        num_seated = int(self.seats.taken.sum())
        needed = -(-len(sequence.ids) // self.seats.block_size) - len(match.blocks)
        # Leave room for running sequences to grow, or the new one would soon be preempted.
        spare = min(num_seated, self.blocks.total // 16)
        for block in match.blocks:
            self.blocks.hold(block)
        if self.num_available < needed + spare:
            for block in match.blocks:
                self.blocks.drop(block)
            return False
        cached, blocks = match.node.depth, list(match.blocks)
        partial = match.partial
        if partial and self.num_available - self.blocks.is_idle(partial.block) >= needed:
            self.blocks.hold(partial.block)
            blocks.append(self._take())
            self._cache.copy(partial.block, blocks[-1])
            self.blocks.drop(partial.block)
            cached, needed = cached + match.num_partial, needed - 1
        blocks += [self._take() for _ in range(needed)]
        self.tree.touch(match.node)
        self._num_seated += 1
        sequence.order, sequence.node = self._num_seated, match.node if self._share else None
        sequence.kv_version = self.version if sequence.adapter is None else sequence.adapter.version
        self.seats.seat(sequence, blocks, cached)
        if sequence.admitted is None:
            sequence.admitted, sequence.cached = now, cached
            self.num_prompt_tokens += sequence.num_prompt
            self.num_cached_tokens += cached
        return True

    def _take(self) -> int:
        if not self.blocks.num_free:
            evicted = self.tree.evict()
            assert evicted, f"no block is free and none can be evicted, of {self.blocks.total}"
        return self.blocks.take()
