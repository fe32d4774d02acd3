"""Room for rollouts in flight. How many there may be, and whether any may start, can change while a run goes on.

A change never disturbs a rollout that has started: a smaller number, or a pause, only keeps the next ones waiting. They start in
the order in which they came.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakSet

import anyio


class Slots:
    """At most `at_once` rollouts are between `enter` and `leave`; while paused, none enters."""

    def __init__(self, at_once: int) -> None:
        self._limiter = anyio.CapacityLimiter(at_once)
        self._resumed: anyio.Event | None = None
        """What those who wait for the end of a pause wait for; None if not paused."""
        self._num_entered = 0
        self._beside: WeakSet[Slots] = WeakSet()

    @property
    def at_once(self) -> int:
        """How many rollouts may be in flight."""
        return int(self._limiter.total_tokens)

    @property
    def paused(self) -> bool:
        """True if no rollout may start."""
        return self._resumed is not None

    @property
    def in_flight(self) -> int:
        """Rollouts that have started and not ended, here and beside."""
        return self._num_entered + sum(slots.in_flight for slots in self._beside)

    def resize(self, at_once: int) -> None:
        """Change how many rollouts may be in flight; those that are stay."""
        self._limiter.total_tokens = at_once
        for slots in self._beside:
            slots.resize(at_once)

    def pause(self) -> None:
        """Let no rollout start until `resume`."""
        if self._resumed is None:
            self._resumed = anyio.Event()
        for slots in self._beside:
            slots.pause()

    def resume(self) -> None:
        """Let rollouts start again."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
        for slots in self._beside:
            slots.resume()

    def open_beside(self) -> "Slots":
        """As many slots again, for a second run in the same process: it is paused and changed together with this one."""
        slots = Slots(self.at_once)
        if self.paused:
            slots.pause()
        self._beside.add(slots)
        return slots

    async def enter(self) -> object:
        """Wait until a rollout may start; give what this returns to `leave` when it has ended."""
        place = object()
        await self._limiter.acquire_on_behalf_of(place)
        try:
            while self._resumed is not None:  # it keeps its place meanwhile, and so the order
                await self._resumed.wait()
        except BaseException:
            self._limiter.release_on_behalf_of(place)
            raise
        self._num_entered += 1
        return place

    def leave(self, place: object) -> None:
        """Make room for the next one."""
        self._num_entered -= 1
        self._limiter.release_on_behalf_of(place)

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """From `enter` to `leave`."""
        place = await self.enter()
        try:
            yield
        finally:
            self.leave(place)
