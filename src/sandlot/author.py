"""Calling code an author wrote: off the loop, never waited for past its deadline, named when it misbehaves.

Author code is trusted but fallible. Async functions run on the loop; sync ones move to a worker thread by themselves, so that a
slow one does not stop every other rollout. A thread cannot be killed: at its deadline the outcome is decided and the thread is
*abandoned*; `ABANDONED` counts them by function, and a run with too many stops and names the function.
"""

import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

ABANDONED: Counter[str] = Counter()
"""Threads given up on, by function, in this process; one comes off when its function does return after all."""

MAX_THREADS = 64
"""Worker threads for author code in one process."""

_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("author_threads")


def name_of(function: Callable[..., Any]) -> str:
    """`module.function` as a person would look for it."""
    inner = inspect.unwrap(function)
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', repr(inner))}"


def is_async(function: Callable[..., Any]) -> bool:
    """True if calling it gives something to await."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004 - a callable object's own method


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it wherever it belongs and give back what it returned; errors pass through as they are."""
    if is_async(function):
        with _no_exit(name_of(function)):
            return await function(*args, **kwargs)
    return await off_loop(name_of(function), functools.partial(function, *args, **kwargs))


async def off_loop(name: str | Callable[[], str], work: Callable[[], Any]) -> Any:
    """Run blocking work in a worker thread under a name. Cancelling abandons the thread and counts it.

    Work that calls several functions gives a function for the name: it is asked at the deadline, for the one then running.
    """
    errand = _Errand(work)
    try:
        return await anyio.to_thread.run_sync(errand.run, abandon_on_cancel=True, limiter=_limiter())
    except anyio.get_cancelled_exc_class():
        errand.abandon(name)
        raise


class _Errand:
    """Work in a thread, and whether anybody still waits for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._lock = threading.Lock()  # the thread may finish at the very moment it is given up on
        self._running = False
        self._abandoned: str | None = None

    def run(self) -> Any:
        self._running = True
        try:
            with _no_exit("this function"):
                return self._work()
        finally:
            with self._lock:
                self._running = False
                if self._abandoned is not None:
                    ABANDONED[self._abandoned] -= 1

    def abandon(self, name: str | Callable[[], str]) -> None:
        """Count it, unless it has not begun (then it never will) or is already done."""
        with self._lock:
            if self._running:
                self._abandoned = name if isinstance(name, str) else name()
                ABANDONED[self._abandoned] += 1


@contextmanager
def _no_exit(name: str) -> Generator[None]:
    """Author code that calls `exit()` ends itself, not the run."""
    try:
        yield
    except SystemExit as left:
        raise RuntimeError(f"`{name}` called exit({left.code!r}); raise an error or return instead") from left


def _limiter() -> anyio.CapacityLimiter:
    """One limiter per event loop: a limiter belongs to the loop it was made in."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_THREADS)
        _LIMITER.set(limiter)
        return limiter
