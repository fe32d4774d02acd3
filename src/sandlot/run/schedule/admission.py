"""How many rollouts may be in flight, decided from what is seen of the model, the judge, the sandboxes and the machine.

The limit starts small and stays between `floor` and `ceiling`. It is looked at a few times a second:

- **Grow** if a rollout waits, enough turns that began since the last change were answered, and nothing is short: twofold up to
  half of where something was short last, then in steps of an eighth. Close to that place steps wait, each time twice as long.
- **Keep** if something is nearly short.
- **Cut** if something is short: back to the largest limit that was good since the last cut, else to 0.7 of what is running. No
  cut follows before the last one has taken effect, that is, before so few are running.
- **Return** to the smaller limit if growing by half or more gained almost nothing: the model's throughput no longer rises.
- Memory, and the cache of the model if its size is known, bound the limit at once: so many as there is room for.

Each signal is judged when enough was seen of it, on its own: requests and openings by the number, the machine by the second, the
servers at each reading. What was judged counts until it is judged again, the limit changes, or it is old. What is said of the
machine or the servers must have been judged at this limit before it grows.

Nothing that runs is ended by it, and with none running one may always start. What a rollout does and earns does not depend on it.
All of it is a function of what was told, without clocks or chance.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from sandlot.run.schedule.job import Waits
from sandlot.run.schedule.memory import RolloutMemory

FIRST = 4
"""Rollouts that start before anything is known."""
LEAST_TURNS = 16
"""Turns after which the limit may grow; with a larger limit, half of it."""
_LEAST_EVENTS = 8
"""Requests of which the refused share is judged."""
_JUDGE_KEEP, _JUDGE_CUT = 0.25, 0.5
"""Of the judge, requests are not counted but rollouts that were graded, each of which may need several."""
_CUT = 0.7
_NEAR = 0.9
"""Of the place where something was short last: from there on, steps wait."""
_LONGEST_PATIENCE = 32
"""Looks with enough turns and nothing short that a step waits for."""
_SETTLE_S = 5.0
"""What is said about the machine is averaged over this long, from the last change on."""
_STEADY_S = 10.0
"""What is said of the last five or ten seconds, the lag of the loop and time lost for memory, cuts when the limit is so old."""
_OLD_S = 30.0
"""What was judged so long ago counts no more."""
_CLEAN_S = 60.0
"""After this long without a refusal of the judge, rollouts that are graded take no places any more."""

_JUDGED_GROWTH = 1.5
_LEAST_GAIN = 0.2
"""Growing by this factor, or more, must gain this share of what it adds."""
_FALL = 0.85
"""Throughput that falls below this share of an earlier one, at a larger limit, fell because of it."""
_SHORT_TURN_S = 0.01
"""Turns that are shorter say nothing about the model."""

_CACHE_SHARE = 0.9
"""Of the model's cache, given to the contexts that are expected."""
_CACHE_LOW = 0.5
"""While less of the cache is in use, no forecast bounds the limit: contexts share their beginnings."""
_SLOW_OPENING_S = 0.5
"""Worlds that open faster are never slow."""


_SERVERS = {Waits.QUEUE, Waits.CACHE}
"""What the servers say."""


class _Level(IntEnum):
    """How short something is."""

    NONE = 0
    KEEP = 1
    CUT = 2


@dataclass(frozen=True, slots=True)
class Opened:
    """Worlds of one run that were opened."""

    count: int
    seconds: float
    """Of all of them together, waiting included."""


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
    """Requests that wait inside the model's servers; each reading is told once."""
    cache_used: float | None = None
    """Share of the servers' cache that requests under way hold; each reading is told once."""
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
    opened: Mapping[str, Opened] = field(default_factory=dict[str, "Opened"])
    """Worlds that were opened, by run: each has one environment."""
    sandboxed: bool = False
    """True if rollouts run processes on this machine."""
    cpus: int = 1
    runnable: float | None = None
    """Threads of this machine that run or wait for one of its processors, of which there are `cpus`."""
    lag_s: float | None = None
    """Longest wait for the event loop lately."""
    free_bytes: int | None = None
    """Memory that can be taken, of the machine or of our control group."""
    total_bytes: int = 0
    memory_stall: float | None = None
    """Share of time in which everything waited for memory."""


@dataclass(slots=True)
class _Share:
    """Requests that were answered and those that were refused, until they are judged."""

    answered: int = 0
    refused: int = 0

    def add(self, answered: int, refused: int) -> None:
        self.answered += answered
        self.refused += refused

    @property
    def count(self) -> int:
        return self.answered + self.refused


@dataclass(slots=True)
class _FreshTurns:
    """Turns that began at this limit, until it is decided whether to grow."""

    count: int = 0
    seconds: float = 0.0
    tokens: int = 0

    @property
    def flow(self) -> float | None:
        """Tokens, or turns, that the model gives one rollout in a second; None if turns are too short to tell."""
        if self.seconds <= self.count * _SHORT_TURN_S:
            return None
        return max(self.tokens, self.count) / self.seconds


@dataclass(slots=True)
class _Machine:
    """What was said about the machine, until it is judged."""

    seconds: float = 0.0
    runnable_s: float = 0.0
    """Runnable threads, times seconds."""


@dataclass(slots=True)
class _Openings:
    """How fast the worlds of one run open."""

    count: int = 0
    seconds: float = 0.0
    fastest_s: float = math.inf


_Judged = tuple[Waits, str]
"""What was judged; of worlds, of which run."""


@dataclass(slots=True)
class Admission:
    """The limit, and what it was learned from. Tell it with `look`; between looks `limit` is constant."""

    ceiling: int
    floor: int = 1
    reason: Waits = Waits.PACE
    """Why the limit is not larger, apart from the ceiling and the caps."""
    counts_grading: bool = False
    """True while the judge refuses: rollouts that are graded then take places too."""
    num_changes: int = 0
    """Changes by growing, cutting and returning; a turn that began before the last one says nothing about the limit now."""
    _size: int = field(init=False)
    _caps: dict[Waits, int] = field(init=False, default_factory=dict[Waits, int])
    _model: _Share = field(init=False, default_factory=_Share)
    _judge: _Share = field(init=False, default_factory=_Share)
    _turns: _FreshTurns = field(init=False, default_factory=_FreshTurns)
    _machine: _Machine = field(init=False, default_factory=_Machine)
    _openings: defaultdict[str, _Openings] = field(init=False, default_factory=lambda: defaultdict(_Openings))
    _levels: dict[_Judged, _Level] = field(init=False, default_factory=dict[_Judged, _Level])
    """How short each thing is at this limit, as far as it was judged."""
    _judged_s: dict[_Judged, float] = field(init=False, default_factory=dict[_Judged, float])
    """When each thing was judged last, at any limit."""
    _now_s: float = field(init=False, default=0.0)
    _steady_s: float = field(init=False, default=0.0)
    """Since the limit changed last and that has taken effect."""
    _judge_short_s: float = field(init=False, default=0.0)
    """When the judge was short last."""
    _good: int | None = field(init=False, default=None)
    """The largest limit at which nothing was short since the last cut."""
    _bad: int | None = field(init=False, default=None)
    """What was running when something was short last; twice a limit that has proved good beyond that."""
    _base: tuple[int, float] | None = field(init=False, default=None)
    """A limit and the throughput at it, to compare larger ones with."""
    _patience: int = field(init=False, default=1)
    _clean: int = field(init=False, default=0)
    """Good looks at this limit."""
    _memory: RolloutMemory = field(init=False, default_factory=RolloutMemory)
    _cache_used: float | None = field(init=False, default=None)

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

    def admits(self, running: int, grading: int) -> bool:
        """Whether one more may start."""
        if running == 0:
            return True
        return running < self.limit and not (self.counts_grading and running + grading >= max(self.floor, self._size))

    def look(self, signals: Signals) -> None:
        """Decide again. Signals are those since the last look."""
        self._now_s += signals.seconds
        self._caps = self._find_caps(signals)
        if self.counts_grading and self._now_s - self._judge_short_s >= _CLEAN_S:
            self.counts_grading = False
        if signals.running > self._size:  # the last cut has not taken effect
            self._begin_again()
            self._model, self._judge = _Share(), _Share()
            return
        self._judge_requests(signals)
        self._judge_servers(signals)
        self._judge_openings(signals)
        self._judge_machine(signals)
        self._turns.count += signals.fresh_turns
        self._turns.seconds += signals.fresh_s
        self._turns.tokens += signals.fresh_tokens
        level, reason = max(self._shortages(), default=(_Level.NONE, self.reason), key=lambda each: each[0])
        if level is _Level.CUT:
            self._cut(reason, signals)
        elif self._turns.count >= max(LEAST_TURNS, self._size // 2) and self._is_settled(signals):
            if level is _Level.KEEP:
                self.reason, self._clean = reason, 0
            elif signals.waiting and self.limit == self._size:
                self._go_on()
            self._turns = _FreshTurns()

    # -- what is short ---------------------------------------------------------------------------------------------------

    def _shortages(self) -> list[tuple[_Level, Waits]]:
        """How short each thing is, as far as it was judged and that is not old."""
        return [(level, key[0]) for key, level in self._levels.items() if self._now_s - self._judged_s[key] < _OLD_S]

    def _is_settled(self, signals: Signals) -> bool:
        """Whether what is said of the machine and the servers was judged at this limit."""
        known = {key for key, at in self._judged_s.items() if key[0] in _SERVERS and self._now_s - at < _OLD_S}
        if _says_machine(signals):
            known.add((Waits.LOOP, ""))
        return known <= self._levels.keys()

    def _note(self, level: _Level, reason: Waits, of: str = "") -> None:
        self._levels[reason, of] = level
        self._judged_s[reason, of] = self._now_s

    def _judge_requests(self, signals: Signals) -> None:
        enough = max(_LEAST_EVENTS, self._size // 2)
        self._model.add(signals.turns, signals.refused)
        level = _share_level(self._model, 0.02, 0.1)
        if level is _Level.CUT or self._model.count >= enough:
            self._note(level, Waits.MODEL)
            self._model = _Share()
        if self.counts_grading and signals.running + signals.grading > self._size:  # the last cut has not taken effect there
            self._judge = _Share()
            self._judge_short_s = self._now_s if signals.judge_refused else self._judge_short_s
            return
        self._judge.add(signals.graded, signals.judge_refused)
        level = _share_level(self._judge, _JUDGE_KEEP, _JUDGE_CUT)
        if level is _Level.CUT or self._judge.count >= enough:
            self._note(level, Waits.JUDGE)
            self._judge = _Share()
        if level is not _Level.NONE:
            self._judge_short_s = self._now_s

    def _judge_servers(self, signals: Signals) -> None:
        if signals.queued is not None:
            self._note(_level(signals.queued, 1, max(2, signals.running / 4)), Waits.QUEUE)
        if signals.cache_used is not None:
            self._note(_level(signals.cache_used, 0.8, 0.95), Waits.CACHE)

    def _judge_openings(self, signals: Signals) -> None:
        for name, opened in signals.opened.items():
            seen = self._openings[name]
            seen.count += opened.count
            seen.seconds += opened.seconds
            if seen.count >= _LEAST_EVENTS:
                mean_s = seen.seconds / seen.count
                seen.fastest_s = min(seen.fastest_s, max(1e-6, mean_s))
                is_slow = mean_s >= _SLOW_OPENING_S
                self._note(_level(mean_s / seen.fastest_s, 3, 8) if is_slow else _Level.NONE, Waits.SANDBOX, name)
                seen.count, seen.seconds = 0, 0.0

    def _judge_machine(self, signals: Signals) -> None:
        seen = self._machine
        seen.seconds += signals.seconds
        seen.runnable_s += (signals.runnable or 0.0) * signals.seconds
        self._steady_s += signals.seconds
        if seen.seconds < _SETTLE_S or not _says_machine(signals):
            return
        most = _Level.CUT if self._steady_s >= _STEADY_S else _Level.KEEP
        self._note(min(most, _level(signals.lag_s or 0.0, 0.5, 2.0)), Waits.LOOP)
        if signals.memory_stall is not None:
            self._note(min(most, _level(signals.memory_stall, 0.05, 0.2)), Waits.MEMORY)
        if signals.sandboxed and signals.runnable is not None and self._size >= 2 * signals.cpus:  # fewer leave processors idle
            self._note(_level(seen.runnable_s / seen.seconds / signals.cpus, 4, 12), Waits.CPU)
        self._machine = _Machine()

    def _find_caps(self, signals: Signals) -> dict[Waits, int]:
        """How many there is room for, where that can be counted: those in flight will take what others took."""
        caps: dict[Waits, int] = {}
        running, opening, seconds = signals.running, signals.opening, signals.seconds
        if signals.free_bytes is not None:
            self._memory.learn(settled=running - opening, free=signals.free_bytes, seconds=seconds)
            caps[Waits.MEMORY] = self._memory.room(
                running=running, opening=opening, free=signals.free_bytes, total=signals.total_bytes, seconds=seconds
            )
        self._cache_used = signals.cache_used if signals.cache_used is not None else self._cache_used
        is_low = self._cache_used is not None and self._cache_used < _CACHE_LOW
        if signals.cache_tokens is not None and signals.cache_each and not is_low:
            free = _CACHE_SHARE * signals.cache_tokens - signals.cache_forecast
            caps[Waits.CACHE] = running + math.floor(free / signals.cache_each)
        return caps

    # -- what is done about it -------------------------------------------------------------------------------------------

    def _cut(self, reason: Waits, signals: Signals) -> None:
        """Something is short."""
        taken = signals.running + (signals.grading if reason is Waits.JUDGE and self.counts_grading else 0)
        self.counts_grading = self.counts_grading or reason is Waits.JUDGE
        least = 2 * signals.cpus if reason is Waits.CPU else self.floor  # fewer would leave processors idle
        wanted = self._good if self._good is not None and self._good < taken else math.floor(_CUT * taken)
        self._slow_down(min(self._size, max(self.floor, least, wanted)), short_at=taken, reason=reason)
        self._good = None

    def _go_on(self) -> None:
        """Nothing is short: grow, unless growing has gained nothing, or it is too early for the next step."""
        size, flow = self._size, self._turns.flow
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
        if size < self.ceiling and self._clean >= (self._patience if is_near else 1):
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
        self._clean = 0
        self._begin_again()
        self.num_changes += size != self._size
        self._size = size

    def _begin_again(self) -> None:
        """What was judged, and what was said of the machine, says nothing about the limit now."""
        self._turns, self._machine, self._steady_s = _FreshTurns(), _Machine(), 0.0
        self._levels.clear()


def _level(value: float, keep: float, cut: float) -> _Level:
    return _Level.CUT if value >= cut else _Level.KEEP if value >= keep else _Level.NONE


def _share_level(seen: _Share, keep: float, cut: float) -> _Level:
    """How short something is of which requests were refused."""
    if seen.refused < 2 or seen.count < _LEAST_EVENTS:
        return _Level.NONE
    return _level(seen.refused / seen.count, keep, cut)


def _says_machine(signals: Signals) -> bool:
    return signals.lag_s is not None or signals.memory_stall is not None or (signals.sandboxed and signals.runnable is not None)
