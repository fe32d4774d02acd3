"""Run the `sandlot` command in this process with a probe on its event loop: `python lag.py REPORT.json run ENV …`.

The probe sits outside Sandlot: it wraps the loop's own `run_forever` and asks to be woken every 10 ms. How much later it is
woken is the lag. A loop that is blocked for a second misses a hundred wake-ups; each counts with the lag it would have seen, so
that the percentiles are of time, not of lucky ticks. `own` lag is the part of it during which this process was computing: the
rest is other programs' time on a shared machine.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

TICK_S = 0.01
MEMORY_EVERY = 10  # ticks


class Probe:
    """Lag and resident memory of one loop while it runs."""

    def __init__(self) -> None:
        self.ticks: list[tuple[float, float, float]] = []
        """When (wall clock), how late, and how much of that delay this process computed: seconds."""
        self.resident_bytes: list[int] = []
        self.collections: list[tuple[float, float, int]] = []
        """Garbage collections: when (wall clock), CPU-seconds, generation. The loop stands still meanwhile."""
        self._collecting_since_s = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + TICK_S
        loop.call_at(due, self._tick, loop, due, time.process_time())

    def note_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since_s = time.thread_time()
        else:
            self.collections.append((time.time(), time.thread_time() - self._collecting_since_s, info["generation"]))

    def _tick(self, loop: asyncio.AbstractEventLoop, due: float, cpu_before_s: float) -> None:
        lag_s = loop.time() - due
        self.ticks.append((time.time(), lag_s, min(lag_s, time.process_time() - cpu_before_s)))
        if len(self.ticks) % MEMORY_EVERY == 0:
            self.resident_bytes.append(_resident_bytes())
        self.start(loop)


def summary(ticks: Sequence[Sequence[float]]) -> dict[str, float]:
    """Percentiles of lag, and of our own part in it."""
    lags, own = (with_missed_ticks([tick[place] for tick in ticks]) for place in (1, 2))
    return {
        "p50_ms": _ms(percentile(lags, 0.50)),
        "p99_ms": _ms(percentile(lags, 0.99)),
        "max_ms": _ms(max(lags, default=0.0)),
        "own_p99_ms": _ms(percentile(own, 0.99)),
    }


def with_missed_ticks(lags_s: Sequence[float]) -> list[float]:
    """Every wake-up that should have happened, sorted: a lag of 35 ms also hid those of 25, 15 and 5 ms."""
    whole: list[float] = []
    for lag_s in lags_s:
        whole.append(lag_s)
        missed = int(lag_s / TICK_S)
        whole.extend(lag_s - number * TICK_S for number in range(1, missed + 1))
    return sorted(whole)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of an ordered list does not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch_main_loop(probe: Probe) -> None:
    """Whatever loop the main thread runs from now on carries the probe."""
    plain = asyncio.BaseEventLoop.run_forever

    def run_forever(loop: asyncio.BaseEventLoop) -> None:
        if threading.current_thread() is threading.main_thread():
            probe.start(loop)
        plain(loop)

    asyncio.BaseEventLoop.run_forever = run_forever


def main() -> None:
    report, arguments = Path(sys.argv[1]), sys.argv[2:]
    probe = Probe()
    watch_main_loop(probe)
    gc.callbacks.append(probe.note_collection)
    from sandlot.cli.main import main as sandlot

    sys.argv = ["sandlot", *arguments]
    try:
        sandlot()
    finally:
        report.write_text(json.dumps(vars(probe) | {"_collecting_since_s": None}))


if __name__ == "__main__":
    main()
