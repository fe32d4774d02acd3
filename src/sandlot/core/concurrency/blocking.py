"""Blocking versions of async functions, for callers that do not await."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def blocking(name: str, function: Callable[_Parameters, Coroutine[Any, Any, _Result]]) -> Callable[_Parameters, _Result]:
    """The same function under another name, for callers that do not await.

    It works inside a running event loop too, as in a notebook: there it uses a thread with a loop of its own.
    """
    signature = inspect.signature(function)

    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None

        async def go() -> _Result:
            return await function(*args, **kwargs)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return anyio.run(go)
        return _in_another_thread(go)

    call.__name__ = call.__qualname__ = name
    call.__module__, call.__doc__, call.__annotations__ = function.__module__, function.__doc__, function.__annotations__
    call.__signature__ = signature  # type: ignore[attr-defined] - what help() and notebooks show
    return call


def _in_another_thread(go: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run it in a thread with its own loop, and wait. Ctrl-C cancels it, and waits until everything is closed."""
    with start_blocking_portal() as portal:
        future = portal.start_task_soon(go)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
