"""The figures of a progress line."""

from itertools import pairwise

import pytest

from builders import rows
from sandlot.core.concurrency.clock import Clock
from sandlot.core.trace import TurnReplica
from sandlot.observe.events import AdmissionChanged, TurnTaken
from sandlot.observe.progress import LONGEST_LINE_S, RECENT, Pace, RolloutProgress


class Hand:
    """A clock moved by hand."""

    def __init__(self):
        self.now = 100.0
        self.clock = Clock(monotonic=lambda: self.now, wall=lambda: self.now)


@pytest.fixture
def hand():
    return Hand()


def test_before_anything_finished_nothing_is_claimed(hand):
    progress = RolloutProgress(clock=hand.clock)
    assert (progress.num_failed, progress.mean, progress.per_second) == (0, None, None)


def test_the_limit_is_shown_without_a_number_that_may_be_old(hand):
    progress = RolloutProgress(clock=hand.clock)
    progress.set_limit(AdmissionChanged(run="r", limit=21, at_once=64, reason="model", in_flight=17))
    assert progress.limit == "at most 21 in flight (model)"


def test_only_scored_rollouts_make_the_mean(hand):
    progress = RolloutProgress(clock=hand.clock)
    for row in [
        rows.scored(score=1.0),
        rows.scored(score=0.5),
        rows.failed(side="grader"),
        rows.failed(side="model"),
        rows.cancelled(),
    ]:
        progress.add(row)
    assert (progress.num_failed, progress.mean) == (2, 0.75)


def test_a_stalled_run_slows_down_while_one_looks(hand):
    progress = RolloutProgress(clock=hand.clock)
    for _ in range(20):
        hand.now += 0.5
        progress.add(rows.scored())
    assert progress.per_second == pytest.approx(2)
    hand.now += 10
    assert progress.per_second == pytest.approx(1)


def test_only_the_last_rollouts_make_the_rate(hand):
    progress = RolloutProgress(clock=hand.clock)
    for seconds, count in ((10.0, 50), (0.1, RECENT)):
        for _ in range(count):
            hand.now += seconds
            progress.add(rows.scored())
    assert progress.per_second == pytest.approx(10)


def test_lines_of_a_log_come_soon_at_first_and_then_less_often(hand):
    pace = Pace(clock=hand.clock)
    written = []
    for second in range(3600):
        hand.now = 100.0 + second
        if pace.due():
            written.append(second)
    assert written[:3] == [10, 25, 48]
    assert 30 <= len(written) <= 40
    assert max(after - before for before, after in pairwise(written)) == LONGEST_LINE_S


def test_turns_of_several_servers_and_their_expected_prefixes_are_shown():
    progress = RolloutProgress()
    at = {"run": "r", "task": "t", "rollout": 0, "turn": 1, "completion_tokens": 1, "seconds": 0.1}
    progress.add_turn(TurnTaken(**at, prompt_tokens=100))
    assert progress.replicas == ""
    for name, expected in (("http://two", 0), ("http://one", 90), ("http://one", 500)):
        progress.add_turn(TurnTaken(**at, prompt_tokens=100, replica=TurnReplica(name=name, expected_tokens=expected)))
    assert progress.replicas == "replicas 2+1, prefix 63%"
