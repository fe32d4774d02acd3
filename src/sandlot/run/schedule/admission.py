"""How many rollouts may be in flight, decided from what is seen of the model, the judge, the sandboxes and the machine.

The limit starts small and stays between `floor` and `ceiling`. It is looked at a few times a second:

- **Grow** if a rollout waits, enough turns that began since the last change were answered, and nothing is short: twofold up to
  half of where something was short last, then in steps of an eighth. Close to that place steps wait, each time twice as long.
- **Keep** if something is nearly short.
- **Cut** if something is short: back to the largest limit that was good since the last cut, else to 0.7 of what is running. No
  cut follows before the last one has taken effect, that is, before so few are running.
- **Return** to the smaller limit if growing by half or more gained almost nothing: the model's throughput no longer rises.
- Memory, and the cache of the model if its size is known, bound the limit at once: so many as there is room for.

Nothing that runs is ended by it, and the limit is at least 1, so with none running one may start. What a rollout does and earns
does not depend on it. All of it is a function of what was told, without clocks or chance.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum

from sandlot.run.schedule.job import Waits

FIRST = 4
"""Rollouts that start before anything is known."""
LEAST_TURNS = 16
"""Turns after which the limit may grow; with a larger limit, half of it."""
_LEAST_EVENTS = 8
"""Requests of which the refused share is judged."""
_CUT = 0.7
_NEAR = 0.9
"""Of the place where something was short last: from there on, steps wait."""
_LONGEST_PATIENCE = 32
"""Looks with enough turns and nothing short that a step waits for."""
_SETTLE_S = 5.0
"""After a change, what is said about the machine is believed after this long: it is averaged over seconds."""

_JUDGED_GROWTH = 1.5
_LEAST_GAIN = 0.2
"""Growing by this factor, or more, must gain this share of what it adds."""
_FALL = 0.85
"""Throughput that falls below this share of an earlier one, at a larger limit, fell because of it."""
_SHORT_TURN_S = 0.01
"""Turns that are shorter say nothing about the model."""

_MEMORY_RESERVE = 0.1
"""Of the memory there is, not given to rollouts."""
_LEAST_BYTES = 4 << 20
"""What a rollout is thought to need at least."""
_LEAST_SETTLED = 4
"""Rollouts from which the memory of one is learned."""
_FORGET = 0.01
"""Of an estimate of memory that was too large, at each look."""
_CACHE_SHARE = 0.9
"""Of the model's cache, given to the contexts that are expected."""
_SLOW_OPENING_S = 0.5
"""Worlds that open faster are never slow."""


class _Level(IntEnum):
    """How short something is."""

    NONE = 0
    KEEP = 1
    CUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What was seen since the last look, and how things are now. What is not known is left out."""

    running: int
    """Rollouts in flight."""
    waiting: bool
    """True if one waits to start, and nothing but the limit keeps it."""
    seconds: float = 1.0
    """Since the last look."""
    turns: int = 0
    """Turns that the model answered."""
    refused: int = 0
    """Times that a request for a turn had to be sent again: refused, failed or late."""
    fresh_turns: int = 0
    """Of the turns, those that began after the limit was changed last."""
    fresh_s: float = 0.0
    """Seconds of these together."""
    fresh_tokens: int = 0
    """Tokens sampled in these; 0 if the model does not report them."""
    queued: int | None = None
    """Requests that wait inside the model's servers."""
    cache_used: float | None = None
    """Share of the servers' cache that requests under way hold."""
    cache_tokens: int | None = None
    """Tokens that the cache of the model holds."""
    cache_forecast: int = 0
    """Tokens that the rollouts in flight are expected to need there."""
    cache_each: int = 0
    """Tokens that one more is expected to need."""
    grading: int = 0
    """Rollouts that are graded."""
    graded: int = 0
    """Rollouts that were graded."""
    judge_refused: int = 0
    """Times that a request to the judge had to be sent again."""
    opening: int = 0
    """Rollouts in flight whose world is not open yet."""
    opened: int = 0
    """Worlds that were opened."""
    open_s: float = 0.0
    """Seconds of these together."""
    sandboxed: bool = False
    """True if rollouts run processes on this machine."""
    cpus: int = 1
    runnable: float | None = None
    """Threads of this machine that run or wait for a processor."""
    lag_s: float | None = None
    """Longest wait for the event loop lately."""
    free_bytes: int | None = None
    """Memory that can be taken, of the machine or of our control group."""
    total_bytes: int = 0
    memory_stall: float | None = None
    """Share of time in which everything waited for memory."""


@dataclass(slots=True)
class _Seen:
    """The sum of signals since the last decision."""

    seconds: float = 0.0
    turns: int = 0
    refused: int = 0
    fresh_turns: int = 0
    fresh_s: float = 0.0
    fresh_tokens: int = 0
    graded: int = 0
    judge_refused: int = 0
    opened: int = 0
    open_s: float = 0.0
    runnable_s: float = 0.0
    """Runnable threads, times seconds."""

    def add(self, signals: Signals) -> None:
        for name in ("seconds", "turns", "refused", "fresh_turns", "fresh_s", "fresh_tokens", "graded", "judge_refused"):
            setattr(self, name, getattr(self, name) + getattr(signals, name))
        self.opened += signals.opened
        self.open_s += signals.open_s
        self.runnable_s += (signals.runnable or 0.0) * signals.seconds

    @property
    def flow(self) -> float | None:
        """Tokens, or turns, that the model gives one rollout in a second; None if turns are too short to tell."""
        if self.fresh_s <= self.fresh_turns * _SHORT_TURN_S:
            return None
        return max(self.fresh_tokens, self.fresh_turns) / self.fresh_s


@dataclass(slots=True)
class Admission:
    """The limit, and what it was learned from. Tell it with `look`; between looks `limit` is constant."""

    ceiling: int
    floor: int = 1
    reason: Waits = Waits.PACE
    """Why the limit is not larger, apart from the ceiling and the caps."""
    counts_grading: bool = False
    """True once the judge has refused: rollouts that are graded then take places too."""
    num_changes: int = 0
    """Changes by growing, cutting and returning; a turn that began before the last one says nothing about the limit now."""
    _size: int = field(init=False)
    _caps: dict[Waits, int] = field(init=False, default_factory=dict[Waits, int])
    _seen: _Seen = field(init=False, default_factory=_Seen)
    _good: int | None = field(init=False, default=None)
    """The largest limit at which nothing was short since the last cut."""
    _bad: int | None = field(init=False, default=None)
    """What was running when something was short last; twice a limit that has proved good beyond that."""
    _base: tuple[int, float] | None = field(init=False, default=None)
    """A limit and the throughput at it, to compare larger ones with."""
    _patience: int = field(init=False, default=1)
    _clean: int = field(init=False, default=0)
    """Good looks at this limit."""
    _most_free: int = field(init=False, default=0)
    _bytes_each: float = field(init=False, default=_LEAST_BYTES)
    _fastest_open_s: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        """Start small."""
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(f"floor={self.floor}, ceiling={self.ceiling}: give 1 or more, and a ceiling not below the floor")
        self._size = max(self.floor, min(FIRST, self.ceiling))

    @property
    def limit(self) -> int:
        """Rollouts that may be in flight."""
        return max(self.floor, min(self.ceiling, self._size, *self._caps.values()))

    @property
    def binding(self) -> Waits:
        """Why the limit is not larger."""
        limit = self.limit
        if limit == self.ceiling:
            return Waits.LIMIT
        if limit < self._size:
            return min(self._caps, key=lambda reason: self._caps[reason])
        return self.reason

    def resize(self, ceiling: int) -> None:
        """A person allows another number."""
        self.ceiling = ceiling
        self.floor = min(self.floor, ceiling)
        self._size = min(self._size, ceiling)

    def look(self, signals: Signals) -> None:
        """Decide again. Signals are those since the last look."""
        self._learn(signals)
        self._caps = self._find_caps(signals)
        self._seen.add(signals)
        taken = signals.running + (signals.grading if self.counts_grading else 0)
        if taken > self._size:  # the last cut has not taken effect
            self._seen = _Seen()
            return
        level, reason = max(self._shortages(signals), default=(_Level.NONE, self.reason), key=lambda each: each[0])
        if level is _Level.CUT:
            self._cut(taken, reason, signals)
        elif self._seen.fresh_turns >= max(LEAST_TURNS, self._size // 2):
            if level is _Level.KEEP:
                self.reason, self._clean = reason, 0
            elif signals.waiting and self.limit == self._size:
                self._go_on()
            self._seen = _Seen()

    # -- what is short ---------------------------------------------------------------------------------------------------

    def _shortages(self, signals: Signals) -> list[tuple[_Level, Waits]]:
        """How short each thing is, as far as enough was seen of it."""
        seen = self._seen
        found = [
            (_share_level(seen.refused, seen.turns), Waits.MODEL),
            (_share_level(seen.judge_refused, seen.graded), Waits.JUDGE),
        ]
        if signals.queued is not None:
            found.append((_level(signals.queued, 1, max(2, signals.running / 4)), Waits.QUEUE))
        if signals.cache_used is not None:
            found.append((_level(signals.cache_used, 0.8, 0.95), Waits.CACHE))
        if seen.opened >= _LEAST_EVENTS and seen.open_s / seen.opened >= _SLOW_OPENING_S:
            found.append((_level(seen.open_s / seen.opened / self._fastest_open_s, 3, 8), Waits.SANDBOX))
        if seen.seconds >= _SETTLE_S:
            if signals.sandboxed and signals.runnable is not None:
                found.append((_level(seen.runnable_s / seen.seconds / signals.cpus, 4, 12), Waits.CPU))
            if signals.lag_s is not None:
                found.append((_level(signals.lag_s, 0.5, 2.0), Waits.LOOP))
            if signals.memory_stall is not None:
                found.append((_level(signals.memory_stall, 0.05, 0.2), Waits.MEMORY))
        return found

    def _find_caps(self, signals: Signals) -> dict[Waits, int]:
        """How many there is room for, where that can be counted: those in flight will take what others took."""
        caps: dict[Waits, int] = {}
        if signals.free_bytes is not None:
            each = self._bytes_each
            free = min(signals.free_bytes - each * signals.opening, self._most_free - each * signals.running)
            caps[Waits.MEMORY] = signals.running + math.floor((free - _MEMORY_RESERVE * signals.total_bytes) / each)
        if signals.cache_tokens is not None and signals.cache_each:
            free = _CACHE_SHARE * signals.cache_tokens - signals.cache_forecast
            caps[Waits.CACHE] = signals.running + math.floor(free / signals.cache_each)
        return caps

    def _learn(self, signals: Signals) -> None:
        """What a rollout needs of this machine."""
        if signals.opened >= _LEAST_SETTLED:
            self._fastest_open_s = min(self._fastest_open_s, max(1e-6, signals.open_s / signals.opened))
        if signals.free_bytes is None:
            return
        self._most_free = max(self._most_free, signals.free_bytes)
        settled = signals.running - signals.opening
        if settled >= _LEAST_SETTLED:
            each = max(_LEAST_BYTES, (self._most_free - signals.free_bytes) / settled)
            weight = 1.0 if each > self._bytes_each else _FORGET  # too little is dangerous, too much only slow
            self._bytes_each += weight * (each - self._bytes_each)

    # -- what is done about it -------------------------------------------------------------------------------------------

    def _cut(self, taken: int, reason: Waits, signals: Signals) -> None:
        """Something is short."""
        least = 2 * signals.cpus if reason is Waits.CPU else self.floor  # fewer would leave processors idle
        wanted = self._good if self._good is not None and self._good < taken else math.floor(_CUT * taken)
        self.counts_grading = self.counts_grading or reason is Waits.JUDGE
        self._slow_down(min(self._size, max(self.floor, least, wanted)), short_at=taken, reason=reason)
        self._good = None

    def _go_on(self) -> None:
        """Nothing is short: grow, unless growing has gained nothing, or it is too early for the next step."""
        size, flow = self._size, self._seen.flow
        if flow is not None:
            whole = size * flow
            if self._base is None or size <= self._base[0]:
                self._base = size, whole
            elif self._gained_nothing(self._base, size, whole):
                smaller = self._base[0]
                self._slow_down(smaller, short_at=size, reason=Waits.THROUGHPUT)
                self._good = smaller
                return
            elif size >= _JUDGED_GROWTH * self._base[0]:
                self._base = size, whole
        self._good = size
        if self._bad is not None and size >= self._bad:  # what was short is not short any more
            self._bad, self._patience, self.reason = 2 * size, 1, Waits.PACE
        self._clean += 1
        step = max(1, size // 8)
        is_near = self._bad is not None and size + step > _NEAR * self._bad
        if self._clean >= (self._patience if is_near else 1):
            is_far = self._bad is None or 2 * size <= _NEAR * self._bad
            self._change(min(self.ceiling, 2 * size if is_far else size + step))

    @staticmethod
    def _gained_nothing(base: tuple[int, float], size: int, whole: float) -> bool:
        growth = size / base[0]
        wanted = 1 + _LEAST_GAIN * (growth - 1)
        return whole < _FALL * base[1] or (growth >= _JUDGED_GROWTH and whole < wanted * base[1])

    def _slow_down(self, size: int, *, short_at: int, reason: Waits) -> None:
        self._bad, self._base, self.reason = short_at, None, reason
        self._patience = min(2 * self._patience, _LONGEST_PATIENCE)
        self._change(size)

    def _change(self, size: int) -> None:
        self._clean, self._seen = 0, _Seen()
        self.num_changes += size != self._size
        self._size = size


def _level(value: float, keep: float, cut: float) -> _Level:
    return _Level.CUT if value >= cut else _Level.KEEP if value >= keep else _Level.NONE


def _share_level(refused: int, answered: int) -> _Level:
    """How short something is of which requests were refused."""
    if refused < 2 or refused + answered < _LEAST_EVENTS:
        return _Level.NONE
    return _level(refused / (refused + answered), 0.02, 0.1)
