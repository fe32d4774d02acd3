"""Several servers of one model: each request goes to the one that the router chooses, and to another if that one fails.

A replica that refuses connections or answers with a 5xx is down: its rollouts go elsewhere at once, and it is probed until it
answers again. A request that gets a second 5xx may be to blame itself, so it takes no further replica down, however long it is
retried. That 5xx, a timeout, a broken reply, or a refusal of the key or the model makes a replica suspect: it is probed first.
Every failure that was followed by another attempt is reported like a retry. If no replica is up, requests wait and try again
until their patience ends; then the turn fails on the model's side.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from sandlot.core.errors import ModelError, unwrapped
from sandlot.core.trace import TurnReplica
from sandlot.model.endpoint.retry import Patience, Retry, call_with_retries, report_retry
from sandlot.model.routing.router import PlacedRequest, Router

_log = logging.getLogger(__name__)

PROBE_S = 1.0
_LONGEST_PROBE_S = 15.0
"""Time between two probes of a replica that is down: at first, and at most."""
_PROBE_TIMEOUT_S = 10.0

_MISFITS = frozenset({"auth", "not_found"})
"""Kinds of errors that a wrong key or model gives: of one replica perhaps, so another is asked."""
_SUSPECT = frozenset({"server", "timeout", "malformed"}) | _MISFITS
"""Kinds of errors after which a replica is probed, if they do not take it down."""

Got = TypeVar("Got")
Check = Callable[[int], Awaitable[str | None]]
"""What is wrong with a replica, by its number; None if it can serve."""


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """What the router is told of a request."""

    prompt: bytes
    """The ids, or text that begins as the prompt does."""
    rollout: str = ""
    model: str = ""
    max_tokens: int | None = None
    """Tokens that may be sampled."""


@asynccontextmanager
async def open_replicas(
    router: Router, check: Check, *, patience: Patience, down: Sequence[int] = (), probe_s: float = PROBE_S
) -> AsyncGenerator["Replicas"]:
    """Route requests and probe replicas until the context ends. `down` are the replicas that do not answer now."""
    send, receive = anyio.create_memory_object_stream[int](inf)
    replicas = Replicas(router, check, patience, send.send_nowait, probe_s)
    for number in down:
        replicas.remove(number, "it does not answer")
    with send, receive:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(replicas.probe_all, receive)  # here, so that probes are part of no rollout
                try:
                    yield replicas
                finally:
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as wrapped:
            raise unwrapped(wrapped) from None


@dataclass(slots=True)
class Replicas:
    """Sends requests by a router. Open it with `open_replicas`."""

    router: Router
    _check: Check
    _patience: Patience
    _probe: Callable[[int], None]
    _probe_s: float
    _probed: set[int] = field(default_factory=set[int], init=False)
    """Replicas that are being probed."""

    async def call(
        self,
        request: RoutedRequest,
        attempt: Callable[[int], Awaitable[Got | ModelError]],
        finish: Callable[[PlacedRequest, Got], None],
    ) -> tuple[Got, TurnReplica]:
        """The reply of the first replica that gives one, and which it was. `finish` tells the router about the reply."""
        kinds: set[str] = set()
        return await call_with_retries(self._patience, lambda: self._try_each(request, attempt, finish, kinds))

    async def _try_each(
        self,
        request: RoutedRequest,
        attempt: Callable[[int], Awaitable[Got | ModelError]],
        finish: Callable[[PlacedRequest, Got], None],
        kinds: set[str],
    ) -> tuple[Got, TurnReplica] | ModelError:
        """Try one replica after another until one replies; the last error if none does. `kinds` are those of all its errors."""
        failed: dict[int, ModelError] = {}
        while True:
            placed = self.router.place(
                request.prompt, request.rollout, model=request.model, max_tokens=request.max_tokens, avoid=failed.keys()
            )
            if placed is None:
                last_first = list(reversed(failed.values())) or [self.none_up()]
                return next((error for error in last_first if error.retryable), last_first[0])
            if failed:
                error = list(failed.values())[-1]
                report_retry(Retry(attempt=len(failed), kind=error.kind, message=str(error), wait_s=0.0))
            got = await self._attempt(placed, attempt)
            if not isinstance(got, ModelError):
                finish(placed, got)
                expected = min(placed.hit.tokens, placed.num_tokens)
                return got, TurnReplica(name=self.router.replicas[placed.number].name, expected_tokens=expected)
            if not got.retryable and got.kind != "connect" and got.kind not in _MISFITS:
                return got  # the request itself is refused
            self._blame(placed.number, got, kinds)
            kinds.add(got.kind)
            failed[placed.number] = got

    async def _attempt(self, placed: PlacedRequest, attempt: Callable[[int], Awaitable[Got | ModelError]]) -> Got | ModelError:
        try:
            got = await attempt(placed.number)
        except BaseException:  # cancelled, or refused before it was sent
            self.router.withdraw(placed)
            raise
        if isinstance(got, ModelError):
            self.router.withdraw(placed)
        return got

    def _blame(self, number: int, error: ModelError, earlier: AbstractSet[str]) -> None:
        """`earlier` are the kinds of errors that the same request got before."""
        self.router.replicas[number].num_failed += 1
        if error.kind == "connect" or (error.kind == "server" and "server" not in earlier):
            self.remove(number, str(error))
        elif error.kind in _SUSPECT:
            self._suspect(number)

    def _suspect(self, number: int) -> None:
        """Probe a replica, unless that is under way."""
        if number not in self._probed:
            self._probed.add(number)
            self._probe(number)

    def none_up(self) -> ModelError:
        """The error of a request while all replicas are down."""
        names = ", ".join(replica.name for replica in self.router.replicas)
        return ModelError(f"no replica answers: {names}", kind="connect", retryable=True)

    def remove(self, number: int, why: str) -> None:
        """Send nothing more to a replica until a probe succeeds."""
        if self.router.replicas[number].is_up:
            _log.warning("a replica is down", extra={"replica": self.router.replicas[number].name, "why": why})
            self.router.remove(number)
        self._suspect(number)

    async def probe_all(self, numbers: MemoryObjectReceiveStream[int]) -> None:
        """Probe replicas as their numbers come."""
        async with anyio.create_task_group() as group:
            async for number in numbers:
                group.start_soon(self._probe_one, number)

    async def _probe_one(self, number: int) -> None:
        """Probe a suspect once, and a replica that is down until it answers."""
        replica = self.router.replicas[number]
        wait_s = self._probe_s
        while True:
            if not replica.is_up:
                await anyio.sleep(wait_s)
                wait_s = min(_LONGEST_PROBE_S, 1.5 * wait_s)
            wrong: str | None = f"no answer within {_PROBE_TIMEOUT_S:g} s"
            with anyio.move_on_after(_PROBE_TIMEOUT_S):
                wrong = await self._check(number)
            if wrong is None:
                break
            if replica.is_up:
                self.remove(number, wrong)
        self._probed.discard(number)
        if not replica.is_up:
            _log.warning("a replica is up again", extra={"replica": replica.name})
            self.router.admit(number)
