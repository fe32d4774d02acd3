"""A pool of started machines: up to `size` of each image wait ready, so that opening a sandbox need not wait for a start.

The pool never holds more than `size` machines of an image, counting those it is starting. A machine that died while it waited is
closed and not given out. After `close` nothing of the pool is left, also not a machine whose start was still under way.
"""

import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from sandlot.core.errors import SandboxError

_log = logging.getLogger(__name__)


class PooledMachine(Protocol):
    """A started machine, as the pool sees it."""

    @property
    def is_gone(self) -> bool:
        """True if it has died."""
        ...

    async def close(self) -> None:
        """End it and free everything it holds."""
        ...


_Machine = TypeVar("_Machine", bound=PooledMachine)


class MachinePool(Generic[_Machine]):
    """Ready machines by image. `start` starts one; refills run in `tasks`."""

    def __init__(self, start: Callable[[str], Awaitable[_Machine]], tasks: TaskGroup, size: int) -> None:
        self._start = start
        self._tasks = tasks
        self._size = size
        self._ready: dict[str, deque[_Machine]] = {}
        self._starting: Counter[str] = Counter()
        self._closed = False

    @property
    def num_ready(self) -> int:
        """Machines that wait, of all images."""
        return sum(map(len, self._ready.values()))

    async def take(self, image: str) -> _Machine:
        """A ready machine, or a fresh one if none is ready. The pool is refilled in the background."""
        machine = await self._take_ready(image) or await self._start(image)
        if self._size:
            self._tasks.start_soon(self._refill, image)
        return machine

    async def fill(self, image: str) -> None:
        """Start machines of an image until `size` are ready."""
        ready = self._ready.setdefault(image, deque())
        while not self._closed and len(ready) + self._starting[image] < self._size:
            self._starting[image] += 1
            try:
                machine = await self._start(image)
            finally:
                self._starting[image] -= 1
            if self._closed:
                with anyio.CancelScope(shield=True):
                    await machine.close()
            else:
                ready.append(machine)

    async def close(self) -> None:
        """Close every ready machine; those being started are closed when they are ready."""
        self._closed = True
        machines = [machine for ready in self._ready.values() for machine in ready]
        self._ready.clear()
        await close_machines(machines)

    async def _take_ready(self, image: str) -> _Machine | None:
        ready = self._ready.get(image)
        while ready:
            machine = ready.popleft()
            if not machine.is_gone:
                return machine
            await machine.close()
        return None

    async def _refill(self, image: str) -> None:
        """Fill the pool; a failed start is only logged, since the next `take` starts its own machine and raises the error."""
        try:
            await self.fill(image)
        except SandboxError as error:
            _log.warning("the pool could not be filled", extra={"image": image, "error": str(error)})


async def close_machines(machines: Sequence[PooledMachine]) -> None:
    """Close all of them at once: some backends take long to remove one."""
    if len(machines) == 1:  # the usual case, without the cost of a task group
        await machines[0].close()
        return
    async with anyio.create_task_group() as group:
        for machine in machines:
            group.start_soon(machine.close)
