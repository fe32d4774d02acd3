"""Loop lag: how long ready work waits for the event loop, and which function kept it waiting.

One event loop serves thousands of rollouts, so one function that blocks it stops them all. A second thread pings the loop every
few milliseconds and times the answer. When the answer is late, the thread reads the loop thread's stack and names the running
function: the author's own if one is there, else a library's. Garbage collection stops the watching thread too, so it is timed by
a callback of the collector. This never blocks the loop and never raises in it.
"""

import asyncio
import gc
import logging
import math
import sys
import sysconfig
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Self

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.observe.events import LoopLagged, Sink

_log = logging.getLogger(__name__)

STEP = 1.05
"""Lags are counted in bins that grow by five percent: quantiles have that precision, and memory does not grow with time."""
FINEST_S = 1e-6
_REPORT_S = 5.0
"""Seconds between two `LoopLagged` events."""

_LOOP = ("asyncio", "anyio", "selectors", "threading", "uvloop")
_OUTSIDE = {"asyncio.events", "asyncio.base_events", "asyncio.runners"}
"""Modules whose frames run the loop; frames further out called the loop and do not run in it."""
_SANDLOT = str(Path(__file__).parents[1])
_STDLIB = sysconfig.get_path("stdlib")


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A function that blocked the loop."""

    function: str
    """`module.function`: the author's own if one was on the stack, else a library's, else ours."""
    where: str
    """`file:line` in it, of the longest block."""
    inside: str
    """The innermost function that it had called; empty if it had called none."""
    times: int
    longest_s: float
    total_s: float


class LagReport(msgspec.Struct, frozen=True, kw_only=True):
    """How long ready work waited for the loop."""

    answers: int
    p50_s: float
    p99_s: float
    max_s: float
    blocked: tuple[Blocked, ...] = ()
    """Longest total first."""

    def blocked_by(self, at_least_s: float = 0.0) -> tuple[str, ...]:
        """The functions that blocked, longest total first, without blocks that no function caused."""
        named = [each for each in self.blocked if each.function != NOWHERE.function and each.longest_s >= at_least_s]
        return tuple(f"{each.function} ({each.where}) for {each.longest_s:.1f} s" for each in named)


@dataclass(frozen=True, slots=True)
class StackPlace:
    """A place in the stack of the loop's thread."""

    function: str
    where: str
    inside: str


NOWHERE = StackPlace("(no function: the machine gave the loop no time)", "", "")
GARBAGE = StackPlace("gc.collect", "Python's garbage collection", "")
"""To blame if garbage was collected for most of the wait."""


class Lags:
    """Counts of lags, with quantiles over time rather than over pings.

    A ping that waits two seconds stands for all those that would have been sent meanwhile, so these are counted too.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._steps: Counter[int] = Counter()
        self.answers = 0
        self.max_s = 0.0

    def add(self, lag_s: float) -> None:
        """Count one answer."""
        self.answers += 1
        self.max_s = max(self.max_s, lag_s)
        while True:
            self._steps[math.ceil(math.log(max(lag_s, FINEST_S) / FINEST_S, STEP))] += 1
            lag_s -= self._interval_s
            if lag_s <= 0:
                return

    def quantile(self, share: float) -> float:
        """The lag below which `share` of the time was spent, to within a bin; 0 before the first answer."""
        needed = share * self._steps.total()
        seen = 0
        for step in sorted(self._steps):
            seen += self._steps[step]
            if seen >= needed:
                return min(self.max_s, FINEST_S * STEP**step)
        return 0.0


class LoopWatch:
    """Times the loop that it is entered in: `async with LoopWatch() as watch`, then `watch.report()` at any time."""

    def __init__(
        self,
        *,
        threshold_s: float = 0.1,
        interval_s: float = 0.05,
        report_s: float = _REPORT_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._report_s = report_s
        self._sink: Sink | None = None
        self._threshold_s = threshold_s
        self._interval_s = interval_s
        self._clock = clock
        self._lags = Lags(interval_s)
        self._blocked: dict[str, Blocked] = {}
        self._logged: set[str] = set()
        self._lock = threading.Lock()  # the watching thread writes, any thread reads
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._collecting_since: float | None = None
        self._collected_s = 0.0
        """Time spent in garbage collections, in any thread: all others stand still meanwhile."""

    async def __aenter__(self) -> Self:
        if self._note_collection not in gc.callbacks:
            gc.callbacks.append(self._note_collection)
        self._stop.clear()  # a watch that is entered again continues to count
        arguments = (asyncio.get_running_loop(), threading.get_ident())
        thread = threading.Thread(target=self._watch, args=arguments, name="sandlot-loop-watch", daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        with suppress(ValueError):
            gc.callbacks.remove(self._note_collection)
        with anyio.move_on_after(10, shield=True):  # off the loop: the thread may be waiting for the loop's answer
            for thread in self._threads:
                await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)

    def report_to(self, sink: Sink) -> None:
        """Send `LoopLagged` to a sink every few seconds, in the thread of the loop."""
        self._sink = sink

    def report(self) -> LagReport:
        """The figures so far."""
        with self._lock:
            return LagReport(
                answers=self._lags.answers,
                p50_s=self._lags.quantile(0.5),
                p99_s=self._lags.quantile(0.99),
                max_s=self._lags.max_s,
                blocked=tuple(sorted(self._blocked.values(), key=lambda each: -each.total_s)),
            )

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        longest_s, reported = 0.0, self._clock.monotonic()
        while not self._stop.wait(self._interval_s):
            answered = threading.Event()
            answers: list[float] = []
            asked, collected_s = self._clock.monotonic(), self._collected_s

            def answer(answered: threading.Event = answered, answers: list[float] = answers) -> None:
                answers.append(self._clock.monotonic())
                answered.set()

            try:
                loop.call_soon_threadsafe(answer)
            except RuntimeError:  # the loop is closed: there is nothing left to watch
                return
            seen: Counter[StackPlace] = Counter()
            while not answered.wait(self._threshold_s):
                if loop.is_closed():
                    return
                seen[self._look(thread_id)] += 1
            self._note(answers[0] - asked, seen, self._collected_s - collected_s)
            longest_s = max(longest_s, answers[0] - asked)
            if self._sink is not None and answers[0] - reported >= self._report_s:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._sink, LoopLagged(max_s=longest_s))
                longest_s, reported = 0.0, answers[0]

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._collecting_since = self._clock.monotonic()
        elif self._collecting_since is not None:
            self._collected_s += self._clock.monotonic() - self._collecting_since
            self._collecting_since = None

    def _look(self, thread_id: int) -> StackPlace:
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented, and the only way
        place = place_of(frames.get(thread_id))
        if place.function not in self._logged:  # at once: a loop that never answers again is never reported
            self._logged.add(place.function)
            _log.info("event loop blocked", extra={"function": place.function, "where": place.where, "inside": place.inside})
        return place

    def _note(self, lag_s: float, seen: Counter[StackPlace], collected_s: float) -> None:
        with self._lock:
            self._lags.add(lag_s)
            if lag_s < self._threshold_s:
                return
            if collected_s >= lag_s / 2:
                place = GARBAGE
            elif seen:
                ((place, _),) = seen.most_common(1)
            else:
                return
            once = Blocked(
                function=place.function, where=place.where, inside=place.inside, times=1, longest_s=lag_s, total_s=lag_s
            )
            before = self._blocked.get(place.function)
            self._blocked[place.function] = once if before is None else _together(before, once)


def _together(one: Blocked, other: Blocked) -> Blocked:
    longest = max(one, other, key=lambda each: each.longest_s)
    return msgspec.structs.replace(longest, times=one.times + other.times, total_s=one.total_s + other.total_s)


def place_of(frame: FrameType | None) -> StackPlace:
    """The function to name for a stack: the author's before a library's before Sandlot's; the innermost of these."""
    frames: list[FrameType] = []
    while frame is not None and _module(frame) not in _OUTSIDE:
        if _module(frame).split(".")[0] not in _LOOP:
            frames.append(frame)
        frame = frame.f_back
    if not frames:
        return NOWHERE
    blamed = min(frames, key=_distance)  # `min` keeps the first of equals: the innermost
    inside = _name(frames[0]) if frames[0] is not blamed else ""
    return StackPlace(_name(blamed), f"{blamed.f_code.co_filename}:{blamed.f_lineno}", inside)


def _distance(frame: FrameType) -> int:
    """How far code is from the author: 0 their own, 1 a library, 2 Sandlot, 3 Python's own."""
    file = frame.f_code.co_filename
    if file.startswith(_SANDLOT):
        return 2
    if "site-packages" in file or "dist-packages" in file:
        return 1
    return 3 if file.startswith((_STDLIB, "<frozen")) else 0


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _name(frame: FrameType) -> str:
    return f"{_module(frame)}.{frame.f_code.co_qualname}"
