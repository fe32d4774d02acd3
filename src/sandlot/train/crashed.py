"""Rewards that a crash of the environment touched: too many of them would teach our own defects.

A crash does not decide whether a rollout is graded (`core/crashes.py`), so its reward is trained on: an agent must not escape a
bad grade. One that learns to make a tool crash may also gain by it. When more than a share of the last rewards are touched, the
training stops before it learns from them. Only this sitting counts: a repaired environment can go on. What agents break inside
their own sandboxes does not count.
"""

from collections import Counter, deque
from collections.abc import Sequence

from sandlot.core.crashes import crashes_in, may_stop_runs
from sandlot.core.text import one_line
from sandlot.core.trace import Scored, Trace

_FEWEST = 8
"""Touched rewards before a training is stopped."""
_GROUPS = 64
"""Groups that are looked at together, the newest."""


class CrashedRewards:
    """Counts the rewards of the newest groups, and those of them that a crash touched."""

    def __init__(self, most: float) -> None:
        """`most`: the share of rewards that may be touched; 1 allows all."""
        self._most = most
        self._groups: deque[tuple[int, Counter[str]]] = deque(maxlen=_GROUPS)
        self._touched: deque[int] = deque(maxlen=_GROUPS)

    def add(self, group: Sequence[Trace]) -> None:
        """Count the rollouts of a group."""
        scored = [[*filter(may_stop_runs, crashes_in(trace))] for trace in group if isinstance(trace.outcome, Scored)]
        self._groups.append((len(scored), Counter(crash for crashes in scored for crash in crashes)))
        self._touched.append(sum(bool(crashes) for crashes in scored))

    def reason(self) -> str | None:
        """Why the training is to stop, in a sentence; None if it is not."""
        rewards, touched = sum(count for count, _ in self._groups), sum(self._touched)
        if touched < _FEWEST or touched <= self._most * rewards:
            return None
        crashes = sum((found for _, found in self._groups), Counter[str]())
        crash, count = crashes.most_common(1)[0]
        return (
            f"a crash of the environment touched {touched} of the last {rewards} rewards, more than {self._most:.0%} "
            f"(`stop_crashed`); most often {one_line(crash, 200)} ({count}): repair it, or the model learns from it"
        )
