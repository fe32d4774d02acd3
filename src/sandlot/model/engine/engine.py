"""The engine: continuous batching of many requests on one model.

`step()` plans the next batch, runs the model once, samples a token for every sequence that is ready, and returns the completions.
If only decoding goes on, and no tokens are guessed, a device launches the step after it before the tokens are known here, so that
it never waits for the host; what it computes for a sequence that has ended is dropped. The other methods submit, cancel and
update between steps. An engine is not thread-safe: one thread owns it (`worker.py`).
"""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from sandlot.model.engine.adapters import AdapterError, Adapters
from sandlot.model.engine.batch import Runner
from sandlot.model.engine.blocks import Blocks
from sandlot.model.engine.eviction import Eviction, eviction_named
from sandlot.model.engine.gauges import Gauges
from sandlot.model.engine.prefix_log import PrefixLog
from sandlot.model.engine.request import Completion, Request, Sequence
from sandlot.model.engine.sampler import Drawn, Pick, draw, pick_by_inverse
from sandlot.model.engine.scheduler import Scheduler, StepPlan
from sandlot.model.engine.seats import Rows, Seats
from sandlot.model.engine.siblings import Speculate
from sandlot.model.engine.speculation import Speculation
from sandlot.model.engine.tree import PrefixTree
from sandlot.model.nn.mixed import AdapterWeights

OldKv = Literal["recompute", "keep"]
"""What running requests do when weights change. `recompute`: their KV is computed again with the new weights before the next
token. `keep`: they continue on the old KV (those still in their prompt start again), and count the affected tokens as stale."""

Decode = Callable[[list[int]], str]


@dataclass(frozen=True, slots=True)
class _Launched:
    """A step whose tokens may not be known here yet."""

    rows: Rows
    """Rows for which a token is sampled."""
    orders: Rows
    """What tells the sequences of these rows from later ones in the same seats."""
    guessed: Rows
    """How many guesses each of these rows has; one more token is sampled for it."""
    drawn: Drawn | None
    vocabulary: int
    computed: int
    """Tokens that it computes."""
    sequences: int


class Engine:
    """Continuous batching over paged KV with one prefix tree."""

    def __init__(  # noqa: PLR0913 - each is one independent choice
        self,
        runner: Runner,
        *,
        blocks: int,
        context: int,
        max_batch: int = 32,
        chunk: int = 512,
        eviction: Eviction | None = None,
        pick: Pick = pick_by_inverse,
        share: bool = True,
        old_kv: OldKv = "recompute",
        speculate: Speculate = "off",
        decode: Decode | None = None,
        max_adapters: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use `blocks` of the runner's cache, at most `context` tokens per request and `chunk` tokens per step.

        `share=False` disables the prefix tree.
        """
        if chunk <= max_batch:
            raise ValueError(f"chunk is {chunk}; it must be above max_batch ({max_batch}), or prompts are never computed")
        cache = runner.cache
        self.context = min(context, blocks * cache.block_size)
        self.gauges = Gauges(clock)
        self._runner = runner
        self._clock = clock
        self._decode = decode
        self._pick = pick
        self._old_kv: OldKv = old_kv
        self._seats = Seats(max_batch, self.context, cache.block_size)
        pool = Blocks(blocks)
        tree = PrefixTree(pool, cache.block_size, eviction or eviction_named("turns"))
        self._scheduler = Scheduler(cache, pool, tree, self._seats, chunk=chunk, share=share)
        self._speculation = Speculation(self._scheduler, clock, may_rest=runner.ahead) if speculate == "siblings" else None
        self._is_ahead = runner.ahead
        self._sequences: dict[int, Sequence] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._ended: list[Sequence] = []
        self._adapters = Adapters(max_adapters)
        self._seeds = np.random.default_rng()
        self._num_submitted = 0
        self._ahead: _Launched | None = None

    @property
    def version(self) -> int:
        """Version of the weights that sample the next token."""
        return self._scheduler.version

    @property
    def prefix_log(self) -> PrefixLog:
        """What its prefix tree stores and drops."""
        return self._scheduler.tree.log

    @property
    def is_idle(self) -> bool:
        """True if a step has nothing to do."""
        return not self._sequences and not self._ended

    def submit(self, request: Request) -> int:
        """Queue a request and return its number; `ValueError` if it cannot be served."""
        if not len(request.ids):
            raise ValueError("the prompt has no tokens; give at least one")
        if request.max_tokens < 1:
            raise ValueError(f"max_tokens is {request.max_tokens}; it must be at least 1")
        if len(request.ids) + request.max_tokens > self.context:
            raise ValueError(
                f"{len(request.ids)} prompt tokens and {request.max_tokens} new ones exceed the context of {self.context}; "
                "shorten the prompt or reduce max_tokens"
            )
        if not (0 <= request.temperature < float("inf") and 0 < request.top_p <= 1 and request.top_k >= 0):
            raise ValueError(
                f"temperature {request.temperature}, top_p {request.top_p}, top_k {request.top_k}: they must be at least 0, "
                "in (0, 1], and at least 0"
            )
        if "" in request.stop:
            raise ValueError("a stop text is empty; remove it")
        if request.stop and self._decode is None:
            raise ValueError("stop texts need a tokenizer, and this engine has none; use stop_ids")
        seed = int(self._seeds.integers(2**63)) if request.seed is None else request.seed
        self._num_submitted += 1
        sequence = Sequence(self._num_submitted, request, seed, self._clock())
        if request.adapter:  # last, because what is taken must be given back
            sequence.adapter = self._adapters.take(request.adapter)
        self._sequences[sequence.id] = sequence
        self._scheduler.waiting.append(sequence)
        if request.deadline < float("inf"):
            heapq.heappush(self._deadlines, (request.deadline, sequence.id))
        return sequence.id

    def cancel(self, number: int) -> bool:
        """Remove a request and free its blocks; False if it is unknown or finished."""
        sequence = self._sequences.pop(number, None)
        if sequence is None:
            return False
        self._withdraw(sequence)
        self._give_back_adapter(sequence)
        return True

    def release(self, session: str) -> None:
        """End a session: its cached prefix is no longer preferred."""
        self._scheduler.tree.release(session)

    def update(self, version: int, put: Callable[[], None]) -> None:
        """Call `put`, which writes new weights in place, and sample with them as `version` from the next token on.

        The prefix tree is cleared, so it never holds KV of older weights. Running requests follow `OldKv`. `AdapterError` if
        there are adapters: they were trained for the weights there are, and their versions say nothing of others.
        """
        if len(self._adapters):
            raise AdapterError(
                f"weights of version {version} cannot be taken while {len(self._adapters)} adapters of the present ones are in "
                "memory; remove the adapters, and let their requests finish"
            )
        self._collect_ahead()
        put()
        self._scheduler.version = version
        self._scheduler.tree.clear()
        seats = self._seats
        for sequence in sorted(seats, key=lambda each: -each.order):
            sequence.node = None
            total = seats.totals[sequence.seat]
            in_prompt = total == sequence.num_prompt or total - seats.lengths[sequence.seat] > 1
            if self._old_kv == "recompute" or in_prompt:
                self._scheduler.preempt(sequence)

    @property
    def adapters(self) -> dict[str, int]:
        """The loaded adapters by name, with their versions."""
        return self._adapters.versions

    def load_adapter(self, name: str, weights: AdapterWeights, *, replace: bool = False) -> int:
        """Load an adapter for requests from now on, and return its version; `AdapterError` if it cannot be.

        With `replace`, the name may be in use: its running and waiting requests finish on what they began with.
        """
        try:
            placed = self._runner.place(weights)
        except MemoryError as error:
            raise AdapterError(f"the adapter `{name}` does not fit into memory ({error}); remove another one first") from error
        adapter, before = self._adapters.load(name, placed, replace=replace)
        if before is not None and before.is_over:
            self._scheduler.tree.forget(before.version)
        return adapter.version

    def remove_adapter(self, name: str) -> None:
        """Refuse requests for an adapter from now on; those that use it finish. `AdapterError` if there is none."""
        adapter = self._adapters.remove(name)
        if adapter.is_over:
            self._scheduler.tree.forget(adapter.version)

    def _give_back_adapter(self, sequence: Sequence) -> None:
        """A request has ended; nothing can match the prefixes of an adapter that is over."""
        if sequence.adapter is None:
            return
        self._adapters.give_back(sequence.adapter)
        if sequence.adapter.is_over:
            self._scheduler.tree.forget(sequence.adapter.version)

    def step(self) -> list[Completion]:
        """Advance every running sequence by a token, right guesses, or a chunk of its prompt; return what finished since then."""
        self._expire()
        launched, self._ahead = self._ahead, None
        if launched is None or not self._is_running(launched).any():
            launched = self._launch(self._scheduler.plan(self._clock()))
        if launched is not None:
            self._ahead = self._launch_ahead(launched) if self._may_launch_ahead else None
            self._collect(launched)
        return self._retire()

    @property
    def _may_launch_ahead(self) -> bool:
        return self._is_ahead and (self._speculation is None or self._speculation.rests)  # guesses need the last tokens

    def _launch(self, plan: StepPlan) -> "_Launched | None":
        """Run the model on a plan, and sample."""
        if not len(plan.rows):
            return None
        if self._speculation is not None:
            plan = self._speculation.extend(plan)
        logits = self._runner.forward(self._seats.batch(plan.rows, plan.counts))
        done = self._note_computed(plan)
        rows, guessed = plan.rows[done], plan.guessed[done]
        sampled = np.repeat(rows, guessed + 1)
        ahead = np.arange(len(sampled)) - np.repeat(_firsts(guessed), guessed + 1)
        drawn = draw(logits, self._seats.settings(sampled, ahead=ahead), self._pick) if len(rows) else None
        return self._launched(rows, guessed, drawn, logits.shape[-1], int(plan.counts.sum()), len(plan.rows))

    def _launch_ahead(self, before: "_Launched") -> "_Launched | None":
        """Run the model on the tokens that a step has sampled, before they are known here."""
        rows = self._scheduler.plan_ahead(before.rows)
        if before.drawn is None or not len(rows):
            return None
        ids = before.drawn.ids
        if len(rows) < len(before.rows):
            going = torch.as_tensor(np.flatnonzero(np.isin(before.rows, rows)))
            ids = ids[going.to(ids.device, non_blocking=True)]
        if self._speculation is not None:
            self._speculation.rest()
        logits = self._runner.forward(self._seats.batch(rows, np.ones_like(rows), ahead=1), ids)
        self._seats.lengths[rows] += 1
        drawn = draw(logits, self._seats.settings(rows, ahead=1), self._pick)
        return self._launched(rows, np.zeros_like(rows), drawn, logits.shape[-1], len(rows), len(rows))

    def _launched(
        self, rows: Rows, guessed: Rows, drawn: Drawn | None, vocabulary: int, computed: int, sequences: int
    ) -> "_Launched":
        return _Launched(rows, self._seats.orders[rows], guessed, drawn, vocabulary, computed, sequences)

    def _is_running(self, launched: "_Launched") -> NDArray[np.bool_]:
        """For each row of a step, whether its sequence is still there: it may have been cancelled, or have ended."""
        return self._seats.taken[launched.rows] & (self._seats.orders[launched.rows] == launched.orders)

    def _collect(self, launched: "_Launched") -> None:
        """Append the tokens of a step, and end the sequences that are done."""
        ids, logprobs = launched.drawn.result() if launched.drawn else (launched.rows, np.empty(0))
        running = self._is_running(launched)
        rows, left, at = launched.rows[running], launched.guessed[running], _firsts(launched.guessed)[running]
        begun, before = rows, self._seats.totals[rows]
        sequences = [self._seats[row] for row in rows.tolist()] if self._speculation is not None else []
        while len(rows):
            right = (left > 0) & (self._seats.ids[rows, self._seats.totals[rows]] == ids[at])
            self._append(rows, ids[at], logprobs[at], launched)
            right &= self._seats.taken[rows]
            rows, left, at = rows[right], left[right] - 1, at[right] + 1
        if self._speculation is not None:
            self._speculation.learn(begun, sequences, before)
        sampled = int((self._seats.totals[begun] - before).sum())
        guessed = int(launched.guessed.sum())
        accepted = sampled - len(begun)
        self.gauges.count_step(sampled, launched.computed, launched.sequences, guessed=guessed, accepted=accepted)

    def _append(self, rows: Rows, ids: NDArray[np.int64], logprobs: NDArray[np.float64], launched: "_Launched") -> None:
        """Append one token to each of these rows, and end those that are done."""
        if launched.guessed.any():
            self._seats.lengths[rows] = self._seats.totals[rows]  # the KV of guesses after them does not count
        self._seats.append(rows, ids, logprobs, self.version)
        self._end_done(rows, ids, logprobs, broken=~np.isfinite(logprobs) | (ids >= launched.vocabulary))

    def _collect_ahead(self) -> None:
        launched, self._ahead = self._ahead, None
        if launched is not None:
            self._collect(launched)

    def _expire(self) -> None:
        """End requests that are past their deadline, with the tokens they have."""
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            sequence = self._sequences.get(heapq.heappop(self._deadlines)[1])
            if sequence and not sequence.stop:
                self._withdraw(sequence)
                sequence.stop = "deadline"
                self._ended.append(sequence)

    def _withdraw(self, sequence: Sequence) -> None:
        if sequence.seat >= 0:
            self._scheduler.leave(sequence)
        elif not sequence.stop:
            self._scheduler.waiting.remove(sequence)

    def _note_computed(self, plan: StepPlan) -> NDArray[np.bool_]:
        """Update the lengths, add prompts to the prefix tree, and return for each row whether its next token is sampled."""
        seats = self._seats
        seats.lengths[plan.rows] += plan.counts
        done = seats.lengths[plan.rows] >= seats.totals[plan.rows]
        for row, whole in zip(plan.rows[plan.num_decoding :].tolist(), done[plan.num_decoding :].tolist(), strict=True):
            self._scheduler.keep(seats[row], whole=whole)
        return done

    def _end_done(self, rows: Rows, ids: NDArray[np.int64], logprobs: NDArray[np.float64], broken: NDArray[np.bool_]) -> None:
        """End the sequences that are done."""
        seats = self._seats
        stopped = (ids[:, None] == seats.stop_ids[rows]).any(1)
        for index in np.flatnonzero(seats.has_stop_text[rows] & ~stopped).tolist():
            stopped[index] = self._has_stop_text(int(rows[index]))
        long = seats.totals[rows] >= seats.ends[rows]
        for index in np.flatnonzero(broken | stopped | long).tolist():
            sequence = seats[int(rows[index])]
            if broken[index]:
                sequence.stop, sequence.error = (
                    "failed",
                    f"the model's output is not a distribution: log-probability {logprobs[index]}",
                )
            else:
                sequence.stop = "stop" if stopped[index] else "length"
                node = self._scheduler.keep(sequence, whole=True)
                if node and sequence.request.session:
                    self._scheduler.tree.pin(sequence.request.session, node)
            self._scheduler.leave(sequence)
            self._ended.append(sequence)

    def _has_stop_text(self, row: int) -> bool:
        """True if a stop text ends in the newest token; decoding the last few tokens is enough."""
        sequence = self._seats[row]
        assert self._decode is not None
        # A token has at least one byte, and a decoder may need a few tokens before the text.
        window = max(len(text.encode()) for text in sequence.request.stop) + 8
        total = int(self._seats.totals[row])
        text = self._decode(self._seats.ids[row, max(sequence.num_prompt, total - window) : total].tolist())
        return any(stop in text for stop in sequence.request.stop)

    def _retire(self) -> list[Completion]:
        ended, self._ended = self._ended, []
        now = self._clock()
        completions: list[Completion] = []
        for sequence in ended:
            if self._sequences.pop(sequence.id, None):
                self._give_back_adapter(sequence)
                completions.append(sequence.completion(now))
                self.gauges.count_completion(completions[-1])
        return completions

    def metrics(self) -> dict[str, float]:
        """The current metrics."""
        scheduler = self._scheduler
        blocks, tree = scheduler.blocks, scheduler.tree
        return {
            "version": self.version,
            "kv_blocks": blocks.total,
            "kv_blocks_running": blocks.num_running,
            "kv_blocks_cached": blocks.num_idle,
            "kv_blocks_free": blocks.num_free,
            "kv_blocks_pinned": tree.num_pinned,
            "prefix_hit_rate": scheduler.num_cached_tokens / max(scheduler.num_prompt_tokens, 1),
            "prompt_tokens": scheduler.num_prompt_tokens,
            "cached_tokens": scheduler.num_cached_tokens,
            "evictions": tree.num_evicted,
            "preemptions": scheduler.num_preempted,
            "waiting": len(scheduler.waiting),
            "running": int(self._seats.taken.sum()),
            "occupancy": float(self._seats.taken.mean()),
            "adapters": len(self._adapters),
            **self.gauges.metrics(),
        }


def _firsts(guessed: Rows) -> Rows:
    """Of rows with so many guesses each, where the tokens sampled for each begin."""
    return np.cumsum(guessed + 1) - guessed - 1
