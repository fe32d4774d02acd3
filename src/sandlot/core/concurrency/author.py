"""Calling the author's functions.

Author code is trusted but may fail or hang. Async functions run on the event loop; plain ones run in a worker thread, so that a
slow one does not stop other rollouts. At the deadline the thread is abandoned (`threads.py`); a run with too many abandoned
threads stops and names the function.
"""

import asyncio
import functools
import inspect
import linecache
import sysconfig
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from sandlot.core.concurrency.threads import off_loop

_T = TypeVar("_T")
PRIVATE = "sandlot_env_"
"""Prefix of the packages that authors' files are loaded into."""
_MAX_FRAMES = 12
"""Frames kept per error: the innermost."""


def name_of(function: Callable[..., Any]) -> str:
    """`module.function`."""
    inner = _unwrapped(function)
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', repr(inner))}"


def location_of(function: Callable[..., Any]) -> str:
    """`file:line` of a function, for error messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def is_async(function: Callable[..., Any]) -> bool:
    """True if the function must be awaited."""
    inner = _unwrapped(function)
    if type(inner) is FunctionType:  # the usual case; `inspect` is slow
        return bool(inner.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004 - a callable object's own method


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return inspect.unwrap(function) if hasattr(function, "__wrapped__") else function


def frames_of(error: BaseException) -> tuple[str, ...]:
    """The stack frames of an error in the author's code, outermost first: `/path/tools.py:12 in buy: price = prices[good]`."""
    found: tuple[str, ...] = ()
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:  # the innermost error that has frames in the author's code
        seen.add(id(step))
        found = getattr(step, "author_frames", ()) or tuple(_own_frames(step.__traceback__))[-_MAX_FRAMES:] or found
        step = getattr(step, "original", None) or step.__cause__ or step.__context__
    return found


def _own_frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        code, line = trace.tb_frame.f_code, trace.tb_lineno or 0  # a frame may have no line
        if trace.tb_frame.f_globals.get("__name__", "").startswith(PRIVATE) or not code.co_filename.startswith(_foreign()):
            text = linecache.getline(code.co_filename, line).strip()[:160]
            yield f"{code.co_filename}:{line} in {code.co_name}" + (f": {text}" if text else "")
        trace = trace.tb_next


@functools.cache
def _foreign() -> tuple[str, ...]:
    """Paths of code that is not the author's: Sandlot, Python and installed packages."""
    paths = sysconfig.get_paths()
    folders = {str(Path(__file__).parents[2]), *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return ("<", *sorted(f"{folder}/" for folder in folders))


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function in a worker thread, or await an async one. Errors pass through unchanged."""
    if not is_async(function):
        return await off_loop(name_of(function), functools.partial(function, *args, **kwargs))
    return await contained(function(*args, **kwargs))


async def contained(awaitable: Awaitable[_T]) -> _T:
    """Await others' code. What it raises is an error of its own, whatever it is: none of it ends the run.

    Left alone are Ctrl-C and, if they come from outside, a cancellation of the task and `GeneratorExit`, by which it is closed.
    """
    task = asyncio.current_task()
    try:
        return await awaitable
    except SystemExit as left:
        raise RuntimeError(f"it called exit({left.code!r}); raise an error or return instead") from left
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as odd:  # also a panic of code in Rust, and a group of errors that holds a cancellation
        closed = asyncio.current_task() is not task  # whoever closes a call runs in no task, or in another one
        if closed or (task is not None and task.cancelling()):
            raise
        more = ", but was not cancelled" if isinstance(odd, asyncio.CancelledError) else f": {odd}"
        raise RuntimeError(f"it raised {type(odd).__name__}{more}") from odd
