"""How far a run is and how it goes: counted from finished rollouts, read at any moment, drawn by others.

The rate that the estimate rests on is that of the last rollouts, not of the whole run: a run that slows down says so. Rollouts
that an earlier start of the run had finished count as finished and not as speed.
"""

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.trace import TraceRow

RECENT = 256
"""Rollouts the present rate is taken from."""


_FIRST_LINE_S = 10.0
LONGEST_LINE_S = 120.0
"""Between lines where progress goes to a file: at first, and at most."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The run at one moment."""

    total: int
    finished: int
    resumed: int
    """Of the finished, those an earlier start had finished."""
    scored: int
    failed: dict[str, int]
    """By side; only sides that failed."""
    cancelled: int
    dropped: float | None
    """The share of finished rollouts without a score; None before the first."""
    mean: float | None
    """Of the scores so far."""
    pass_rate: float | None
    turns: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    elapsed_s: float
    per_second: float | None
    """Rollouts finished a second lately; None until two have."""
    tokens_per_second: float | None
    """Completion tokens a second since this start."""
    eta_s: float | None
    """None while there is no rate to tell from."""


class RolloutProgress:
    """Counts finished rollouts. Give it every row once; read it as often as you like."""

    def __init__(self, total: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._total = total
        self._clock = clock
        self._started = clock.monotonic()
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._outcomes: Counter[str] = Counter()
        self._sides: Counter[str] = Counter()
        self._resumed = 0
        self._passed = 0
        self._score = 0.0
        self._turns = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._fresh_tokens = 0
        self._usd = 0.0

    def add(self, row: TraceRow) -> None:
        """Count a rollout that has just finished."""
        self._count(row)
        self._recent.append(self._clock.monotonic())
        self._fresh_tokens += row.completion_tokens

    def resume(self, rows: Iterable[TraceRow]) -> None:
        """Count rollouts that an earlier start of the run had finished."""
        for row in rows:
            self._count(row)
            self._resumed += 1

    def _count(self, row: TraceRow) -> None:
        self._outcomes[row.outcome] += 1
        if row.side is not None:
            self._sides[row.side] += 1
        if row.score is not None:
            self._score += row.score
            self._passed += bool(row.passed)
        self._turns += row.turns
        self._prompt_tokens += row.prompt_tokens
        self._completion_tokens += row.completion_tokens
        self._usd += row.usd

    def read(self) -> Reading:
        """The run as it stands now."""
        now = self._clock.monotonic()
        elapsed_s = now - self._started
        finished, scored = self._outcomes.total(), self._outcomes["scored"]
        rate = self._rate(now)
        left = max(0, self._total - finished)
        return Reading(
            total=self._total,
            finished=finished,
            resumed=self._resumed,
            scored=scored,
            failed=dict(self._sides),
            cancelled=self._outcomes["cancelled"],
            dropped=1 - scored / finished if finished else None,
            mean=self._score / scored if scored else None,
            pass_rate=self._passed / scored if scored else None,
            turns=self._turns,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            usd=self._usd,
            elapsed_s=elapsed_s,
            per_second=rate,
            tokens_per_second=self._fresh_tokens / elapsed_s if elapsed_s > 0 else None,
            eta_s=0.0 if left == 0 else left / rate if rate else None,
        )

    def _rate(self, now: float) -> float | None:
        """Up to now, not up to the last rollout: a stalled run slows down as one watches."""
        if len(self._recent) < 2:
            return None
        whole = len(self._recent) < RECENT  # since the start, when all of them are remembered
        count, since = (len(self._recent), self._started) if whole else (len(self._recent) - 1, self._recent[0])
        return count / (now - since) if now > since else None


class Pace:
    """When the next line of a log is due: soon at first, then more and more seldom, so that a night's log stays readable."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._wait_s = _FIRST_LINE_S
        self._last = clock.monotonic()

    def due(self) -> bool:
        """True if a line should be written now; then the next one is due later."""
        now = self._clock.monotonic()
        if now - self._last < self._wait_s:
            return False
        self._last = now
        self._wait_s = min(LONGEST_LINE_S, 1.5 * self._wait_s)
        return True
