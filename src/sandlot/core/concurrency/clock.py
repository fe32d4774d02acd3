"""Clocks, deadlines that blame a side, and time limits that can be paused.

Deadlines are cancel scopes, so they nest: nothing inside can outlive the scope around it. Waiting for a free thread, a connection
or a rate limit does not count against a limit: `pause_limits`.
"""

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType

import anyio

from sandlot.core.errors import SandlotError, boundary


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time. Tests give their own; recorded times come only from here."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


SYSTEM_CLOCK = Clock()


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

    def may_end_before(self, moment: float) -> bool:
        """Whether its clock runs out before then, if nothing stops it."""
        return self._deadline < moment

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

# Every turn passes a dozen of these blocks. As classes they cost a third of what generators do, so they are classes with the
# names of functions.


class time_limit:  # noqa: N801 - as above
    """Cancel the block after `seconds` without an error; `cancelled_caught` of the scope says whether it was."""

    __slots__ = ("_scope", "_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> anyio.CancelScope:
        self._scope = anyio.move_on_after(self._seconds)
        scope = self._scope.__enter__()
        self._token = _budgets.set((*_budgets.get(), _Budget(scope)))
        return scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        _budgets.reset(self._token)
        return bool(self._scope.__exit__(kind, error, trace))


class deadline:  # noqa: N801 - as above
    """Raise `kind` if the block raises or takes longer than `seconds`; `what` names it in the message."""

    __slots__ = ("_boundary", "_limit", "_scope", "_too_long")

    def __init__(self, seconds: float, kind: type[SandlotError], what: str) -> None:
        self._limit = time_limit(seconds)
        self._boundary = boundary(kind, what)
        self._too_long = kind, what, seconds

    def __enter__(self) -> anyio.CancelScope:
        self._scope = self._limit.__enter__()
        return self._scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._boundary.__exit__(kind, error, trace)
        except BaseException as named:
            self._limit.__exit__(type(named), named, named.__traceback__)
            raise
        self._limit.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            side, what, seconds = self._too_long
            raise side(f"{what}: took longer than {seconds:g} s", kind="timeout")


class pause_limits:  # noqa: N801 - as above
    """Time in the block, such as queueing and retries, counts against no limit around it. Give it a deadline of its own."""

    __slots__ = ("_paused",)

    def __enter__(self) -> None:
        self._paused = _budgets.get()
        for budget in self._paused:
            budget.pause()

    def __exit__(self, *_: object) -> None:
        for budget in self._paused:
            budget.resume()


class delay_limits:  # noqa: N801 - as above
    """Time in the block counts, but no limit around it interrupts the block; one that has passed takes effect after it.

    For a request to a model: only when it has ended is it known whether its time was the agent's. Give it a deadline of its own:
    `longest_s` after which the block has ended in any case. A limit that is further away is left alone, which costs no timer.
    """

    __slots__ = ("_held", "_longest_s")

    def __init__(self, longest_s: float = math.inf) -> None:
        self._longest_s = longest_s

    def __enter__(self) -> None:
        self._held = _budgets.get()
        if self._held and self._longest_s < math.inf:
            until = anyio.current_time() + self._longest_s
            self._held = tuple([budget for budget in self._held if budget.may_end_before(until)])
        for budget in self._held:
            budget.hold()

    def __exit__(self, *_: object) -> None:
        for budget in self._held:
            budget.release()


def extend_limits(seconds: float) -> None:
    """Extend the limits around the caller, by time that was not the agent's, such as a failed attempt at the endpoint."""
    for budget in _budgets.get():
        budget.extend(seconds)


class timed:  # noqa: N801 - as above
    """Add the seconds of the block to `sums[name]`, also if it raises."""

    __slots__ = ("_monotonic", "_name", "_started", "_sums")

    def __init__(self, sums: dict[str, float], name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sums = sums
        self._name = name
        self._monotonic = clock.monotonic

    def __enter__(self) -> None:
        self._started = self._monotonic()

    def __exit__(self, *_: object) -> None:
        self._sums[self._name] = self._sums.get(self._name, 0.0) + self._monotonic() - self._started
