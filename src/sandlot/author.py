"""Calling code an author wrote: off the loop, never waited for past its deadline, named when it misbehaves.

Author code is trusted but fallible. Async functions run on the loop; sync ones move to a worker thread by themselves, so that a
slow one does not stop every other rollout. At its deadline the outcome is decided and the thread is abandoned (`threads.py`); a
run with too many of those stops and names the function.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from sandlot.threads import off_loop


def name_of(function: Callable[..., Any]) -> str:
    """`module.function` as a person would look for it."""
    inner = _unwrapped(function)
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', repr(inner))}"


def is_async(function: Callable[..., Any]) -> bool:
    """True if calling it gives something to await."""
    inner = _unwrapped(function)
    if type(inner) is FunctionType:  # almost always, and `inspect` takes its time
        return bool(inner.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004 - a callable object's own method


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return inspect.unwrap(function) if hasattr(function, "__wrapped__") else function


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it wherever it belongs and give back what it returned; errors pass through as they are."""
    if not is_async(function):
        return await off_loop(name_of(function), functools.partial(function, *args, **kwargs))
    try:
        return await function(*args, **kwargs)
    except SystemExit as left:
        raise RuntimeError(f"it called exit({left.code!r}); raise an error or return instead") from left
    except asyncio.CancelledError as stray:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it raised CancelledError, though nobody cancelled it") from stray
