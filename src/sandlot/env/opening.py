"""Opening resources under a deadline, and closing them for sure.

A resource may hold a task group of its own, and a task group cannot be entered inside a deadline's scope and left outside it.
So each is held open by a task: entering waits for that task to say it is ready, and closing lets it go, bounded and shielded,
so that cancelling a rollout still closes its world.
"""

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from sandlot.clock import deadline
from sandlot.errors import SandboxError, SandlotError, boundary, unwrapped

T = TypeVar("T")


class Keeper:
    """Holds what a world has open; closes it in reverse, within `teardown_s`, even when cancelled."""

    def __init__(self, teardown_s: float) -> None:
        self._teardown_s = teardown_s
        self._group = anyio.create_task_group()
        self._held: list[tuple[anyio.Event, anyio.Event]] = []

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def enter(self, context: AbstractAsyncContextManager[T], seconds: float, kind: type[SandlotError], what: str) -> T:
        """Open it within `seconds`; failing that, `kind` is to blame."""
        release, gone = anyio.Event(), anyio.Event()

        async def hold(*, task_status: anyio.abc.TaskStatus[Any] = anyio.TASK_STATUS_IGNORED) -> None:
            try:
                with boundary(kind, what):
                    async with context as opened:
                        task_status.started(opened)
                        await release.wait()
            finally:
                gone.set()

        with deadline(seconds, kind, what):
            opened = await self._group.start(hold)
        self._held.append((release, gone))
        return opened

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Let everything go. What fails to close in time is cancelled and is the sandbox's failure."""
        late = False
        for release, gone in reversed(self._held):
            release.set()
            with anyio.move_on_after(self._teardown_s, shield=True) as scope:
                await gone.wait()
            late = late or scope.cancelled_caught
        if late:
            self._group.cancel_scope.cancel()
        with _one_error():
            await self._group.__aexit__(kind, error, trace)
        if late and error is None:
            raise SandboxError(f"teardown: took longer than {self._teardown_s:g} s", kind="timeout")
        return False


@contextmanager
def _one_error() -> Generator[None]:
    """A task group wraps what fails in it; one failure is raised as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise unwrapped(group) from None
