from itertools import pairwise

import pytest

import rows
from sandlot.core.concurrency.clock import Clock
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
    reading = RolloutProgress(10, clock=hand.clock).read()
    assert (reading.finished, reading.scored, reading.failed) == (0, 0, {})
    assert reading.mean is reading.pass_rate is reading.dropped is reading.per_second is reading.eta_s is None


def test_outcomes_are_counted_by_side_and_only_scored_ones_make_the_mean(hand):
    progress = RolloutProgress(10, clock=hand.clock)
    for row in [
        rows.scored(score=1.0),
        rows.scored(score=0.5),
        rows.failed(side="grader"),
        rows.failed(side="model"),
        rows.cancelled(),
    ]:
        progress.add(row)
    reading = progress.read()
    assert (reading.finished, reading.scored, reading.cancelled) == (5, 2, 1)
    assert reading.failed == {"grader": 1, "model": 1}
    assert (reading.mean, reading.pass_rate) == (0.75, 0.5)
    assert reading.dropped == pytest.approx(0.6)
    assert (reading.prompt_tokens, reading.completion_tokens, reading.turns) == (500, 50, 10)
    assert reading.usd == pytest.approx(0.05)


def test_the_estimate_is_what_is_left_at_the_present_rate(hand):
    progress = RolloutProgress(100, clock=hand.clock)
    for _ in range(20):
        hand.now += 0.5
        progress.add(rows.scored())
    reading = progress.read()
    assert reading.per_second == pytest.approx(2)
    assert reading.eta_s == pytest.approx(40)
    assert reading.tokens_per_second == pytest.approx(20)


def test_a_stalled_run_slows_down_as_one_watches(hand):
    progress = RolloutProgress(100, clock=hand.clock)
    for _ in range(20):
        hand.now += 0.5
        progress.add(rows.scored())
    before = progress.read().eta_s
    hand.now += 60
    assert progress.read().eta_s > before


def test_only_the_last_rollouts_make_the_rate(hand):
    progress = RolloutProgress(10_000, clock=hand.clock)
    for seconds, count in ((10.0, 50), (0.1, RECENT)):
        for _ in range(count):
            hand.now += seconds
            progress.add(rows.scored())
    assert progress.read().per_second == pytest.approx(10)


def test_resumed_rollouts_count_as_finished_and_not_as_speed(hand):
    progress = RolloutProgress(4, clock=hand.clock)
    progress.resume([rows.scored(), rows.failed()])
    reading = progress.read()
    assert (reading.finished, reading.resumed, reading.failed) == (2, 2, {"environment": 1})
    assert reading.per_second is None
    for _ in range(2):
        hand.now += 1
        progress.add(rows.scored())
    assert (progress.read().per_second, progress.read().eta_s) == (1.0, 0.0)


def test_more_finished_than_planned_leaves_nothing_to_wait_for(hand):
    progress = RolloutProgress(1, clock=hand.clock)
    progress.add(rows.scored())
    progress.add(rows.scored())
    assert progress.read().eta_s == 0.0


def test_lines_of_a_log_come_soon_at_first_and_more_and_more_seldom(hand):
    pace = Pace(clock=hand.clock)
    written = []
    for second in range(3600):
        hand.now = 100.0 + second
        if pace.due():
            written.append(second)
    assert written[:3] == [10, 25, 48]
    assert 30 <= len(written) <= 40
    assert max(after - before for before, after in pairwise(written)) == LONGEST_LINE_S
