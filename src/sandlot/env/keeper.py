"""Opening resources within a deadline, and always closing them.

A resource may hold a task group, and a task group cannot be entered inside a deadline's scope and left outside it. So each
resource is held open by its own task, and `enter` waits until it is open. Closing is shielded from cancellation and has a time
limit, so that a cancelled rollout still closes its world.
"""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import SandboxError, SandlotError, boundary, unwrapped

_T = TypeVar("_T")


class Keeper:
    """Holds a world's resources open and closes them in reverse order, within `teardown_s`, even when cancelled."""

    def __init__(self, teardown_s: float) -> None:
        self._teardown_s = teardown_s
        self._group: anyio.abc.TaskGroup | None = None
        """Opened with the first resource: most worlds without a sandbox have none."""
        self._held: list[tuple[anyio.Event, anyio.Event]] = []
        self._broken: list[SandlotError] = []
        """What open resources raised, such as a server that died: told at the end, since the world can go on without them."""

    async def __aenter__(self) -> Self:
        return self

    async def enter(self, context: AbstractAsyncContextManager[_T], seconds: float, kind: type[SandlotError], what: str) -> _T:
        """Open a resource within `seconds`; otherwise raise `kind`. Call it in the keeper's own block, inside no other scope."""
        if self._group is None:
            self._group = await anyio.create_task_group().__aenter__()
        release, gone, is_open = anyio.Event(), anyio.Event(), False

        async def hold(*, task_status: anyio.abc.TaskStatus[Any] = anyio.TASK_STATUS_IGNORED) -> None:
            nonlocal is_open
            try:
                with boundary(kind, what):
                    async with context as opened:
                        is_open = True
                        task_status.started(opened)
                        await release.wait()
            except SandlotError as error:
                if not is_open:
                    raise
                self._broken.append(error)
            finally:
                gone.set()

        with deadline(seconds, kind, what):
            opened = await self._group.start(hold)
        self._held.append((release, gone))
        return opened

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Close everything. Closing too slowly is a `SandboxError`, unless the block itself failed: that error is kept."""
        if self._group is None:
            return False
        with anyio.move_on_after(self._teardown_s, shield=True) as closing:
            for release, gone in reversed(self._held):
                release.set()
                await gone.wait()
        if closing.cancelled_caught:
            self._group.cancel_scope.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if isinstance(error, Exception):
                error.add_note(f"while closing: {unwrapped(group)}")
                return False
            raise unwrapped(group) from None
        if self._broken and isinstance(error, Exception):
            error.add_note(f"while closing: {self._broken[0]}")
        elif self._broken and error is None:
            raise self._broken[0]
        if closing.cancelled_caught and error is None:
            raise SandboxError(f"teardown: took longer than {self._teardown_s:g} s", kind="timeout")
        return False
