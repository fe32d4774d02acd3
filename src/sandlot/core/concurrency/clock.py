"""Clocks, deadlines that blame a side, and time limits that can be paused.

Deadlines are cancel scopes, so they nest: nothing inside can outlive the scope around it. Waiting for a free thread, a connection
or a rate limit does not count against a limit: `pause_limits`.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from sandlot.core.errors import SandlotError, boundary


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time. Tests give their own; recorded times come only from here."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


SYSTEM_CLOCK = Clock()


@contextmanager
def deadline(seconds: float, kind: type[SandlotError], what: str) -> Generator[anyio.CancelScope]:
    """Raise `kind` if the block raises or takes longer than `seconds`; `what` names it in the message."""
    with time_limit(seconds) as scope, boundary(kind, what):
        yield scope
    if scope.cancelled_caught:
        raise kind(f"{what}: took longer than {seconds:g} s", kind="timeout")


class _Budget:
    """A cancel scope whose deadline can be paused, delayed or extended."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._deadline = scope.deadline
        self._num_excused = 0
        self._num_held = 0
        self._excused_since = 0.0

    def pause(self) -> None:
        """Stop the clock. Calls nest."""
        if self._num_excused == 0:
            self._excused_since = anyio.current_time()
        self._num_excused += 1
        self._apply()

    def resume(self) -> None:
        """Start the clock again after the last `pause`."""
        self._num_excused -= 1
        if self._num_excused == 0:
            self._deadline += anyio.current_time() - self._excused_since
        self._apply()

    def extend(self, seconds: float) -> None:
        """Move the deadline."""
        self._deadline += seconds
        self._apply()

    def hold(self) -> None:
        """Do not cancel the scope, though the clock runs."""
        self._num_held += 1
        self._apply()

    def release(self) -> None:
        """End `hold`; a deadline that has passed cancels the scope now."""
        self._num_held -= 1
        self._apply()

    def _apply(self) -> None:
        waits = self._num_excused or self._num_held
        self._scope.deadline = float("inf") if waits else self._deadline


_budgets: ContextVar[tuple[_Budget, ...]] = ContextVar("budgets", default=())


@contextmanager
def time_limit(seconds: float) -> Generator[anyio.CancelScope]:
    """Cancel the block after `seconds` without an error; `cancelled_caught` of the scope says whether it was."""
    with anyio.move_on_after(seconds) as scope:
        token = _budgets.set((*_budgets.get(), _Budget(scope)))
        try:
            yield scope
        finally:
            _budgets.reset(token)


@contextmanager
def pause_limits() -> Generator[None]:
    """Time in the block, such as queueing and retries, counts against no limit around it. Give it a deadline of its own."""
    budgets = _budgets.get()
    for budget in budgets:
        budget.pause()
    try:
        yield
    finally:
        for budget in budgets:
            budget.resume()


@contextmanager
def delay_limits() -> Generator[None]:
    """Time in the block counts, but no limit around it interrupts the block; one that has passed takes effect after it.

    For a request to a model: only when it has ended is it known whether its time was the agent's. Give it a deadline of its own.
    """
    budgets = _budgets.get()
    for budget in budgets:
        budget.hold()
    try:
        yield
    finally:
        for budget in budgets:
            budget.release()


def extend_limits(seconds: float) -> None:
    """Extend the limits around the caller, by time that was not the agent's, such as a failed attempt at the endpoint."""
    for budget in _budgets.get():
        budget.extend(seconds)


@contextmanager
def timed(sums: dict[str, float], name: str, clock: Clock = SYSTEM_CLOCK) -> Generator[None]:
    """Add the seconds of the block to `sums[name]`, also if it raises."""
    started = clock.monotonic()
    try:
        yield
    finally:
        sums[name] = sums.get(name, 0.0) + clock.monotonic() - started
