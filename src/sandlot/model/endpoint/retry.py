"""Retries with exponential backoff and full jitter, bounded in time, reported to a listener.

Waiting does not count as agent time. `Retry-After` is honoured up to a cap. Only errors marked `retryable` are retried.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TypeVar

import anyio
import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock, pause_limits
from sandlot.core.errors import ModelError

_log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
"""The backoff doubles from the first to the longest wait; each wait is random between 0 and the backoff."""
LONGEST_RETRY_AFTER_S = 120.0
"""Cap on an endpoint's `Retry-After`."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt that was followed by another."""

    attempt: int
    kind: str
    message: str
    wait_s: float


_listener: ContextVar["listen_for_retries | None"] = ContextVar("retry_listener", default=None)


class listen_for_retries:  # noqa: N801 - used as a function; every turn passes it, and a generator costs more
    """Call `to` for each retry of any model inside the context, as contexts around it do; policies record them in the trace.

    After the context it does not hold `to` any more: tasks started inside have copies of the context variables, and a cancelled
    task is garbage that Python frees much later, with all that it holds.
    """

    __slots__ = ("_outer", "_to", "_token")

    def __init__(self, to: Callable[[Retry], None]) -> None:
        self._to: Callable[[Retry], None] | None = to
        self._outer: listen_for_retries | None = None
        self._token: Token[listen_for_retries | None] | None = None

    def __enter__(self) -> None:
        assert self._to is not None, "it is entered once"
        self._outer = _listener.get()
        self._token = _listener.set(self)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None, "it is entered first"
        _listener.reset(self._token)
        self._to = self._token = None

    def tell(self, retry: Retry) -> None:
        """Call every function that listens, the innermost first."""
        if self._to is not None:
            self._to(retry)
        if self._outer is not None:
            self._outer.tell(retry)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to retry; tests replace randomness, sleep and clock."""

    patience_s: float = 300.0
    """No retry starts later than this after the first failure."""
    draw: Callable[[float, float], float] = random.uniform
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Clock = field(default=SYSTEM_CLOCK)

    def wait_before(self, attempt: int, retry_after_s: float | None) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 1)."""
        ceiling_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt - 1, 32))
        jitter_s = self.draw(0.0, ceiling_s)
        if retry_after_s is None:
            return jitter_s
        return min(retry_after_s, LONGEST_RETRY_AFTER_S) + jitter_s  # jitter on top, so that clients do not all return at once


Got = TypeVar("Got")


async def call_with_retries(patience: Patience, attempt: Callable[[], Awaitable[Got | ModelError]]) -> Got:
    """The result of the first successful attempt; raises the last error if it is not retryable or time is up.

    Attempts return errors instead of raising them, so that no chained exception carries the request headers.
    """
    monotonic = patience.clock.monotonic
    give_up: float | None = None
    number = 0
    while True:
        number += 1
        got = await attempt()
        if not isinstance(got, ModelError):
            return got
        failed = monotonic()
        give_up = failed + patience.patience_s if give_up is None else give_up
        wait_s = patience.wait_before(number, got.retry_after_s)
        if not got.retryable or failed + wait_s > give_up:
            raise got if number == 1 else got.with_message(f"{got} (the last of {number} attempts)")
        report_retry(Retry(attempt=number, kind=got.kind, message=str(got), wait_s=round(wait_s, 3)))
        with pause_limits():
            await patience.sleep(wait_s)


def report_retry(retry: Retry) -> None:
    """Tell the listener of this turn that another attempt follows."""
    _log.debug("model retry", extra={"kind": retry.kind, "attempt": retry.attempt, "wait_s": retry.wait_s})
    listener = _listener.get()
    if listener is not None:
        listener.tell(retry)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that an endpoint asks for in `Retry-After-Ms` or `Retry-After` (seconds or a date); None without the header.

    The names of `headers` are in lower case.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
