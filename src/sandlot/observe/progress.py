"""The figures of a progress line, counted from finished rollouts: failures, mean score, and rollouts per second.

The rate is that of the last rollouts, not of the whole run, and falls while nothing finishes: a run that slows down shows it.
"""

from collections import Counter, deque

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.trace_row import TraceRow
from sandlot.observe.events import AdmissionChanged, TurnTaken

RECENT = 256
"""Rollouts that the rate is computed from."""
_FIRST_LINE_S = 10.0
LONGEST_LINE_S = 120.0
"""Seconds between two lines where progress goes to a file: at first, and at most."""


class RolloutProgress:
    """Counts finished rollouts: give it every row once."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._num_scored = 0
        self._score = 0.0
        self.num_failed = 0
        self._turns: Counter[str] = Counter()
        self._prompt_tokens = 0
        self._expected_tokens = 0
        self.limit = ""
        """How many may be in flight and why not more, of a run that finds it out."""

    def set_limit(self, event: AdmissionChanged) -> None:
        """Another number may be in flight."""
        self.limit = f"at most {event.limit} in flight ({event.reason})"

    def add_turn(self, event: TurnTaken) -> None:
        """Count a turn, if the model has several servers."""
        if event.replica is not None:
            self._turns[event.replica.name] += 1
            self._prompt_tokens += event.prompt_tokens
            self._expected_tokens += min(event.prompt_tokens, event.replica.expected_tokens)

    @property
    def replicas(self) -> str:
        """Turns of each server, and how much of the prompts they were expected to have cached; empty if there is only one."""
        if not self._turns:
            return ""
        turns = "+".join(str(count) for _, count in sorted(self._turns.items()))
        return f"replicas {turns}, prefix {self._expected_tokens / max(1, self._prompt_tokens):.0%}"

    def add(self, row: TraceRow) -> None:
        """Count a rollout that has just finished."""
        self._recent.append(self._clock.monotonic())
        self.num_failed += row.outcome == "failed"
        if row.score is not None:
            self._num_scored += 1
            self._score += row.score

    @property
    def mean(self) -> float | None:
        """Mean score so far; None before the first."""
        return self._score / self._num_scored if self._num_scored else None

    @property
    def per_second(self) -> float | None:
        """Rollouts per second lately; None until two have finished."""
        if len(self._recent) < 2:
            return None
        whole = len(self._recent) < RECENT  # since the start, while all of them are remembered
        count, since = (len(self._recent), self._started) if whole else (len(self._recent) - 1, self._recent[0])
        now = self._clock.monotonic()
        return count / (now - since) if now > since else None


class Pace:
    """When the next progress line of a log file is due: soon at first, then less and less often."""

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
