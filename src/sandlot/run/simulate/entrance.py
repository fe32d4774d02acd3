"""How many simulated rollouts may be in flight: by `Admission`, the same code that live runs and trainings with `--adapt` use.

It is told what a live run sees of servers that report their load: turns and how long they took, requests that wait inside the
servers, the cache in use, and what the contexts in flight will need. Live runs look as often, and ask the servers as often.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandlot.core.stats.intervals import quantile
from sandlot.run.schedule.admission import Admission, Signals
from sandlot.run.schedule.job import RolloutJob

LOOK_S = 0.25
_LOOKS_PER_READING = 8
"""The servers are asked every two seconds."""
_RECENT = 64
"""Rollouts whose last context says how long that of others gets."""


@dataclass(frozen=True, slots=True)
class ServersSeen:
    """What the servers say of themselves."""

    queued: int
    held: float
    """Tokens in their caches."""
    cache_tokens: int


@dataclass(slots=True)
class _Turns:
    count: int = 0
    fresh: int = 0
    fresh_s: float = 0.0
    fresh_tokens: int = 0


@dataclass(slots=True)
class Entrance:
    """Rollouts that wait outside, and those that were let in."""

    admission: Admission
    waiting: deque[RolloutJob]
    running: dict[int, RolloutJob] = field(default_factory=dict[int, RolloutJob])
    _began: dict[int, float] = field(default_factory=dict[int, float])
    """When the current turn of each rollout was asked for."""
    _turns: _Turns = field(default_factory=_Turns)
    _last_contexts: deque[int] = field(default_factory=lambda: deque[int](maxlen=_RECENT))
    _num_looks: int = 0
    _changed_s: float = 0.0

    def let_in(self, now: float) -> list[RolloutJob]:
        """Those that may start now."""
        found: list[RolloutJob] = []
        while self.waiting and self.admission.admits(len(self.running), 0):
            job = self.waiting.popleft()
            self.running[job.index] = job
            self.note_asked(job, now)
            found.append(job)
        return found

    def note_asked(self, job: RolloutJob, now: float) -> None:
        """A turn begins: its request goes to the servers."""
        self._began[job.index] = now

    def note_turn(self, job: RolloutJob, tokens: int, now: float) -> None:
        """A turn of so many tokens was answered."""
        began = self._began[job.index]
        self._turns.count += 1
        if began >= self._changed_s:
            self._turns.fresh += 1
            self._turns.fresh_s += now - began
            self._turns.fresh_tokens += tokens

    def note_ended(self, job: RolloutJob) -> None:
        """A rollout has ended."""
        del self.running[job.index]
        self._last_contexts.append(job.context)

    def look(self, now: float, servers: ServersSeen) -> None:
        """Decide again how many may be in flight."""
        self._num_looks += 1
        is_reading = self._num_looks % _LOOKS_PER_READING == 0
        contexts = [job.context for job in self.running.values()]
        each = _expected(self._last_contexts, contexts)
        turns, self._turns = self._turns, _Turns()
        changes = self.admission.num_changes
        self.admission.look(
            Signals(
                running=len(contexts),
                waiting=bool(self.waiting),
                seconds=LOOK_S,
                turns=turns.count,
                fresh_turns=turns.fresh,
                fresh_s=turns.fresh_s,
                fresh_tokens=turns.fresh_tokens,
                queued=servers.queued if is_reading else None,
                cache_used=servers.held / servers.cache_tokens if is_reading else None,
                cache_tokens=servers.cache_tokens,
                cache_forecast=sum(max(each, context) for context in contexts),
                cache_each=each,
            )
        )
        if self.admission.num_changes != changes:
            self._changed_s = now


def _expected(ended: Sequence[int], running: Sequence[int]) -> int:
    """Tokens that the context of one more will have at its end: what three of four had that have ended."""
    return round(quantile(sorted(ended), 0.75)) if ended else max(running, default=0)
