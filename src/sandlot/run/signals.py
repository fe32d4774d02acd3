"""What the events of running rollouts say to admission (`schedule/admission.py`): counted since the last look.

`SignalMeter` is a sink. It needs nothing but events, so it sees rollouts in worker processes and on other machines as well.
"""

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from sandlot.core.stats.intervals import quantile
from sandlot.observe.events import (
    AgentEnded,
    LoopLagged,
    ModelRetried,
    RolloutBegan,
    RolloutEnded,
    RolloutGraded,
    RunEvent,
    TurnTaken,
    WorldOpened,
)
from sandlot.run.schedule.admission import Opened

_RECENT = 64
"""Rollouts whose last context says how long that of others gets."""
_Key = tuple[str, str, int]


@dataclass(slots=True)
class SignalCounts:
    """What was counted since the last look; the names are those of `Signals`."""

    turns: int = 0
    refused: int = 0
    fresh_turns: int = 0
    fresh_s: float = 0.0
    fresh_tokens: int = 0
    graded: int = 0
    judge_refused: int = 0
    opened: dict[str, Opened] = field(default_factory=dict[str, Opened])
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class ContextForecast:
    """Tokens of context that running rollouts will have at their end."""

    running: int
    """Of all together."""
    each: int
    """Of one more."""


@dataclass(slots=True)
class SignalMeter:
    """Counts events: `receive` is a sink."""

    fresh_since: float = 0.0
    """When the limit changed last, in seconds since the epoch: turns that began later are fresh."""
    _counts: SignalCounts = field(default_factory=SignalCounts)
    _opening: set[_Key] = field(default_factory=set[_Key])
    _contexts: dict[_Key, int] = field(default_factory=dict[_Key, int])
    """Tokens of the last context of each rollout in flight."""
    _last_contexts: defaultdict[str, deque[int]] = field(default_factory=lambda: defaultdict(lambda: deque[int](maxlen=_RECENT)))
    """By run."""

    def receive(self, event: RunEvent) -> None:
        """Count an event."""
        counts = self._counts
        match event:
            case TurnTaken():
                self._count_turn(event)
            case RolloutBegan():
                self._opening.add(_key(event))
                self._contexts[_key(event)] = 0
            case WorldOpened():
                self._opening.discard(_key(event))
                before = counts.opened.get(event.run, Opened(0, 0.0))
                counts.opened[event.run] = Opened(before.count + 1, before.seconds + event.seconds)
            case ModelRetried():
                counts.refused += event.by == "agent"
                counts.judge_refused += event.by == "judge"
            case AgentEnded():
                self._leave(_key(event))
            case RolloutGraded():
                counts.graded += 1
            case RolloutEnded():
                self._leave(_key(event))
            case LoopLagged():
                counts.lag_s = max(counts.lag_s or 0.0, event.max_s)
            case _:
                pass

    def _count_turn(self, event: TurnTaken) -> None:
        counts = self._counts
        counts.turns += 1
        self._contexts[_key(event)] = event.prompt_tokens + event.completion_tokens
        if event.at - event.seconds >= self.fresh_since:
            counts.fresh_turns += 1
            counts.fresh_s += event.seconds
            counts.fresh_tokens += event.completion_tokens

    def _leave(self, key: _Key) -> None:
        self._opening.discard(key)
        context = self._contexts.pop(key, 0)
        if context:
            self._last_contexts[key[0]].append(context)

    @property
    def num_opening(self) -> int:
        """Rollouts that have begun and whose world is not open."""
        return len(self._opening)

    def take(self) -> SignalCounts:
        """What was counted since the last call."""
        counts, self._counts = self._counts, SignalCounts()
        return counts

    def forecast(self, runs: Collection[str]) -> ContextForecast | None:
        """What the contexts of these runs in flight grow to; None if their models report no tokens.

        A rollout is expected to grow to what three of four of the last ones of its run had at their end, or has passed that
        already; one more is expected to need what the run with the longest needs. What several share, such as the prompt of a
        group, is counted for each.
        """
        total, most = 0, 0
        for run in runs:
            now = [context for key, context in self._contexts.items() if key[0] == run]
            ended = sorted(self._last_contexts[run])
            each = round(quantile(ended, 0.75) if ended else max(now, default=0))
            total, most = total + sum(max(each, context) for context in now), max(most, each)
        return ContextForecast(total, most) if most else None


def _key(event: TurnTaken | RolloutBegan | WorldOpened | AgentEnded | RolloutEnded) -> _Key:
    return event.run, event.task, event.rollout
