"""Follows what the replicas of a model report about their prefix caches, so that the router need not predict it.

A replica is asked again and again for the events since the last ones. If some were missed, it answers with a snapshot, and what
is known of it is built anew. Whatever it answers, the run goes on: a replica that does not answer, or whose events make no sense,
is predicted; after a few replies without sense it is asked no more. Reading takes a small share of the loop's time.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ModelError, unwrapped
from sandlot.model.endpoint.endpoint import Endpoint
from sandlot.model.routing.reported import ReportedPrefixes, ReportError
from sandlot.model.routing.router import Router
from sandlot.model.wire.failure import short_line
from sandlot.model.wire.kv_events import KV_EVENTS_PATH, KvEvents, parse_kv_events

_log = logging.getLogger(__name__)

POLL_S = 0.2
"""Time between two polls while requests are under way. The router knows of its own requests without them."""
POLL_BYTES = 16 * 2**20
"""Limit of a reply."""
_QUIET = 10.0
"""Polls are so many times rarer while there are no requests, or no answers."""
_POLL_TIMEOUT_S = 10.0
_FIRST_S = 5.0
"""How long the first reports are waited for."""
_REST = 20.0
"""After a reply that took a while to read, the next poll waits so many times as long."""
_SLICE = 256
"""Events that are applied before other tasks of the loop have their turn."""
_MOST_ERRORS = 3
"""Replies without sense before a replica is asked no more."""


@asynccontextmanager
async def follow_replicas(router: Router, endpoints: Sequence[Endpoint], *, poll_s: float = POLL_S) -> AsyncGenerator[None]:
    """Keep the router informed of what the replicas report, until the context ends; it begins with their first reports."""
    followers = [_Follower(router, number, endpoint, poll_s) for number, endpoint in enumerate(endpoints)]
    try:
        async with anyio.create_task_group() as group:
            for follower in followers:
                group.start_soon(follower.follow)
            with anyio.move_on_after(_FIRST_S):
                for follower in followers:
                    await follower.has_asked.wait()
            try:
                yield
            finally:
                group.cancel_scope.cancel()
    except BaseExceptionGroup as wrapped:
        raise unwrapped(wrapped) from None


@dataclass(slots=True)
class _Follower:
    """One replica, and how far its events were followed."""

    router: Router
    number: int
    endpoint: Endpoint
    poll_s: float
    stream: str = field(default="", init=False)
    after: int = field(default=0, init=False)
    """The number of the last event that was applied."""
    view: ReportedPrefixes | None = field(default=None, init=False)
    has_asked: anyio.Event = field(default_factory=anyio.Event, init=False)
    num_errors: int = field(default=0, init=False)
    num_placed: int = field(default=0, init=False)

    async def follow(self) -> None:
        """Poll until the replica has no events, or too often nonsense."""
        replica = self.router.replicas[self.number]
        while True:
            wait_s = _QUIET * self.poll_s
            if not replica.is_up:
                self._drop()
            else:
                poll = self.view.begin_poll() if self.view is not None else 0
                reply = await self._poll()
                if isinstance(reply, ModelError) and reply.kind == "not_found":
                    break
                wait_s = await self._take(reply, poll)
            self.has_asked.set()
            await anyio.sleep(wait_s)
            if self.num_errors >= _MOST_ERRORS:
                _log.warning("events of a replica make no sense; what it holds is predicted", extra={"replica": replica.name})
                break
        self._drop()
        self.has_asked.set()

    async def _poll(self) -> bytes | ModelError:
        """Ask for the events since the last ones, or for a snapshot."""
        path = f"{KV_EVENTS_PATH}/{self.stream}/{self.after}" if self.view is not None else KV_EVENTS_PATH
        with anyio.move_on_after(_POLL_TIMEOUT_S):
            return await self.endpoint.get_once(path, bytes)
        return ModelError("no events in time", kind="timeout")

    async def _take(self, reply: bytes | ModelError, poll: int) -> float:
        """Apply a reply; the seconds until the next poll."""
        if isinstance(reply, ModelError):
            self._drop()
            return _QUIET * self.poll_s
        begun = SYSTEM_CLOCK.monotonic()
        try:
            await self._apply(parse_kv_events(reply), poll)
        except ValueError as error:
            self.num_errors += 1
            why = short_line(str(error))
            _log.info("events of a replica are refused", extra={"replica": self.endpoint.name, "why": why})
            self._drop()
            return _QUIET * self.poll_s
        return max(self._interval(), _REST * (SYSTEM_CLOCK.monotonic() - begun))

    async def _apply(self, reply: KvEvents, poll: int) -> None:
        """Go on with these events, or begin with a snapshot; `poll` is the number of `begin_poll`."""
        view = self.view
        if reply.after is None:
            view = ReportedPrefixes(self.router.config.cache_tokens)
        elif view is None or (reply.stream, reply.after) != (self.stream, self.after):
            raise ReportError(f"events after {reply.after} of `{reply.stream}`, not after {self.after} of `{self.stream}`")
        elif reply.sequence != reply.after + len(reply.events):
            raise ReportError(f"{len(reply.events)} events are not all from {reply.after} to {reply.sequence}")
        for start in range(0, len(reply.events), _SLICE):
            if start:
                await anyio.lowlevel.checkpoint()
            view.apply(reply.events[start : start + _SLICE])
            if view is self.view:
                self.router.follow(self.number, view)  # a request that is placed meanwhile sees no work that is done
        view.end_poll(poll)
        self.stream, self.after, self.view = reply.stream, reply.sequence, view
        self.router.follow(self.number, view)

    def _interval(self) -> float:
        """Seconds between polls: short while the router has work."""
        replicas = self.router.replicas
        placed = sum(replica.num_requests for replica in replicas)
        is_busy = placed != self.num_placed or any(replica.num_open for replica in replicas)
        self.num_placed = placed
        return self.poll_s if is_busy else _QUIET * self.poll_s

    def _drop(self) -> None:
        """Begin with a snapshot next time; until then the replica is predicted."""
        self.stream, self.after, self.view = "", 0, None
        self.router.follow(self.number, None)
