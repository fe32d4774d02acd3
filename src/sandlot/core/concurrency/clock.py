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

from sandlot.core.errors import SandlotError, boundary


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
    """A scope whose deadline can be moved while something waits that is not the fault of what runs in it, or be held back."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._deadline = scope.deadline
        self._num_excused = 0
        self._num_held = 0
        self._excused_since = 0.0

    def pause(self) -> None:
        """The first to wait stops the clock."""
        if self._num_excused == 0:
            self._excused_since = anyio.current_time()
        self._num_excused += 1
        self._apply()

    def go_on(self) -> None:
        """The last to have waited starts it again."""
        self._num_excused -= 1
        if self._num_excused == 0:
            self._deadline += anyio.current_time() - self._excused_since
        self._apply()

    def extend(self, seconds: float) -> None:
        """Give time back."""
        self._deadline += seconds
        self._apply()

    def hold(self) -> None:
        """The clock goes on, but the scope is not cancelled."""
        self._num_held += 1
        self._apply()

    def let_go(self) -> None:
        """A deadline that has passed meanwhile cancels the scope now."""
        self._num_held -= 1
        self._apply()

    def _apply(self) -> None:
        waits = self._num_excused or self._num_held
        self._scope.deadline = float("inf") if waits else self._deadline


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
def pause_limits() -> Generator[None]:
    """Time spent inside counts against no limit around it: queueing, retries. Callers bound it with a deadline of their own."""
    budgets = _budgets.get()
    for budget in budgets:
        budget.pause()
    try:
        yield
    finally:
        for budget in budgets:
            budget.go_on()


@contextmanager
def delay_limits() -> Generator[None]:
    """Time spent inside counts, but no limit around it interrupts it; one that has passed meanwhile ends what follows.

    For a request to a model: whether its time was the agent's is known only when it has been answered or has failed. Callers
    bound it with a deadline of their own.
    """
    budgets = _budgets.get()
    for budget in budgets:
        budget.hold()
    try:
        yield
    finally:
        for budget in budgets:
            budget.let_go()


def extend_limits(seconds: float) -> None:
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
