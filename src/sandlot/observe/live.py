"""What a run does now, from its events: how fast it is, what is in flight and what that waits for, tools, tokens, loop lag."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

import msgspec

from sandlot.core.stats.intervals import quantile
from sandlot.core.text import one_line
from sandlot.observe.events import (
    AdmissionChanged,
    AgentEnded,
    EvaluationBegan,
    EvaluationEnded,
    LoopLagged,
    RolloutBegan,
    RolloutEnded,
    RolloutEvent,
    RolloutGraded,
    RunBegan,
    RunEnded,
    RunEvent,
    RunSteered,
    ToolCalled,
    TrainingBegan,
    TurnTaken,
    WorldOpened,
)
from sandlot.observe.progress import RECENT

_WINDOW_S = 60.0
"""The tokens of this long are counted for tokens per second."""
_SHOWN = 12
"""Rollouts in flight and tools that are listed: those that take longest."""
_MOST_TOOLS = 100
"""Different tools that are counted: an agent may write any name."""
_LONGEST_NAME = 200


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout that has begun and is not stored yet."""

    task: str
    rollout: int
    attempt: int
    seconds: float
    """Since it began."""
    turns: int
    doing: str
    """What it does, as far as its last event says."""
    since_s: float
    """Since that event."""


class ToolTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one tool."""

    name: str
    calls: int
    errors: int
    seconds: float
    """Of all calls together."""
    longest: float


class EvaluationNow(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation that a training is taking."""

    version: int
    planned: int
    done: int


class RunNow(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does now."""

    paused: bool = False
    """True if a person has paused it: no rollout starts."""
    limit: int | None = None
    """Rollouts that may be in flight, of a run that finds it out."""
    bound: str = ""
    """Why the limit is not larger."""

    per_second: float | None = None
    """Rollouts per second lately; None until two have finished."""
    tokens_per_s: float | None = None
    """Sampled tokens per second lately."""
    num_in_flight: int = 0
    waits: dict[str, int] = {}
    """Rollouts in flight by what they do, most first."""
    in_flight: tuple[InFlight, ...] = ()
    """Those that have taken longest."""
    phases: dict[str, float] = {}
    """Shares of the time of the last finished rollouts, longest first."""
    tools: tuple[ToolTimes, ...] = ()
    """The tools that took most time."""
    reward_latency_s: float | None = None
    """From the agent's end to its score: the median of the last rollouts; None before the first score."""
    lag_s: float | None = None
    """Longest wait for the event loop in the last seconds."""
    evaluation: EvaluationNow | None = None
    """Of a training; None between evaluations."""


@dataclass(slots=True)
class _Flight:
    began: float
    attempt: int
    at: float
    doing: str = "starts: sandbox, setup"
    turns: int = 0


@dataclass(slots=True)
class _Calls:
    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    longest: float = 0.0


@dataclass(slots=True)
class LiveRun:
    """Give it every event once, in order."""

    planned: int | None = None
    """Rollouts of the plan; None before the first event that says it."""
    _flights: dict[tuple[str, str, int], _Flight] = field(default_factory=dict[tuple[str, str, int], _Flight])
    _ended: deque[float] = field(default_factory=lambda: deque[float](maxlen=RECENT))
    _phases: deque[dict[str, float]] = field(default_factory=lambda: deque[dict[str, float]](maxlen=RECENT))
    _latencies: deque[float] = field(default_factory=lambda: deque[float](maxlen=RECENT))
    _tokens: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    _tools: defaultdict[str, _Calls] = field(default_factory=lambda: defaultdict(_Calls))
    _paused: bool = False
    _admission: AdmissionChanged | None = None
    _lag_s: float | None = None
    _began: float = 0.0
    _evaluation: EvaluationBegan | None = None
    _measured: int = 0

    def receive(self, event: RunEvent) -> None:
        """Count an event."""
        match event:
            case RunBegan() | RunEnded():
                self._flights.clear()  # those of a sitting that was killed have no end
                self._ended.clear()
                self._latencies.clear()
                self._began, self._paused, self._admission = event.at, False, None
                self.planned = event.num_planned if isinstance(event, RunBegan) else self.planned
            case RunSteered():
                self._paused = event.paused
            case AdmissionChanged():
                self._admission = event
            case LoopLagged():
                self._lag_s = event.max_s
            case TrainingBegan():
                self._flights.clear()
                self._ended.clear()
                self._began, self._evaluation = event.at, None
            case EvaluationBegan() | EvaluationEnded():
                self._evaluation, self._measured = event if isinstance(event, EvaluationBegan) else None, 0
            case RolloutEvent():
                self._receive_rollout(event)
            case _:
                pass

    def _receive_rollout(self, event: RolloutEvent) -> None:
        key = (event.run, event.task, event.rollout)
        if isinstance(event, RolloutEnded):
            self._flights.pop(key, None)
            self._ended.append(event.at)
            self._phases.append(event.row.phases)
            self._measured += self._evaluation is not None and event.run in (self._evaluation.run, *self._evaluation.others)
            return
        if isinstance(event, RolloutBegan):
            before = self._flights.get(key)
            self._flights[key] = _Flight(before.began if before else event.at, event.attempt, event.at)
            return
        flight = self._flights.setdefault(key, _Flight(event.at, 1, event.at))
        flight.at = event.at
        match event:
            case WorldOpened():
                flight.doing = "model"
            case TurnTaken():
                flight.doing, flight.turns = "tools or evidence", event.turn
                self._tokens.append((event.at, event.completion_tokens))
            case ToolCalled():
                flight.doing = "model"
                self._add_call(event)
            case AgentEnded():
                flight.doing = "grading"
            case RolloutGraded():
                flight.doing = "is stored"
                self._latencies.append(event.latency)
            case _:
                pass

    def _add_call(self, event: ToolCalled) -> None:
        known = event.name in self._tools or len(self._tools) < _MOST_TOOLS
        calls = self._tools[event.name if known else "(other)"]
        calls.calls += 1
        calls.errors += event.error
        calls.seconds += event.seconds
        calls.longest = max(calls.longest, event.seconds)

    def look(self, now: float) -> RunNow:
        """How it stands at a time, in seconds since the epoch."""
        while self._tokens and self._tokens[0][0] < now - _WINDOW_S:
            self._tokens.popleft()
        spent: Counter[str] = Counter()
        for phases in self._phases:
            spent.update(phases)
        whole = sum(spent.values())
        oldest = sorted(self._flights.items(), key=lambda item: item[1].began)
        return RunNow(
            paused=self._paused,
            limit=self._admission.limit if self._admission else None,
            bound=self._admission.reason if self._admission else "",
            per_second=self._rate(now),
            tokens_per_s=self._token_rate(now),
            num_in_flight=len(self._flights),
            waits=dict(Counter(flight.doing for flight in self._flights.values()).most_common()),
            in_flight=tuple(_shown(key, flight, now) for key, flight in oldest[:_SHOWN]),
            phases={name: seconds / whole for name, seconds in spent.most_common()} if whole else {},
            tools=self.slowest_tools(),
            reward_latency_s=quantile(sorted(self._latencies), 0.5) if self._latencies else None,
            lag_s=self._lag_s,
            evaluation=EvaluationNow(version=self._evaluation.version, planned=self._evaluation.num_rollouts, done=self._measured)
            if self._evaluation
            else None,
        )

    def slowest_tools(self) -> tuple[ToolTimes, ...]:
        """The tools that took most time."""
        slowest = sorted(self._tools.items(), key=lambda item: -item[1].seconds)[:_SHOWN]
        return tuple(
            ToolTimes(
                name=one_line(name, _LONGEST_NAME),
                calls=each.calls,
                errors=each.errors,
                seconds=each.seconds,
                longest=each.longest,
            )
            for name, each in slowest
        )

    def _rate(self, now: float) -> float | None:
        if len(self._ended) < 2 or now <= self._ended[0]:
            return None
        return (len(self._ended) - 1) / (now - self._ended[0])

    def _token_rate(self, now: float) -> float | None:
        if not self._tokens:
            return None
        return sum(tokens for _, tokens in self._tokens) / max(1.0, min(_WINDOW_S, now - max(self._began, self._tokens[0][0])))


def _shown(key: tuple[str, str, int], flight: _Flight, now: float) -> InFlight:
    return InFlight(
        task=one_line(key[1], _LONGEST_NAME),
        rollout=key[2],
        attempt=flight.attempt,
        seconds=max(0.0, now - flight.began),
        turns=flight.turns,
        doing=flight.doing,
        since_s=max(0.0, now - flight.at),
    )
