import gc
import sys
import threading
import time

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.observe import lag
from sandlot.observe.events import LoopLagged, RunEvent
from sandlot.observe.lag import GARBAGE, Lags, LoopWatch


async def rude_tool():
    time.sleep(0.2)  # noqa: ASYNC251 - the very thing to be caught


async def test_the_function_that_blocked_the_loop_is_named():
    with anyio.fail_after(15):
        async with LoopWatch(threshold_s=0.02, interval_s=0.001) as watch:
            while not watch.report().blocked:
                await rude_tool()
                await anyio.lowlevel.checkpoint()
    (blocked, *_) = watch.report().blocked
    assert blocked.function.endswith("test_lag.rude_tool")
    assert "test_lag.py:" in blocked.where
    assert blocked.longest_s >= 0.02
    assert blocked.function in watch.report().blocked_by()[0]
    assert watch.report().max_s >= blocked.longest_s


async def test_garbage_collection_is_named_and_not_the_function_that_ran_next():
    gc.freeze()  # what the tests hold is not looked at: a collection takes as long as the heap below asks for
    try:
        heap = [[number] for number in range(200_000)]  # so much that a collection takes longer than the threshold
        with anyio.fail_after(15):
            async with LoopWatch(threshold_s=0.001, interval_s=0.0005) as watch:
                while GARBAGE.function not in {blocked.function for blocked in watch.report().blocked}:
                    gc.collect()
                    gc.collect()  # the watching thread asks after the first, which it had to wait for, and waits for this one
                    await anyio.lowlevel.checkpoint()
    finally:
        gc.unfreeze()
    assert len(heap) == 200_000
    assert watch._note_collection not in gc.callbacks, "nothing is left behind"


async def test_a_block_is_logged_while_it_lasts(caplog):
    caplog.set_level("INFO")
    with anyio.fail_after(15):
        async with LoopWatch(threshold_s=0.02, interval_s=0.001):
            await anyio.lowlevel.checkpoint()
            while "event loop blocked" not in caplog.text:
                await rude_tool()  # never gives the loop back, so there is no report to wait for


async def test_a_quiet_loop_is_measured_and_nobody_is_blamed():
    with anyio.fail_after(15):
        async with LoopWatch(threshold_s=10, interval_s=0.001) as watch:
            while watch.report().answers < 20:  # noqa: ASYNC110 - the answers are counted in a thread
                await anyio.sleep(0.001)
    report = watch.report()
    assert report.blocked == ()
    assert 0 < report.p50_s <= report.p99_s <= report.max_s


async def test_lag_is_reported_as_events_in_the_thread_of_the_loop():
    got: list[tuple[RunEvent, int]] = []
    with anyio.fail_after(15):
        async with LoopWatch(threshold_s=10, interval_s=0.001, report_s=0.01) as watch:
            watch.report_to(lambda event: got.append((event, threading.get_ident())))
            while len(got) < 2:  # noqa: ASYNC110 - the answers are counted in a thread
                await anyio.sleep(0.001)
    assert {thread for _, thread in got} == {threading.get_ident()}
    assert all(isinstance(event, LoopLagged) and 0 < event.max_s <= watch.report().max_s for event, _ in got)


async def test_a_watch_that_is_entered_again_goes_on_counting():
    watch = LoopWatch(threshold_s=10, interval_s=0.001)
    with anyio.fail_after(15):
        for more in (3, 6):
            async with watch:
                while watch.report().answers < more:  # noqa: ASYNC110 - the answers are counted in a thread
                    await anyio.sleep(0.001)


async def test_the_watching_thread_is_gone_when_the_context_ends():
    async with LoopWatch():
        assert "sandlot-loop-watch" in {thread.name for thread in threading.enumerate()}
    assert "sandlot-loop-watch" not in {thread.name for thread in threading.enumerate()}


async def test_an_error_inside_passes_through_as_it_is():
    with pytest.raises(ZeroDivisionError):
        async with LoopWatch():
            raise ZeroDivisionError


async def test_cancelling_inside_still_ends_the_thread():
    with anyio.move_on_after(0) as scope:
        async with LoopWatch():
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert "sandlot-loop-watch" not in {thread.name for thread in threading.enumerate()}


def test_python_code_of_a_library_is_named_as_inside():
    import textwrap

    frames = []

    class Spy(str):
        __slots__ = ()

        def expandtabs(self, tabsize=8):
            frames.append(sys._getframe(1))  # the frame in textwrap that called us
            return str(self)

    def authors_own():
        textwrap.TextWrapper().wrap(Spy("some text"))

    authors_own()
    place = lag.place_of(frames[0])
    assert place.function.endswith("authors_own")
    assert place.inside == "textwrap.TextWrapper._munge_whitespace", "the innermost"


async def test_code_outside_the_loop_is_never_blamed():
    frame = sys._getframe()
    while lag._module(frame) != "asyncio.events":
        frame = frame.f_back
    assert lag.place_of(frame) == lag.NOWHERE
    assert lag.place_of(None) == lag.NOWHERE


def test_a_long_wait_stands_for_all_the_questions_not_asked_meanwhile():
    lags = Lags(0.05)
    for _ in range(20):
        lags.add(0.001)  # a second of quiet
    lags.add(1.0)  # a second of blocking
    assert lags.quantile(0.4) < 0.002
    assert lags.quantile(0.75) == pytest.approx(0.5, rel=0.12)
    assert lags.max_s == lags.quantile(1.0) == 1.0


@given(st.lists(st.floats(0, 0.049), min_size=1, max_size=60), st.floats(0.01, 1))
def test_counted_quantiles_are_within_a_step_of_sorted_ones(values, share):
    lags = Lags(0.05)
    for value in values:
        lags.add(value)
    exact = next(v for i, v in enumerate(sorted(values), 1) if i >= share * len(values) - 1e-9)
    assert lags.quantile(share) >= exact * (1 - 1e-9)
    assert lags.quantile(share) <= max(exact * lag.STEP * (1 + 1e-9), lag.FINEST_S)


def test_before_the_first_answer_there_is_no_lag():
    assert Lags(0.05).quantile(0.99) == 0.0
