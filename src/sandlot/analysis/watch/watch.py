"""Watching a live run or training: `Watch` is a sink that raises an alert when a rule's condition comes true.

The run only hands events over; a thread checks the rules about once a second, and another posts alerts, so neither a costly check
nor a slow webhook delays a rollout. A rule speaks when its condition comes true, and again only after it was false meanwhile. An
alert goes to the event log of the run (as `AlarmRaised`), to the sink that was given, and to the webhook.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self

import msgspec

from sandlot.analysis.health.drift import FEWEST, drift, halves, sides_between
from sandlot.analysis.health.item import HealthMark
from sandlot.analysis.health.surge import surge
from sandlot.analysis.watch.rules import (
    AnyWatchRule,
    DriftRule,
    FailureRateRule,
    RewardSurgeRule,
    StallRule,
    TrainingAlarmRule,
    WatchRules,
)
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.trace_row import TraceRow
from sandlot.observe.event_log import append_event
from sandlot.observe.events import (
    AlarmRaised,
    EvaluationEnded,
    RolloutEnded,
    RunBegan,
    RunEnded,
    RunEvent,
    RunSteered,
    Sink,
    StepLearned,
    TrainingBegan,
    ignore_event,
)
from sandlot.observe.webhook import Webhook
from sandlot.run.results import Run

_TICK_S = 1.0
_STRIDE = 50
"""Rollouts between two looks for drift and surges, which read many."""
_MOST_COMPARED = 20_000
"""Rollouts of another run that drift is compared with."""
_log = logging.getLogger(__name__)


class RunAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert, as it is posted to a webhook."""

    text: str
    """Everything in one line, which chat programs show."""
    rule: str
    """Name of the rule."""
    on: str
    """What the rule is on."""
    sentence: str
    """What was seen."""
    run: str
    """The run directory."""
    environment: str
    model: str
    at: float
    """When, in seconds since the epoch."""


@dataclass(slots=True)
class _Seen:
    """What the rules look at."""

    rows: deque[TraceRow]
    """The last rollouts of the run, without those of evaluations."""
    sides: deque[str | None]
    """The side that failed, of the last rollouts of all runs; None for one that did not fail."""
    finished_s: float
    """When something finished last, by the monotonic clock."""
    run: RunBegan | None = None
    num_open: int = 0
    """Runs that have begun and not ended: an evaluation is one of its own."""
    paused: bool = False
    training: bool = False
    alarms: dict[str, str] = field(default_factory=dict[str, str])
    """The last sentence of each kind of alarm that the training raised."""


class Watch:
    """Checks rules while a run goes on; open it with a `with` block. `receive` is a sink."""

    def __init__(self, rules: WatchRules, tell: Sink = ignore_event, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """`tell` receives each alert as `AlarmRaised`, from another thread."""
        self._rules, self._tell, self._clock = rules, tell, clock
        self._events: deque[RunEvent] = deque()
        largest = [rule.window for rule in rules.rule if isinstance(rule, RewardSurgeRule | DriftRule)]
        failures = [rule.window for rule in rules.rule if isinstance(rule, FailureRateRule)]
        self._seen = _Seen(deque(maxlen=max(largest, default=1)), deque(maxlen=max(failures, default=1)), clock.monotonic())
        self._references = {rule.title: _rows_of(rule) for rule in rules.rule if isinstance(rule, DriftRule)}
        self._true: set[str] = set()
        self._num_rows = self._looked_at = 0
        self.alerts: list[RunAlert] = []
        self.webhook = Webhook(rules.address) if rules.address is not None else None
        self._checking = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sandlot-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self.check(last=True)
        if self.webhook is not None:
            self.webhook.close()

    def receive(self, event: RunEvent) -> None:
        """Take an event; never waits."""
        self._events.append(event)

    def _work(self) -> None:
        while not self._closing.wait(_TICK_S):
            self.check()

    def check(self, *, last: bool = False) -> None:
        """Take in what has happened, and look at every rule."""
        with self._checking:
            self._check(last=last)

    def _check(self, *, last: bool) -> None:
        while self._events:
            self._take_in(self._events.popleft())
        due = last or self._num_rows - self._looked_at >= _STRIDE
        if due:
            self._looked_at = self._num_rows
        for rule in self._rules.rule:
            if isinstance(rule, DriftRule | RewardSurgeRule) and not due:
                continue
            try:
                found = self._look(rule)
            except (ArithmeticError, ValueError) as error:
                _log.warning("a rule could not be checked", extra={"rule": rule.title, "error": str(error)})
                continue
            if found is None:
                self._true.discard(rule.title)
            elif rule.title not in self._true:
                self._true.add(rule.title)
                self._raise(rule, found)

    def _take_in(self, event: RunEvent) -> None:
        seen = self._seen
        match event:
            case RolloutEnded():
                seen.finished_s = self._clock.monotonic()
                seen.sides.append(event.row.side if event.row.outcome == "failed" else None)
                if seen.run is not None and event.run == seen.run.run:
                    seen.rows.append(event.row)
                    self._num_rows += 1
            case RunBegan():
                seen.run = seen.run if seen.num_open else event
                seen.num_open += 1
                seen.finished_s = self._clock.monotonic()
            case RunEnded():
                seen.num_open -= 1
            case RunSteered():
                seen.paused = event.paused
                seen.finished_s = self._clock.monotonic()
            case TrainingBegan():
                seen.training = True
            case StepLearned() | EvaluationEnded():
                seen.finished_s = self._clock.monotonic()
            case AlarmRaised():
                seen.alarms[event.kind] = event.sentence
            case _:
                pass

    def _look(self, rule: AnyWatchRule) -> str | None:
        """What a rule has to say now; None for nothing."""
        match rule:
            case FailureRateRule():
                return _failures(rule, self._seen.sides)
            case StallRule():
                return self._stalled(rule)
            case RewardSurgeRule():
                return self._seen.alarms.get("reward_hacking") if self._seen.training else _surged(rule, self._seen.rows)
            case DriftRule():
                return _drifted(rule, self._seen.rows, self._references[rule.title])
            case TrainingAlarmRule():
                said = [sentence for kind, sentence in self._seen.alarms.items() if kind in rule.kinds]
                return said[-1] if said else None

    def _stalled(self, rule: StallRule) -> str | None:
        seen = self._seen
        quiet_s = self._clock.monotonic() - seen.finished_s
        if not seen.num_open or seen.paused or quiet_s < rule.after_s:
            return None
        what = "no rollout and no step has" if seen.training else "no rollout has"
        return f"{what} finished for {quiet_s:.0f} s; a model endpoint, a sandbox or a tool may hang"

    def _raise(self, rule: AnyWatchRule, sentence: str) -> None:
        run, kind = self._seen.run, str(rule.__struct_config__.tag)
        path = run.path if run else ""
        alert = RunAlert(
            text=f"sandlot: {rule.title}: {sentence} ({path})",
            rule=rule.title,
            on=kind,
            sentence=sentence,
            run=path,
            environment=run.environment if run else "",
            model=run.model if run else "",
            at=time.time(),
        )
        self.alerts.append(alert)
        event = AlarmRaised(kind=kind, sentence=f"{rule.title}: {sentence}" if rule.name else sentence)
        if path:
            try:
                append_event(Path(path), event)
            except OSError as error:
                _log.warning("alert not in the event log", extra={"path": path, "error": str(error)})
        self._tell(event)
        if self.webhook is not None:
            self.webhook.post(msgspec.json.encode(alert))


def _failures(rule: FailureRateRule, sides: deque[str | None]) -> str | None:
    last = list(islice(reversed(sides), rule.window))
    counted = {side.value for side in rule.sides}
    failed = [side for side in last if side is not None and (not counted or side in counted)]
    if len(last) < rule.at_least or len(failed) <= rule.above * len(last):
        return None
    by_side = ", ".join(f"{failed.count(side)} {side}" for side in sorted(set(failed)))
    return f"{len(failed)} of the last {len(last)} rollouts failed ({by_side}), more than {rule.above:.0%}"


def _surged(rule: RewardSurgeRule, rows: Iterable[TraceRow]) -> str | None:
    found = surge(list(rows)[-rule.window :])
    return found.said if found.mark is HealthMark.FAIL else None


def _drifted(rule: DriftRule, rows: Iterable[TraceRow], reference: list[TraceRow] | None) -> str | None:
    last = list(rows)[-rule.window :]
    if len(last) < FEWEST:
        return None
    found = drift(halves(last) if reference is None else sides_between(reference, last), (), ())
    return found.said if found.mark is HealthMark.WARN else None


def _rows_of(rule: DriftRule) -> list[TraceRow] | None:
    return None if rule.against is None else list(islice(Run(rule.against).rows, _MOST_COMPARED))
