"""Counters and rates of the engine, for monitoring."""

from collections import deque
from collections.abc import Callable

import numpy as np

from sandlot.model.engine.request import Completion

_WINDOW_S = 10.0
"""Window of the rates."""


class Gauges:
    """Counts since the start; rates and quantiles of a recent window."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, int]] = deque()
        self._queued_s: deque[float] = deque(maxlen=1024)
        self.num_steps = 0
        self.num_sampled = 0
        self.num_computed = 0
        self.num_guessed = 0
        self.num_accepted = 0
        self.num_finished = 0
        self._num_rows = 0

    def count_step(self, sampled: int, computed: int, rows: int, *, guessed: int = 0, accepted: int = 0) -> None:
        """Count a forward pass over `computed` tokens of `rows` sequences; of the sampled ones, `accepted` had been guessed."""
        now = self._clock()
        self.num_steps += 1
        self.num_sampled += sampled
        self.num_computed += computed
        self.num_guessed += guessed
        self.num_accepted += accepted
        self._num_rows += rows
        self._steps.append((now, sampled))
        self._forget(now)

    def count_completion(self, completion: Completion) -> None:
        """Count a finished request."""
        self.num_finished += 1
        self._queued_s.append(completion.queued_s)

    def metrics(self) -> dict[str, float]:
        """All counters and rates."""
        now = self._clock()
        self._forget(now)
        seconds = max(now - self._steps[0][0], 1e-3) if self._steps else 1.0
        half, most = np.quantile(self._queued_s, (0.5, 0.99)).tolist() if self._queued_s else (0.0, 0.0)
        return {
            "steps": self.num_steps,
            "sampled_tokens": self.num_sampled,
            "computed_tokens": self.num_computed,
            "guessed_tokens": self.num_guessed,
            "accepted_tokens": self.num_accepted,
            "tokens_per_pass": self.num_sampled / (self.num_sampled - self.num_accepted) if self.num_sampled else 1.0,
            "finished": self.num_finished,
            "rows_per_step": self._num_rows / max(self.num_steps, 1),
            "tokens_per_s": sum(sampled for _, sampled in self._steps) / seconds,
            "queue_p50_s": half,
            "queue_p99_s": most,
        }

    def _forget(self, now: float) -> None:
        while self._steps and self._steps[0][0] < now - _WINDOW_S:
            self._steps.popleft()
