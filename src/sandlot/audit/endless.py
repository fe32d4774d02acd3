"""Stops a probe that computes without end and never lets others run: no time limit of an event loop can reach it.

Such as a search for a pattern in the author's code that takes exponential time. Processor time of the main thread is counted, so
that a busy machine is no reason. Where the audit does not run in the main thread of a process, nothing can be stopped.
"""

import signal
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import FrameType

import anyio

from sandlot.audit.budget import TimeBudget
from sandlot.core.errors import HarnessError

MOST_S = 300.0
"""Processor seconds without a pause after which a probe is stopped."""
LATE_S = 2.0
"""The same once the budget is spent."""
CHECK_S = 1.0
"""Processor seconds between two looks."""
BEAT_S = 0.5


class _Watch:
    """When the event loop last had its turn."""

    def __init__(self, budget: TimeBudget | None) -> None:
        self._budget = budget
        self._last = time.thread_time()

    async def beat(self) -> None:
        """Note again and again that the loop has its turn."""
        while True:
            self._last = time.thread_time()
            await anyio.sleep(BEAT_S)

    def check(self, _number: int, _frame: FrameType | None) -> None:
        """Called by the signal, in the middle of whatever computes."""
        spent = time.thread_time() - self._last
        late = self._budget is not None and time.monotonic() > self._budget.ends
        if spent > (LATE_S if late else MOST_S):
            self._last = time.thread_time()
            why = "the budget was spent" if late else "it was stopped"
            raise HarnessError(f"it computed for {spent:.1f} processor seconds without a pause, and {why}", kind="timeout")


@asynccontextmanager
async def stop_endless(budget: TimeBudget | None = None) -> AsyncGenerator[None]:
    """Raise `HarnessError` in whatever computes for longer than `MOST_S` without letting others run.

    Once a budget is spent, much less is allowed.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGVTALRM) != signal.SIG_DFL:
        yield
        return
    watch = _Watch(budget)
    signal.signal(signal.SIGVTALRM, watch.check)
    signal.setitimer(signal.ITIMER_VIRTUAL, CHECK_S, CHECK_S)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch.beat)
            yield
            group.cancel_scope.cancel()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
