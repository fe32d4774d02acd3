"""Blocking versions of async functions, for callers that do not await."""

import asyncio
import functools
import inspect
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import anyio
from anyio.from_thread import start_blocking_portal

from sandlot.core.concurrency.loop import LOOP_OPTIONS

_Parameters = ParamSpec("_Parameters")
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Terminated(KeyboardInterrupt):
    """SIGTERM came: what runs ends as after Ctrl-C, so that nothing half-made stays."""


class _Termination:
    """Handles SIGTERM in the process that made it. A forked child ends at once: what it would clean up is not its own."""

    def __init__(self) -> None:
        self._owner = os.getpid()

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.end_child()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        raise Terminated

    def end_child(self) -> None:
        """End this process if it is a forked child."""
        if os.getpid() != self._owner:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)


def handle_sigterm() -> None:
    """Let SIGTERM raise `Terminated` in this process, where nothing else handles it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _Termination())


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

        go = functools.partial(function, *args, **kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run_interruptible(go)
        return _in_another_thread(go)

    call.__name__ = call.__qualname__ = name
    call.__module__, call.__doc__, call.__annotations__ = function.__module__, function.__doc__, function.__annotations__
    call.__signature__ = signature  # type: ignore[attr-defined] - what help() and notebooks show
    return call


def run_interruptible(function: Callable[[*_Arguments], Coroutine[Any, Any, _Result]], *args: *_Arguments) -> _Result:
    """`anyio.run`, but after Ctrl-C it raises `KeyboardInterrupt` in every case, and after a handled SIGTERM `Terminated`.

    Both cancel the function. `anyio.run` forgets it if the function returns all the same, or if a task fails while it ends.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        return anyio.run(function, *args, backend_options=LOOP_OPTIONS)  # the caller handles Ctrl-C
    interrupts: list[int] = []
    termination = signal.getsignal(signal.SIGTERM)

    async def go() -> _Result:
        cancel = signal.getsignal(signal.SIGINT)
        assert callable(cancel)

        def note(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGTERM and isinstance(termination, _Termination):
                termination.end_child()
            interrupts.append(number)
            cancel(number, frame)

        signal.signal(signal.SIGINT, note)
        if isinstance(termination, _Termination):
            signal.signal(signal.SIGTERM, note)
        try:
            return await function(*args)
        finally:
            signal.signal(signal.SIGINT, cancel)
            if isinstance(termination, _Termination):
                signal.signal(signal.SIGTERM, termination)

    try:
        return anyio.run(go, backend_options=LOOP_OPTIONS)
    finally:
        if interrupts:
            raise Terminated if signal.SIGTERM in interrupts else KeyboardInterrupt


def _in_another_thread(go: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run it in a thread with its own loop, and wait. Ctrl-C cancels it, and waits until everything is closed."""
    with start_blocking_portal(backend_options=LOOP_OPTIONS) as portal:
        future = portal.start_task_soon(go)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
