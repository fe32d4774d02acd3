"""Follows what the replicas of a model report about their prefix caches, so that the router need not predict it.

A replica is asked again and again for the events since the last ones. If some were missed, it answers with a snapshot, and what
is known of it is built anew. Whatever it answers, the run goes on:

- While it does not answer, it is predicted and asked ever more rarely. Then its events go on where they were.
- If its events make no sense or are too many, it is predicted and begins with a snapshot. After a few such replies, or if it has
  no events at all, it is asked no more until it was down and is up again.
- If its cache is larger than the router remembers, it is not asked.

Reading takes a small share of the loop's time.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

import anyio
import anyio.lowlevel

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ModelError, unwrapped
from sandlot.model.endpoint.endpoint import Endpoint
from sandlot.model.routing.reported import ReportedPrefixes, ReportError
from sandlot.model.routing.router import Replica, Router
from sandlot.model.wire.failure import short_line
from sandlot.model.wire.kv_events import KV_EVENTS_PATH, KvEvents, parse_kv_event, parse_kv_events

_log = logging.getLogger(__name__)

POLL_S = 0.2
"""Time between two polls while requests are under way. The router knows of its own requests without them."""
_QUIET = 10.0
"""Polls are so many times rarer while there are no requests."""
_LONGEST_S = 60.0
"""Longest time between two polls of a replica that does not answer."""
_POLL_TIMEOUT_S = 10.0
_FIRST_S = 5.0
"""How long the first reports are waited for."""
_REST = 20.0
"""After a reply that took a while to read, the next poll waits so many times as long; other tasks' time does not count."""
_SLICE = 256
"""Events that are applied before other tasks of the loop have their turn."""
_MOST_REFUSED = 3
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
                    await follower.has_begun.wait()
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
    has_begun: anyio.Event = field(default_factory=anyio.Event, init=False)
    """Set when it was asked for the first time, or is down."""
    is_ended: bool = field(default=False, init=False)
    """Whether it is asked no more, as long as it is up."""
    num_refused: int = field(default=0, init=False)
    """Replies without sense."""
    num_failed: int = field(default=0, init=False)
    """Polls without an answer since the last one."""
    num_returns: int = field(default=0, init=False)
    num_placed: int = field(default=0, init=False)

    async def follow(self) -> None:
        """Poll until cancelled."""
        replica = self.router.replicas[self.number]
        while True:
            if not replica.is_up or replica.num_returns != self.num_returns:
                self._begin_anew(replica.num_returns)
            wait_s = _QUIET * self.poll_s
            if replica.is_up and not self.is_ended and not self._is_too_large(replica):
                wait_s = await self._poll()
            self.has_begun.set()
            await anyio.sleep(wait_s)

    def _is_too_large(self, replica: Replica) -> bool:
        return replica.cache_tokens is not None and replica.cache_tokens > self.router.config.cache_tokens

    async def _poll(self) -> float:
        """Ask once, and apply the reply; the seconds until the next time."""
        poll = self.view.recent.begin_poll() if self.view is not None else 0
        reply = await self._ask()
        if isinstance(reply, ModelError):
            return self._fail(reply)
        try:
            spent_s = await self._apply(reply, poll)
        except ValueError as error:
            return self._refuse(str(error))
        self.num_failed = 0
        return max(self._interval(), _REST * spent_s)

    async def _ask(self) -> bytes | ModelError:
        """Ask for the events since the last ones, or for a snapshot."""
        path = f"{KV_EVENTS_PATH}/{quote(self.stream, safe='')}/{self.after}" if self.view is not None else KV_EVENTS_PATH
        with anyio.move_on_after(_POLL_TIMEOUT_S):
            return await self.endpoint.get_once(path, bytes)
        return ModelError("no events in time", kind="timeout", retryable=True)

    async def _apply(self, body: bytes, poll: int) -> float:
        """Go on with these events, or begin with a snapshot; `poll` is the number of `begin_poll`. The seconds this took."""
        spent_s = -SYSTEM_CLOCK.monotonic()
        reply = parse_kv_events(body)
        view = self._view_for(reply)
        for start in range(0, len(reply.events), _SLICE):
            if start:
                spent_s += SYSTEM_CLOCK.monotonic()
                await anyio.lowlevel.checkpoint()
                spent_s -= SYSTEM_CLOCK.monotonic()
            view.apply([parse_kv_event(event) for event in reply.events[start : start + _SLICE]])
            if view is self.view:
                self.router.follow(self.number, view)  # a request that is placed meanwhile sees no work that is done
        view.recent.end_poll(poll)
        self.stream, self.after, self.view = reply.stream, reply.sequence, view
        self.router.follow(self.number, view)
        return spent_s + SYSTEM_CLOCK.monotonic()

    def _view_for(self, reply: KvEvents) -> ReportedPrefixes:
        """What these events are applied to; `ReportError` if they do not follow the last ones."""
        if reply.after is None:
            recent = None if self.view is None else self.view.recent  # the snapshot may be older than own replies
            return ReportedPrefixes(self.router.config.cache_tokens, recent)
        if self.view is None or (reply.stream, reply.after) != (self.stream, self.after):
            raise ReportError(f"events after {reply.after} of `{reply.stream}`, not after {self.after} of `{self.stream}`")
        if reply.sequence != reply.after + len(reply.events):
            raise ReportError(f"{len(reply.events)} events are not all from {reply.after} to {reply.sequence}")
        return self.view

    def _interval(self) -> float:
        """Seconds between polls: short while the router has work."""
        replicas = self.router.replicas
        placed = sum(replica.num_requests for replica in replicas)
        is_busy = placed != self.num_placed or any(replica.num_open for replica in replicas)
        self.num_placed = placed
        return self.poll_s if is_busy else _QUIET * self.poll_s

    def _fail(self, error: ModelError) -> float:
        """It gave no events; the seconds until the next poll."""
        if error.kind == "malformed" and not error.retryable:  # as a reply that is too long
            return self._refuse(str(error))
        self.router.follow(self.number, None)  # but the events go on where they were
        self.is_ended = error.kind == "not_found"
        self.num_failed = min(self.num_failed + 1, 32)
        return min(_LONGEST_S, _QUIET * self.poll_s * 2**self.num_failed)

    def _refuse(self, why: str) -> float:
        """Its reply makes no sense; the seconds until the next poll."""
        extra = {"replica": self.endpoint.name, "why": short_line(why)}
        _log.info("events of a replica are refused", extra=extra)
        self._drop()
        self.num_refused += 1
        if self.num_refused >= _MOST_REFUSED:
            _log.warning("events of a replica make no sense; what it holds is predicted", extra=extra)
            self.is_ended = True
        return _QUIET * self.poll_s

    def _begin_anew(self, num_returns: int) -> None:
        """It is or was down: another server may be there."""
        self._drop()
        self.num_returns = num_returns
        self.num_refused = self.num_failed = 0
        self.is_ended = False

    def _drop(self) -> None:
        """Begin with a snapshot next time; until then the replica is predicted."""
        self.stream, self.after, self.view = "", 0, None
        self.router.follow(self.number, None)
