"""Trying again: exponential backoff with full jitter, bounded by patience, told to whoever listens.

Waiting is excused: it is not the agent's time. `Retry-After` is honoured up to a cap. `retrying`
returns a reply or raises the last `ModelError`; it never retries what trying again cannot mend.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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
"""Backoff doubles from the first to the longest wait; each wait is drawn between 0 and that."""
LONGEST_RETRY_AFTER_S = 120.0
"""An endpoint that asks for more is asked again after this much."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that failed and was followed by another."""

    attempt: int
    kind: str
    message: str
    wait_s: float


_listener: ContextVar[Callable[[Retry], None] | None] = ContextVar("retry_listener", default=None)


@contextmanager
def retries_told(to: Callable[[Retry], None]) -> Generator[None]:
    """Everything retried inside is told to `to`, whichever model it was; the policy writes it into the trace."""
    token = _listener.set(to)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a turn is tried again; randomness, sleeping and time are given, so that tests need none of them."""

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
        return (
            min(retry_after_s, LONGEST_RETRY_AFTER_S) + jitter_s
        )  # jitter on top: all who were told the same must not return at once


Got = TypeVar("Got")


async def retrying(patience: Patience, attempt: Callable[[], Awaitable[Got | ModelError]]) -> Got:
    """What the first good attempt gave; the last error when patience is over or trying again cannot help.

    Attempts hand errors back instead of raising, so that no chained exception of a library carries a request's headers along.
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
            raise _final(got, number)
        _tell(Retry(attempt=number, kind=got.kind, message=str(got), wait_s=round(wait_s, 3)))
        with pause_limits():
            await patience.sleep(wait_s)


def _final(error: ModelError, number: int) -> ModelError:
    if number == 1:
        return error
    return ModelError(
        f"{error} (the last of {number} attempts)", kind=error.kind, retryable=error.retryable, retry_after_s=error.retry_after_s
    )


def _tell(retry: Retry) -> None:
    _log.debug("model retry", extra={"kind": retry.kind, "attempt": retry.attempt, "wait_s": retry.wait_s})
    listener = _listener.get()
    if listener is not None:
        listener(retry)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds an endpoint asks to wait, from `Retry-After-Ms` or `Retry-After` (seconds or a date); None if it does not say."""
    milliseconds = _number(headers.get("Retry-After-Ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("Retry-After")
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
