"""Lag percentiles are of time: a blocked loop counts for as long as it was blocked."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lag import MEMORY_EVERY, TICK_S, Probe, percentile, summary, with_missed_ticks


class LoopWithHandsOnTheClock:
    """What the probe uses of a loop; `wake` is when the loop gets round to what is due."""

    def __init__(self):
        self.now = 0.0
        self.due: tuple[float, Callable[..., None], tuple[Any, ...]] | None = None

    def time(self):
        return self.now

    def call_at(self, when, callback, *args):
        self.due = (when, callback, args)

    def wake(self, late_s):
        when, callback, args = self.due
        self.now = when + late_s
        callback(*args)


@given(st.lists(st.floats(0, 2)))
def test_every_missed_tick_is_counted_with_the_lag_it_would_have_seen(lags_s):
    slow = []
    for lag_s in lags_s:
        left_s = lag_s
        while left_s >= 0:
            slow.append(left_s)
            left_s -= TICK_S
    whole = with_missed_ticks(lags_s)
    assert abs(len(whole) - len(slow)) <= len(lags_s)  # at exact multiples rounding may go either way
    assert whole == sorted(whole)
    assert max(whole, default=0) == max(slow, default=0)


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0, 1))
def test_a_percentile_is_a_member_of_the_list(values, share):
    assert percentile(sorted(values), share) in values


def test_no_ticks_no_lag():
    assert percentile([], 0.99) == 0.0


def test_one_long_block_among_many_quiet_ticks_moves_the_p99():
    probe, loop = Probe(), LoopWithHandsOnTheClock()
    probe.start(loop)
    for late_s in [0.0] * 500 + [1.0]:
        loop.wake(late_s)
    figures = summary(probe.ticks)
    assert (len(probe.ticks), figures["p50_ms"], figures["max_ms"]) == (501, 0.0, 1000.0)
    assert figures["p99_ms"] > 900


def test_time_that_others_took_is_not_our_own_lag():
    probe, loop = Probe(), LoopWithHandsOnTheClock()
    probe.start(loop)
    loop.wake(1000.0)
    figures = summary(probe.ticks)
    assert figures["max_ms"] == 1e6
    assert figures["own_p99_ms"] < 1e5


def test_the_probe_reads_memory_now_and_then():
    probe, loop = Probe(), LoopWithHandsOnTheClock()
    probe.start(loop)
    for _ in range(3 * MEMORY_EVERY):
        loop.wake(0.0)
    assert len(probe.resident_bytes) == 3
    assert min(probe.resident_bytes) > 1e6
