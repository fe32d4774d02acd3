"""Time: injected clocks, deadlines with a guilty side, and agent time.

Deadlines are cancel scopes, so they form a tree by nesting: nothing inside can outlive what is around it. What runs under a limit
is not charged for what it did not cause: waiting for a free thread or connection, or out a rate limit, is *excused*.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from sandlot.errors import SandlotError, boundary


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from. Tests give their own; nothing else reads `time` for what is written down."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


SYSTEM_CLOCK = Clock()


@contextmanager
def deadline(seconds: float, kind: type[SandlotError], what: str) -> Generator[anyio.CancelScope]:
    """One node of the deadline tree: what runs inside fails as `kind` when it raises or takes longer than `seconds`."""
    with _budget(seconds) as scope, boundary(kind, what):
        yield scope
    if scope.cancelled_caught:
        raise kind(f"{what}: took longer than {seconds:g} s", kind="timeout")


@contextmanager
def time_limit(seconds: float) -> Generator[anyio.CancelScope]:
    """A limit whose end is ordinary, the agent's or a tool's: look at `cancelled_caught`, nothing is raised."""
    with _budget(seconds) as scope:
        yield scope


class _Budget:
    """A scope whose deadline can be put off while somebody waits through no fault of what runs in it."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._num_excused = 0
        self._remaining_s = 0.0

    def pause(self) -> None:
        """The first to wait stops the clock."""
        if self._num_excused == 0:
            self._remaining_s = self._scope.deadline - anyio.current_time()
            self._scope.deadline = float("inf")
        self._num_excused += 1

    def go_on(self) -> None:
        """The last to have waited starts it again."""
        self._num_excused -= 1
        if self._num_excused == 0:
            self._scope.deadline = anyio.current_time() + self._remaining_s

    def extend(self, seconds: float) -> None:
        """Give time back."""
        if self._num_excused:
            self._remaining_s += seconds
        else:
            self._scope.deadline += seconds


_budgets: ContextVar[tuple[_Budget, ...]] = ContextVar("budgets", default=())


@contextmanager
def _budget(seconds: float) -> Generator[anyio.CancelScope]:
    with anyio.move_on_after(seconds) as scope:
        token = _budgets.set((*_budgets.get(), _Budget(scope)))
        try:
            yield scope
        finally:
            _budgets.reset(token)


@contextmanager
def excused() -> Generator[None]:
    """Time spent inside counts against no limit around it: queueing, retries. Callers bound it with a deadline of their own."""
    budgets = _budgets.get()
    for budget in budgets:
        budget.pause()
    try:
        yield
    finally:
        for budget in budgets:
            budget.go_on()


def excuse(seconds: float) -> None:
    """Give back time that turned out not to be the agent's: an attempt at the endpoint that failed."""
    for budget in _budgets.get():
        budget.extend(seconds)


@contextmanager
def timed(sums: dict[str, float], name: str, clock: Clock = SYSTEM_CLOCK) -> Generator[None]:
    """Add the seconds spent inside to `sums[name]`, however it ends."""
    started = clock.monotonic()
    try:
        yield
    finally:
        sums[name] = sums.get(name, 0.0) + clock.monotonic() - started
