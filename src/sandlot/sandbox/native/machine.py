"""A machine of the native backend: the operations of its agent, and the descriptor of the layer it writes to."""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from sandlot.core.errors import SandboxError, SandboxOutOfMemory
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.link import ENDED, Link
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree, Zygote
from sandlot.sandbox.quota import Quota

_INSIDE_S = 0.2
"""Longest time for process 1 to end the others; ending them from outside costs the start of a fresh reader."""
_ENDED_S = 60.0
"""Longest wait for processes that were killed."""


def can_be_replaced(error: BaseException | None) -> bool:
    """Whether this ended a machine but not its files: a fresh one can read them."""
    return isinstance(error, SandboxOutOfMemory) or (isinstance(error, SandboxError) and error.kind == ENDED)


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

    async def end_processes(self) -> bool:
        """End every process for good; True if its process 1 is left as the reader of the files.

        Process 1 does it, and needs a millisecond, unless it must compete with what it is to end. Then the kernel ends them all.
        """
        link = self.machine.link
        try:
            with anyio.move_on_after(_INSIDE_S):
                await self.machine.kill_all(freeze=True)
                link.others_live = False
                return True
        except SandboxOutOfMemory:
            return False
        link.fail(SandboxError("the sandbox's processes were ended by the kernel", kind=ENDED))
        with anyio.move_on_after(_ENDED_S):
            await self.base.zygote.kill_sandbox(self._number)
            await self.base.zygote.wait_ended(self._number)
        return False

    async def close(self) -> None:
        """End it; what it wrote is gone unless it became a layer. Its process 1 exits, when it gets the time for that."""
        competes = self.machine.link.others_live and self.machine.link.broken is None
        self.machine.link.close()
        if competes:
            with suppress(SandboxError):  # the zygote died, and with it every sandbox
                await self.base.zygote.kill_sandbox(self._number)
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

    def weigh(low: bool) -> None:  # noqa: FBT001 - what a link calls
        tasks.start_soon(partial(base.zygote.weigh, started.number, low=low))

    has_weights = "cpu" in base.zygote.cgroups.place
    link = Link(started.sock, partial(base.zygote.cause_of_death, started.number), weigh if has_weights else None)
    try:
        upper = await link.read_hello_fd(started.sock)
    except BaseException:
        link.close()
        raise
    tasks.start_soon(link.run)
    return NativeMachine(Machine(link, quota, base.defaults), base, started.number, upper)
