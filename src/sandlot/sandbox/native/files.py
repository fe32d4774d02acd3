"""The frozen files of a native sandbox: read by the machine that wrote them, and a layer for others to start on."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import anyio

from sandlot.core.errors import SandboxOutOfMemory
from sandlot.core.ports.sandbox import Survey
from sandlot.sandbox.changes import Change, changes_of, survey_of
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.link.wire import Listing
from sandlot.sandbox.native.machine import NativeBase, NativeMachine, can_be_replaced
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree

_Answer = TypeVar("_Answer")


class NativeFiles:
    """What a machine wrote, after its processes have ended. The layer is made when the first machine is started on it."""

    def __init__(self, machine: NativeMachine, start: Callable[[NativeBase], Awaitable[NativeMachine]]) -> None:
        self.machine = machine
        self._below = machine.base
        self._start = start
        self._replacing = anyio.Lock(fast_acquire=True)
        self._layer: OverlayLayer | None = None

    async def base(self) -> NativeBase:
        """What a machine on these files starts from: the layers below, and this one on top."""
        if self._layer is None:
            self._layer = await self.machine.into_layer()
        top = self._layer
        trees = tuple(OverlayTree(tree.mountpoint, (top, *tree.layers)) for tree in self._below.trees)
        return replace(self._below, trees=trees)

    async def replace_reader(self) -> None:
        """If the machine that wrote the files was killed for memory or with all others, read them by a fresh one.

        The files take none of its memory: they are charged to the machine that wrote them.
        """
        async with self._replacing:
            if can_be_replaced(self.machine.machine.link.broken):
                fresh = await self._start(await self.base())
                await self.machine.close()
                self.machine = fresh
                await fresh.machine.kill_all(freeze=True)

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind."""
        return await survey_of(await self._ask(lambda machine: machine.list_first_entries(Listing.CHANGED)))

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self._ask(lambda machine: machine.read(path))

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included."""
        return changes_of(await self._ask(lambda machine: machine.list_entries(Listing.CHANGED)))

    async def remove(self) -> None:
        """Drop the layer, if one was made and its zygote still holds it."""
        zygote = self._below.zygote
        if self._layer is not None and not zygote.is_gone:
            await zygote.drop_layer(self._layer)

    async def _ask(self, question: Callable[[Machine], Awaitable[_Answer]]) -> _Answer:
        """Ask the reader. What the agent left may fill its memory, so that it is killed while it reads: then ask a fresh one."""
        try:
            return await question(self.machine.machine)
        except SandboxOutOfMemory:
            await self.replace_reader()
            return await question(self.machine.machine)
