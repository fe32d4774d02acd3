"""Snapshots of a native sandbox: read, listed, compared with the image, and forked."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import SandboxOutOfMemory
from sandlot.core.ports.sandbox import Survey
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.machine import Entries, Machine
from sandlot.sandbox.link.wire import Listing, ListingEntry
from sandlot.sandbox.native.zygote import OverlayLayer, OverlayTree, Zygote

if TYPE_CHECKING:
    from sandlot.sandbox.native.backend import NativeSandbox

Answer = TypeVar("Answer")
_StartMachine = Callable[[tuple[OverlayTree, ...], CommandDefaults], Awaitable[Machine]]

_KINDS = {"f": "file", "d": "folder", "l": "link", "o": "other", "t": "too deep", "-": "nothing"}
_SORTED_ON_LOOP = 2000
"""Entries of a listing that are sorted on the event loop; more are sorted in a thread."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How one path differs from the image."""

    before: str
    """What the image has there: file, folder, link, other, nothing."""
    after: str
    """What is there now; `too deep` for a folder that was not looked into."""
    size_before: int
    size: int
    mode: int
    mtime_ns: int


def change_of(entry: ListingEntry) -> Change:
    """A line of a CHANGED listing as a person reads it."""
    return Change(
        before=_KINDS.get(entry.image_kind, "other"),
        after=_KINDS.get(entry.kind, "other"),
        size_before=entry.image_size,
        size=entry.size,
        mode=entry.mode & 0o7777,
        mtime_ns=entry.mtime_ns,
    )


async def survey_of(entries: Entries) -> Survey:
    """A CHANGED listing by kind, sorted. Long ones are sorted in a thread, so that other rollouts go on."""
    if len(entries.found) <= _SORTED_ON_LOOP:
        return _survey(entries)
    return await anyio.to_thread.run_sync(_survey, entries)


def _survey(entries: Entries) -> Survey:
    """Each path once: a path in several layers is reported by each of them with the same, merged answer."""
    found = {entry.path: entry for entry in sorted(entries.found, key=lambda entry: entry.path)}
    return Survey(
        sizes={path: entry.size for path, entry in found.items() if entry.kind == "f"},
        kinds={path: _KINDS["d" if entry.kind == "t" else entry.kind] for path, entry in found.items() if entry.kind in "dlot"},
        left_out=entries.left_out + sum(entry.kind == "t" for entry in found.values()),
    )


class NativeFrozen:
    """A machine with its processes dead, and the layer made of what it wrote. Held by everyone who stands on it."""

    def __init__(self, machine: Machine, below: tuple[OverlayTree, ...], zygote: Zygote, start: _StartMachine) -> None:
        self.machine = machine
        self._below = below
        self._zygote = zygote
        self._start = start
        self._replacing = anyio.Lock(fast_acquire=True)
        self._layer: OverlayLayer | None = None
        self._holders = 1

    async def trees(self) -> tuple[OverlayTree, ...]:
        """The stack with this layer on top; the layer is made when the first one asks."""
        if self._layer is None:
            self._layer = await self.machine.into_layer(self._zygote)
        top = self._layer
        return tuple(OverlayTree(tree.mountpoint, (top, *tree.layers)) for tree in self._below)

    async def replace_reader(self) -> None:
        """If the machine that wrote the files was killed for memory, read them by a fresh one.

        The files take none of its memory: they are charged to the machine that wrote them.
        """
        async with self._replacing:
            if isinstance(self.machine.link.broken, SandboxOutOfMemory):
                fresh = await self._start(await self.trees(), self.machine.defaults)
                await self.machine.close()
                self.machine = fresh
                await fresh.kill_all(freeze=True)

    async def ask(self, question: Callable[[Machine], Awaitable[Answer]]) -> Answer:
        """What the reader answers. What the agent left may fill its memory, so that it is killed while it reads."""
        try:
            return await question(self.machine)
        except SandboxOutOfMemory:
            await self.replace_reader()
            return await question(self.machine)

    def hold(self) -> "NativeFrozen":
        """One more stands on it."""
        self._holders += 1
        return self

    async def release(self) -> None:
        """One less; the last one lets the layer go."""
        self._holders -= 1
        if self._holders == 0 and self._layer is not None:
            await self._zygote.drop_layer(self._layer)


class NativeSnapshot:
    """Files frozen at one moment (port `Snapshot`); readable while its sandbox is open."""

    def __init__(
        self, frozen: NativeFrozen, fork: "Callable[[NativeFrozen], AbstractAsyncContextManager[NativeSandbox]]"
    ) -> None:
        self._frozen = frozen
        self._fork = fork

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind. The image's own files can be read, and are not listed."""
        return await survey_of(await self._frozen.ask(lambda machine: machine.list_first_entries(Listing.CHANGED)))

    async def list(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes. The image's own files can be read, not listed."""
        return (await self.survey()).sizes

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self._frozen.ask(lambda machine: machine.read(path))

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included."""
        return {entry.path: change_of(entry) for entry in await self._changed()}

    def fork(self) -> "AbstractAsyncContextManager[NativeSandbox]":
        """A sandbox that goes on from these files. Its processes start afresh; forks do not see each other."""
        return self._fork(self._frozen)

    async def _changed(self) -> "list[ListingEntry]":
        """Sorted, each path once: a path in several layers is reported by each of them with the same, merged answer."""
        entries = await self._frozen.ask(lambda machine: machine.list_entries(Listing.CHANGED))
        return sorted({entry.path: entry for entry in entries if entry.kind in _KINDS}.values(), key=lambda entry: entry.path)
