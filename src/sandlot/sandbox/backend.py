"""Opens sandboxes of any backend: takes machines from the pool, forks snapshots, and removes everything at the end."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from sandlot.core.errors import ConfigError, unwrapped
from sandlot.core.limits import Limits
from sandlot.sandbox.pool import MachinePool
from sandlot.sandbox.sandbox import Frozen, FrozenFiles, Machines, MachineSandbox, StartedMachine

_CLOSE_S = 20.0
"""Longest time that closing one sandbox, or the pool, may take."""

_Machine = TypeVar("_Machine", bound=StartedMachine)
_Files = TypeVar("_Files", bound=FrozenFiles)


class MachineBackend(Generic[_Machine, _Files]):
    """Makes sandboxes (port `Backend`). Get one from `open_native` or `open_docker`."""

    def __init__(self, machines: Machines[_Machine, _Files], tasks: TaskGroup, pool: int) -> None:
        self.machines = machines
        self._pool = MachinePool(machines.start, tasks, pool)

    async def prepare(self, image: str) -> None:
        """Find an image, and build it if it is not there."""
        await self.machines.prepare(image)

    @asynccontextmanager
    async def open(
        self, image: str, network: str = "none", limits: Limits | None = None, seats: int = 0
    ) -> AsyncGenerator[MachineSandbox[_Machine, _Files]]:
        """A fresh sandbox, removed when the context ends. `limits` are enforced by the session, not here.

        `seats`: users who must not see each other's processes; the pool has no such machines.
        """
        del limits
        if network != "none":
            raise ConfigError(f"network {network!r} for a sandbox; there is only `none`")
        machine = await (self.machines.start(image, seats) if seats else self._pool.take(image))
        sandbox = MachineSandbox(self.machines, self.fork, image, machine, seats)
        try:
            yield sandbox
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await sandbox.close()

    @asynccontextmanager
    async def fork(self, frozen: Frozen[_Files]) -> AsyncGenerator[MachineSandbox[_Machine, _Files]]:
        """A fresh sandbox on frozen files."""
        machine = await self.machines.start(frozen.files)
        sandbox = MachineSandbox(self.machines, self.fork, frozen.hold(), machine)
        try:
            yield sandbox
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await sandbox.close()

    async def warm(self, image: str) -> None:
        """Fill the pool for an image now."""
        await self._pool.fill(image)

    async def probe(self) -> Mapping[str, str]:
        """What this backend isolates on this machine, capability by capability; `no: why` where it does not."""
        return await self.machines.probe()

    async def count(self) -> int:
        """Machines alive, the pool's included. One that was closed a moment ago may still be dying; see `settle`."""
        return await self.machines.count()

    async def settle(self, expected: int) -> None:
        """Wait until at most this many machines live: what does not go away is a leak. Bound it by a deadline."""
        while await self.count() > expected:  # noqa: ASYNC110 - the kernel or Docker ends them, and sets no event
            await anyio.sleep(0.005)

    def pooled(self) -> int:
        """Machines waiting in the pool."""
        return self._pool.num_ready

    async def close(self) -> None:
        """Close the pool, and what the backend keeps for itself."""
        await self._pool.close()
        await self.machines.close()


@asynccontextmanager
async def open_backend(
    make: Callable[[TaskGroup], Machines[_Machine, _Files]], pool: int
) -> AsyncGenerator[MachineBackend[_Machine, _Files]]:
    """A backend for as long as the context lasts. `make` gets the task group in which links are read."""
    try:
        async with anyio.create_task_group() as tasks:
            backend = MachineBackend(make(tasks), tasks, pool)
            try:
                yield backend
            finally:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await backend.close()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # our tasks raise nothing: the one error in it is the caller's own
        raise unwrapped(group) from None
