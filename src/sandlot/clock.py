"""Time: injected clocks, deadlines with a guilty side, and agent time.

Deadlines are cancel scopes, so they form a tree by nesting: nothing inside can outlive what is around it. *Agent time* is
wall time less what the agent did not cause: waiting for a free connection or out a rate limit is excused.
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
    with anyio.move_on_after(seconds) as scope, boundary(kind, what):
        yield scope
    if scope.cancelled_caught:
        raise kind(f"{what}: took longer than {seconds:g} s", kind="timeout")


_agent_scope: ContextVar[anyio.CancelScope | None] = ContextVar("agent_scope", default=None)


@contextmanager
def agent_time(seconds: float) -> Generator[anyio.CancelScope]:
    """The agent's own time limit. Reaching it is an ordinary end: look at `cancelled_caught`, nothing is raised."""
    with anyio.move_on_after(seconds) as scope:
        token = _agent_scope.set(scope)
        try:
            yield scope
        finally:
            _agent_scope.reset(token)


@contextmanager
def excused() -> Generator[None]:
    """Time spent inside does not count as agent time: queueing, retries. Callers bound it with a deadline of their own."""
    scope = _agent_scope.get()
    if scope is None:
        yield
        return
    remaining_s = scope.deadline - anyio.current_time()
    scope.deadline = float("inf")  # the limit must not fire while the agent waits through no fault of its own
    try:
        yield
    finally:
        scope.deadline = anyio.current_time() + remaining_s


def excuse(seconds: float) -> None:
    """Give back agent time that turned out not to be the agent's: an attempt at the endpoint that failed."""
    scope = _agent_scope.get()
    if scope is not None:
        scope.deadline += seconds


@contextmanager
def timed(sums: dict[str, float], name: str, clock: Clock = SYSTEM_CLOCK) -> Generator[None]:
    """Add the seconds spent inside to `sums[name]`, however it ends."""
    started = clock.monotonic()
    try:
        yield
    finally:
        sums[name] = sums.get(name, 0.0) + clock.monotonic() - started
