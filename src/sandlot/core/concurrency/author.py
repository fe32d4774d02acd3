"""Calling code an author wrote: off the loop, never waited for past its deadline, named when it misbehaves.

Author code is trusted but fallible. Async functions run on the loop; sync ones move to a worker thread by themselves, so that a
slow one does not stop every other rollout. At its deadline the outcome is decided and the thread is abandoned (`threads.py`); a
run with too many of those stops and names the function.
"""

import asyncio
import functools
import inspect
import linecache
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

from sandlot.core.concurrency.threads import off_loop

PRIVATE = "sandlot_env_"
"""Names of the packages that authors' files are loaded into begin so."""
_MAX_FRAMES = 12
"""Frames kept of one error: the innermost."""


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


def frames_of(error: BaseException) -> tuple[str, ...]:
    """The author's own frames of an error, outermost first: `/path/tools.py:12 in buy: price = prices[good]`."""
    found: tuple[str, ...] = ()
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:  # the innermost error that passed through the author's code decides
        seen.add(id(step))
        found = getattr(step, "author_frames", ()) or tuple(_own_frames(step.__traceback__))[-_MAX_FRAMES:] or found
        step = getattr(step, "original", None) or step.__cause__ or step.__context__
    return found


def _own_frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        code, line = trace.tb_frame.f_code, trace.tb_lineno or 0  # a frame can be between lines, and then has none
        if trace.tb_frame.f_globals.get("__name__", "").startswith(PRIVATE) or not code.co_filename.startswith(_foreign()):
            text = linecache.getline(code.co_filename, line).strip()[:160]
            yield f"{code.co_filename}:{line} in {code.co_name}" + (f": {text}" if text else "")
        trace = trace.tb_next


@functools.cache
def _foreign() -> tuple[str, ...]:
    """Where code lies that no author wrote: Sandlot, Python and installed packages."""
    paths = sysconfig.get_paths()
    folders = {str(Path(__file__).parents[2]), *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return ("<", *sorted(f"{folder}/" for folder in folders))


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
