"""A machine of the native backend: the operations of its agent, and the descriptor of the layer it writes to."""

import os
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.errors import SandboxError
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree, Zygote
from sandlot.sandbox.quota import Quota


@dataclass(frozen=True, slots=True)
class NativeBase:
    """What a machine starts from: layers that its zygote holds open."""

    zygote: Zygote
    trees: tuple[OverlayTree, ...]
    defaults: CommandDefaults


class NativeMachine:
    """A live agent; `machine` is what it offers. `upper` keeps what it wrote, until it is closed or becomes a layer."""

    def __init__(self, machine: Machine, base: NativeBase, number: int, upper: int) -> None:
        self.machine = machine
        self.base = base
        self._number = number
        self._upper = upper

    @property
    def is_gone(self) -> bool:
        """True if it has died."""
        return self.machine.link.is_gone

    async def into_layer(self) -> OverlayLayer:
        """What it wrote as a layer for others to start on. Once, and only when it is frozen or has ended."""
        if self._upper < 0:
            raise SandboxError("the sandbox is closed; its files are gone", kind="closed")
        layer = await self.base.zygote.add_upper(self._number, self._upper)
        await self._close_upper()
        return layer

    async def close(self) -> None:
        """End it; what it wrote is gone unless it became a layer."""
        self.machine.link.close()
        await self._close_upper()

    async def _close_upper(self) -> None:
        """In a thread: the last close of a layer waits while the kernel frees all that was written."""
        upper, self._upper = self._upper, -1
        if upper >= 0:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(os.close, upper)


async def start_native_machine(tasks: TaskGroup, base: NativeBase, quota: Quota, seats: int = 0) -> NativeMachine:
    """A fresh machine on these layers, ready for commands; its reader runs in `tasks` until it is closed."""
    started = await base.zygote.start(base.trees, quota, seats)
    link = Link(started.sock, partial(base.zygote.cause_of_death, started.number))
    try:
        upper = await link.read_hello_fd(started.sock)
    except BaseException:
        link.close()
        raise
    tasks.start_soon(link.run)
    return NativeMachine(Machine(link, quota, base.defaults), base, started.number, upper)
