"""What the events of running rollouts say to admission (`schedule/admission.py`): counted since the last look.

`SignalMeter` is a sink. It needs nothing but events, so it sees rollouts in worker processes and on other machines as well.
"""

from collections import deque
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
    opened: int = 0
    open_s: float = 0.0
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
    _last_contexts: deque[int] = field(default_factory=lambda: deque[int](maxlen=_RECENT))

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
                counts.opened += 1
                counts.open_s += event.seconds
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
            self._last_contexts.append(context)

    @property
    def num_opening(self) -> int:
        """Rollouts that have begun and whose world is not open."""
        return len(self._opening)

    def take(self) -> SignalCounts:
        """What was counted since the last call."""
        counts, self._counts = self._counts, SignalCounts()
        return counts

    def forecast(self) -> ContextForecast | None:
        """What the contexts in flight grow to; None if the model reports no tokens.

        A rollout is expected to grow to what three of four of the last ones had at their end, or has passed that already. What
        several share, such as the prompt of a group, is counted for each.
        """
        ended = sorted(self._last_contexts)
        each = round(quantile(ended, 0.75) if ended else max(self._contexts.values(), default=0))
        return ContextForecast(sum(max(each, now) for now in self._contexts.values()), each) if each else None


def _key(event: TurnTaken | RolloutBegan | WorldOpened | AgentEnded | RolloutEnded) -> _Key:
    return event.run, event.task, event.rollout
