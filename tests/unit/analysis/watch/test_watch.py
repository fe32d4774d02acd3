"""What each rule of `--watch` says, when it says it again, and where an alert goes."""

import random

import pytest

from builders.rows import failed, scored
from sandlot.analysis.watch.rules import (
    DriftRule,
    FailureRateRule,
    RewardSurgeRule,
    StallRule,
    TrainingAlarmRule,
    WatchRules,
)
from sandlot.analysis.watch.watch import Watch
from sandlot.core.concurrency.clock import Clock
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Side
from sandlot.observe.event_log import EventReader, open_event_log
from sandlot.observe.events import AlarmRaised, RolloutEnded, RunBegan, RunEnded, RunEvent, RunSteered, TrainingBegan


class Watched:
    """A run that is watched, with a clock that only the test moves."""

    def __init__(self, path, *rules) -> None:
        self.now, self.path, self.told = 0.0, path, []
        clock = Clock(monotonic=lambda: self.now, wall=lambda: self.now)
        self.watch = Watch(WatchRules(rule=rules), self.told.append, clock=clock)
        self.see(began(path))

    def see(self, *events: RunEvent) -> list[str]:
        """The rules that speak after these events."""
        before = len(self.watch.alerts)
        for event in events:
            self.watch.receive(event)
        self.watch.check(last=True)
        return [alert.rule for alert in self.watch.alerts[before:]]

    def end(self, *rows: TraceRow) -> list[str]:
        return self.see(*(RolloutEnded(run="r", task=row.task, rollout=row.rollout, row=row) for row in rows))

    def wait(self, seconds: float) -> list[str]:
        self.now += seconds
        return self.see()


def began(path, run: str = "r") -> RunBegan:
    return RunBegan(run=run, path=str(path), environment="e", model="m", num_tasks=1, num_planned=1, num_done=0)


def test_a_failure_rate_speaks_once_and_again_only_after_it_was_well(tmp_path):
    watched = Watched(tmp_path, FailureRateRule(above=0.2, window=10, at_least=5))
    assert watched.end(*[failed()] * 4) == []
    assert watched.end(failed()) == ["failure_rate"]
    assert watched.end(failed()) == []
    assert watched.end(*[scored()] * 8) == []
    assert watched.end(*[failed()] * 3) == ["failure_rate"]
    assert watched.watch.alerts[0].sentence == "5 of the last 5 rollouts failed (5 environment), more than 20%"


def test_only_failures_of_the_sides_that_were_named_count(tmp_path):
    watched = Watched(tmp_path, FailureRateRule(above=0.1, sides=(Side.MODEL,)))
    assert watched.end(*[failed(side="grader")] * 30) == []
    assert watched.end(*[failed(side="model")] * 30) == ["failure_rate"]


def test_a_stall_is_when_nothing_finishes_and_a_pause_or_an_end_is_none(tmp_path):
    watched = Watched(tmp_path, StallRule(after_s=60))
    assert watched.wait(59) == []
    assert watched.end(scored()) == []
    assert watched.wait(59) == []
    assert watched.wait(2) == ["stall"]
    assert watched.wait(600) == []
    watched.end(scored())
    assert watched.wait(61) == ["stall"]
    watched.see(RunSteered(run="r", order="pause", paused=True, at_once=1))
    assert watched.wait(1000) == []
    watched.see(RunSteered(run="r", order="resume", paused=False, at_once=1))
    assert watched.wait(30) == []
    assert watched.wait(31) == ["stall"]
    watched.end(scored())
    watched.see(RunEnded(run="r"))
    assert watched.wait(1000) == []


def rising(full: bool) -> list[TraceRow]:
    """The reward of eight tasks rises; with `full`, so does the share of full marks."""
    rows = []
    for number in range(480):
        share = number / 480
        score = 1.0 if full and random.Random(number).random() < share else 0.1 + 0.8 * share * (not full)
        rows.append(scored(f"t{number % 8}", number // 8, score, started=float(number)))
    return rows


@pytest.mark.parametrize(("full", "said"), [(False, ["reward_surge"]), (True, [])])
def test_a_reward_that_rises_without_the_outcome_is_an_alert_and_one_with_it_is_none(tmp_path, full, said):
    watched = Watched(tmp_path, RewardSurgeRule())
    assert watched.end(*rising(full)) == said


def test_a_training_has_an_alarm_of_its_own_and_it_is_passed_on_once(tmp_path):
    watched = Watched(tmp_path, RewardSurgeRule(), TrainingAlarmRule(kinds=("collapse",)))
    training = TrainingBegan(
        path=str(tmp_path), environment="e", sandboxed=False, model="m", steps=1, tasks=1, group=1, version=0,
        heldout=None, alarmed=False, differences=(), settings={},
    )  # fmt: skip
    watched.see(training)
    assert watched.end(*rising(full=False)) == []
    assert watched.see(AlarmRaised(kind="idle", sentence="nothing is learned")) == []
    assert watched.see(AlarmRaised(kind="reward_hacking", sentence="it rose")) == ["reward_surge"]
    assert watched.see(AlarmRaised(kind="collapse", sentence="it fell")) == ["training_alarm"]
    assert watched.see(AlarmRaised(kind="collapse", sentence="it fell more")) == []


@pytest.mark.parametrize(("tokens", "said"), [(0, []), (400, ["drift"])])
def test_a_change_of_what_agents_do_on_the_same_tasks_is_drift(tmp_path, tokens, said):
    watched = Watched(tmp_path, DriftRule())
    rows = []
    for number in range(400):
        spent = 10 + number % 7 + tokens * (number > 200)
        rows.append(scored(f"t{number % 10}", number // 10, started=float(number), completion_tokens=spent))
    assert watched.end(*rows) == said


def test_rollouts_of_an_evaluation_count_as_failures_and_not_as_drift(tmp_path):
    watched = Watched(tmp_path, FailureRateRule(at_least=3), DriftRule())
    watched.see(began(tmp_path, "r/evaluation"))
    rows = [failed("t", number) for number in range(100)]
    ended = [RolloutEnded(run="r/evaluation", task=row.task, rollout=row.rollout, row=row) for row in rows]
    assert watched.see(*ended) == ["failure_rate"]
    assert len(watched.watch._seen.rows) == 0


def test_an_alert_is_in_the_event_log_beside_what_the_run_writes(tmp_path):
    watched = Watched(tmp_path, FailureRateRule(name="too many", at_least=1))
    with open_event_log(tmp_path) as log:
        for number in range(200):
            log(began(tmp_path, str(number)))
            if number == 100:
                watched.end(failed())
    events = list(EventReader(tmp_path))
    assert len(events) == 201
    (alarm,) = [event for event in events if isinstance(event, AlarmRaised)]
    assert alarm.kind == "failure_rate"
    assert alarm.sentence.startswith("too many: 1 of the last 1 rollouts failed")
    assert watched.told == [alarm]


def test_a_thousand_rollouts_a_second_keep_only_the_window(tmp_path):
    watched = Watched(tmp_path, RewardSurgeRule(window=100), FailureRateRule(window=50))
    watched.end(*(scored("t", number) for number in range(5000)))
    assert (len(watched.watch._seen.rows), len(watched.watch._seen.sides), len(watched.watch._events)) == (100, 50, 0)


def test_a_run_that_is_over_in_a_moment_is_still_looked_at(tmp_path):
    with Watch(WatchRules(rule=(FailureRateRule(at_least=1),))) as watch:
        watch.receive(began(tmp_path))
        watch.receive(RolloutEnded(run="r", task="t", rollout=0, row=failed()))
    assert [alert.on for alert in watch.alerts] == ["failure_rate"]
