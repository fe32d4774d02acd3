"""How much memory a rollout takes, learned from what is free while rollouts come and go.

Two things are known of it. What is gone since most was free, divided by those that run, is what they took, if nothing else took
any. And where the number that run varied and what is free hardly did, they take little, whatever else is gone: a model that was
loaded meanwhile. An estimate that is too small is dangerous, one that is too large only slow: it rises at once and falls slowly.
"""

import math
from collections import deque
from dataclasses import dataclass, field

_RESERVE = 0.1
_MOST_RESERVE = 4 << 30
"""Not given to rollouts: this share of the memory there is, at most so many bytes."""
_LEAST_BYTES = 4 << 20
"""What a rollout is thought to need at least."""
_LEAST_SETTLED = 4
"""Rollouts from which the memory of one is learned."""
_FORGET = 0.01
"""Of an estimate that was too large, at each look."""
_HOLD_S = 15.0
"""An estimate was too large if less was taken for so long. Less is also taken while many that started together just begin."""
_SAMPLE_S = 5.0
"""Between two samples that are compared. A rollout that has started should take its memory within three fifths of this time."""
_FADE = 0.8
"""Of what earlier samples said, at each."""
_LEAST_CHANGE = 0.5
"""Of the number that run, squared: from less, nothing is learned."""
_BELIEVED = 4
"""Samples that must agree that a rollout takes little."""
_LEAST_CORRELATION = 0.5
_TRY_S = 10.0
"""If there seems to be no room but much is free, one more may start, and after this long yet another: what it takes corrects the
estimate."""


@dataclass(slots=True)
class _Sums:
    """How the number that run and what is free changed from sample to sample, squared and summed."""

    running: float = 0.0
    free: float = 0.0
    both: float = 0.0
    _last: tuple[int, int] | None = None

    def add(self, running: int, free: int) -> bool:
        """True if another number was running than in the sample before."""
        more, less = (running - self._last[0], self._last[1] - free) if self._last is not None else (0, 0)
        self._last = running, free
        self.running = _FADE * self.running + more * more
        self.free = _FADE * self.free + less * less
        self.both = _FADE * self.both + more * less
        return more != 0


@dataclass(slots=True)
class _Changes:
    """What the samples say that were taken so far."""

    _ends: _Sums = field(default_factory=_Sums)
    """Of what was seen when each sample ended."""
    _extremes: _Sums = field(default_factory=_Sums)
    """Of the most that ran and the least that was free since the sample before, then of the reverse, and so on. Those that start
    together and last as long as a sample would otherwise be seen each time before they have taken anything."""
    _seen: tuple[int, int] | None = None
    """The extremes so far."""
    _is_reverse: bool = False
    _seconds: float = math.inf
    """Since the last sample."""

    def add(self, running: int, free: int, seconds: float) -> bool:
        """True if it was a sample at which another number was running, so that something was learned."""
        most, least = (min, max) if self._is_reverse else (max, min)
        seen = (running, free) if self._seen is None else (most(running, self._seen[0]), least(free, self._seen[1]))
        self._seen = seen
        self._seconds += seconds
        if self._seconds < _SAMPLE_S:
            return False
        self._ends.add(running, free)
        is_other = self._extremes.add(*seen)
        self._seen, self._is_reverse, self._seconds = None, not self._is_reverse, 0.0
        return is_other and self._extremes.running >= _LEAST_CHANGE

    @property
    def bound(self) -> float:
        """The most that one can take: if each took more, what is free would have changed more."""
        return math.sqrt(self._extremes.free / self._extremes.running)

    @property
    def is_linked(self) -> bool:
        """Whether less was free when more were running. The extremes would say so of anything that changes."""
        return self._ends.both > _LEAST_CORRELATION * math.sqrt(self._ends.free * self._ends.running)


@dataclass(slots=True)
class RolloutMemory:
    """What one rollout takes, and how many there is room for."""

    each: float = _LEAST_BYTES
    """Bytes that a rollout is thought to need."""
    _most_free: int = 0
    _changes: _Changes = field(default_factory=_Changes)
    _bounds: deque[float] = field(default_factory=lambda: deque([math.inf] * _BELIEVED, maxlen=_BELIEVED))
    """The most that one can take, as the last samples say."""
    _measured: float = 0.0
    """The same if less was free when more were running, so that it is what a rollout takes; else 0."""
    _less_s: float = 0.0
    """How long less has been taken than the estimate says."""
    _kept_s: float = 0.0
    """How long there has seemed to be no room though much was free."""
    _tried: int = 0
    """How many may be in flight to find out."""

    def learn(self, *, settled: int, free: int, seconds: float) -> None:
        """So many run and have taken their part, and so much is free."""
        self._most_free = max(self._most_free, free)
        if self._changes.add(settled, free, seconds):
            self._bounds.append(self._changes.bound)
            self._measured = self._changes.bound if self._changes.is_linked else 0.0
        taken = (self._most_free - free) / settled if settled >= _LEAST_SETTLED else self.each
        each = max(_LEAST_BYTES, min(taken, 2 * max(self._bounds)))
        self._less_s = self._less_s + seconds if each < self.each else 0.0
        if each > self.each:
            self.each = each
        elif self._less_s >= _HOLD_S:
            self.each += _FORGET * (each - self.each)

    def room(self, *, running: int, opening: int, free: int, total: int, seconds: float) -> int:
        """How many may be in flight, if those that open will take their part too."""
        reserve = min(_RESERVE * total, _MOST_RESERVE)
        left = min(free - self.each * opening, self._most_free - self.each * running) - reserve
        found = running + math.floor(left / self.each)
        is_much = free - reserve >= max(_LEAST_BYTES, reserve, 2 * self._measured)
        if found > running or opening or not is_much:
            self._kept_s, self._tried = 0.0, 0
            return found
        self._kept_s += seconds
        if self._kept_s >= _TRY_S:
            self._kept_s = 0.0
            self._tried = 0 if self._tried > running else running + 1
        return max(found, self._tried)
