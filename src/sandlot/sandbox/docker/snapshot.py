"""Snapshots of a Docker sandbox: read, listed, compared with the image, and forked.

The engine knows which paths were touched; what is there now is asked of the frozen machine, what was there before of a machine on
the pristine image. So that knowledge is only where to look, and a name it cannot show as text is still found.
"""

import errno
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Survey
from sandlot.sandbox.docker.api import DockerApi
from sandlot.sandbox.docker.machine import MOUNTED, Base, DockerMachine, Touched, shown
from sandlot.sandbox.link.machine import Entries, Machine
from sandlot.sandbox.link.wire import Listing, ListingEntry
from sandlot.sandbox.native.snapshot import Change, survey_of, told

if TYPE_CHECKING:
    from sandlot.sandbox.docker.backend import DockerSandbox

_LET_GO_S = 5.0
_NOT_LISTED = frozenset({"proc", "dev", "sys"})


_COMPARING_SHARE = 0.5
"""How much of the time that is left the engine may take to compare, before it is looked whether an agent left too much."""
_MANY_PATHS = 50_000
"""An agent that left more than these is the reason why the engine takes so long."""
_MANY_FOLDERS = 20_000
"""Folders that are looked into, each by one request of about 0.3 ms."""


class DockerFrozen:
    """A machine with its processes dead, and the image made of what it wrote. Held by everyone who stands on it."""

    def __init__(self, engine: DockerApi, machine: DockerMachine, below: "DockerFrozen | None") -> None:
        self._engine = engine
        self.machine = machine
        self._below = below.hold() if below is not None else None  # the engine keeps no image whose parent is gone
        self._base: Base | None = None
        self._committing = anyio.Lock()
        self._holders = 1

    async def base(self) -> Base:
        """What others can start from; committed when the first one asks."""
        async with self._committing:
            if self._base is None:
                self._base = await self.machine.commit()
            return self._base

    def hold(self) -> "DockerFrozen":
        """One more stands on it."""
        self._holders += 1
        return self

    async def release(self) -> None:
        """One less; the last one lets the image go."""
        self._holders -= 1
        if self._holders:
            return
        if self._base is not None:
            # What stood on it is removed, but the engine may not have let go of it yet; there is nobody to set an event.
            with anyio.move_on_after(_LET_GO_S):
                while not await self._engine.remove_image(self._base.image):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
        if self._below is not None:
            await self._below.release()


class DockerSnapshot:
    """Files frozen at one moment (port `Snapshot`); readable while its sandbox is open."""

    def __init__(
        self,
        frozen: DockerFrozen,
        fork: "Callable[[DockerFrozen], AbstractAsyncContextManager[DockerSandbox]]",
        pristine: Callable[[Base], Awaitable[Machine]],
    ) -> None:
        self._frozen = frozen
        self._fork = fork
        self._pristine = pristine

    async def list(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes. The image's own files can be read, not listed."""
        return (await self.survey()).sizes

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind."""
        return await _survey(self._frozen.machine, self._pristine)

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self._frozen.machine.machine.read(path)

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included. The first starts a sandbox to compare with."""
        machine = self._frozen.machine
        before = await self._pristine(machine.base)
        touched = await _touched(machine, self._pristine)
        if touched.left_out:
            raise OSError(errno.EFBIG, f"too many paths differ from the image: {touched.left_out:,} and more are left out")
        entries = await changed(machine.machine, before, touched.paths)
        for path, data in (await machine.mounted()).items():
            if data != MOUNTED[path]:
                (now,) = await machine.machine.entries(Listing.ITSELF, path)
                entries.append(replace(now, image_kind="f", image_size=len(MOUNTED[path])))
        return {entry.path: told(entry) for entry in sorted(entries, key=lambda entry: entry.path)}

    def fork(self) -> "AbstractAsyncContextManager[DockerSandbox]":
        """A sandbox that goes on from these files. Its processes start afresh; forks do not see each other."""
        return self._fork(self._frozen)


async def _survey(machine: DockerMachine, pristine: Callable[[Base], Awaitable[Machine]]) -> Survey:
    """Everything in a machine that is not the image's. What is too much to be listed in time is counted."""
    touched = await _touched_in_time(machine, pristine)
    listed = await _changed(machine.machine, None, touched.paths, most=_MANY_FOLDERS)
    found = await survey_of(Entries(listed.found, listed.left_out + touched.left_out))
    mounted = {path: len(data) for path, data in (await machine.mounted()).items() if data != MOUNTED[path]}
    return msgspec.structs.replace(found, sizes={**found.sizes, **mounted})


async def _touched_in_time(machine: DockerMachine, pristine: Callable[[Base], Awaitable[Machine]]) -> Touched:
    """None of the paths if an agent left so many that they cannot be compared: only their number."""
    too_long = False
    left_s = anyio.current_effective_deadline() - anyio.current_time()
    try:
        with anyio.move_on_after(left_s * _COMPARING_SHARE):
            return await _touched(machine, pristine)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        too_long = True
    extra = await _count(machine.machine) - await _count(await pristine(machine.base))
    if too_long or extra > _MANY_PATHS:
        return Touched(frozenset(), max(extra, 1))
    return await _touched(machine, pristine)


async def written(machine: DockerMachine, pristine: Callable[[Base], Awaitable[Machine]]) -> Mapping[str, int]:
    """Every file of a machine that is not the image's, by absolute path: size in bytes."""
    return dict(sorted((await _survey(machine, pristine)).sizes.items()))


async def _touched(machine: DockerMachine, pristine: Callable[[Base], Awaitable[Machine]]) -> Touched:
    try:
        return await machine.changed_paths()
    except SandboxError as error:
        if error.kind != "engine":
            raise
    # One path too long for the engine ends its comparison. What an agent does must not leave it ungraded: compare ourselves.
    return machine.besides(Touched(await _differing(machine.machine, await pristine(machine.base))))


async def _count(machine: Machine) -> int:
    """How many paths there are. They are counted inside."""
    found, left_out = await machine.first_entries(Listing.BELOW, most=1)
    return len(found) + left_out


async def changed(now: Machine, before: Machine | None, paths: Iterable[str]) -> list[ListingEntry]:
    """What is at these paths now, and before if a machine is given for that; links are never followed."""
    return (await _changed(now, before, paths)).found


async def _changed(now: Machine, before: Machine | None, paths: Iterable[str], *, most: int | None = None) -> Entries:
    """What is at these paths now, and before if a machine is given for that; links are never followed.

    Without `before`, what is gone is left out. A folder that was replaced whole is named once by the engine: what of the image
    is missing in it is found by looking. A folder that cannot be listed whole is marked as too deep. Folders beyond `most` are
    not looked into, and counted.
    """
    found: list[ListingEntry] = []
    tree = await anyio.to_thread.run_sync(_tree, paths)
    waiting: deque[tuple[str, _Names, Machine | None]] = deque([("/", tree, before)])
    num_listed = 0
    while waiting and (most is None or num_listed < most):
        num_listed += 1
        folder, names, elder = waiting.popleft()
        there = await _children(now, folder)
        if there is None:
            found.append(_too_deep(folder))
            continue
        past = (await _children(elder, folder) or {}) if elder is not None else {}
        for name in sorted({*(name for name in (*there, *past) if shown(name) in names), *(past.keys() - there.keys())}):
            entry, old = there.get(name), past.get(name)
            path = f"{folder.rstrip('/')}/{name}"
            if (folder == "/" and name in _NOT_LISTED) or path in MOUNTED:
                continue
            found.append(_joined(path, entry, old))
            if entry is not None and entry.kind == "d" and shown(name) in names:
                waiting.append((path, names[shown(name)], elder if old is not None and old.kind == "d" else None))
    return Entries(found, len(waiting))


async def _differing(now: Machine, before: Machine) -> frozenset[str]:
    """Paths at which two machines differ by what a listing shows: kind, size, time, mode, owner."""
    seen = [
        {
            (entry.path, entry.kind, entry.size, entry.mtime_ns, entry.mode, entry.uid, entry.gid)
            for entry in await machine.entries(Listing.BELOW)
            if entry.path.split("/", 2)[1] not in _NOT_LISTED
        }
        for machine in (now, before)
    ]
    return frozenset(shown(line[0]) for line in seen[0] ^ seen[1])


class _Names(dict[str, "_Names"]):
    """The names asked for in a folder, and in the folders below it."""


def _tree(paths: Iterable[str]) -> _Names:
    root = _Names()
    for path in paths:
        at = root
        for name in filter(None, path.split("/")):
            at = at.setdefault(name, _Names())
    return root


async def _children(machine: Machine, folder: str) -> dict[str, ListingEntry] | None:
    """By name; empty where there is no such folder, None where its path or its listing is too long."""
    try:
        entries = await machine.entries(Listing.CHILDREN, folder)
    except OSError as error:
        return None if error.errno in {errno.ENAMETOOLONG, errno.EFBIG} else {}
    return {entry.path.rpartition("/")[2]: entry for entry in entries}


def _joined(path: str, now: ListingEntry | None, before: ListingEntry | None) -> ListingEntry:
    nothing = ListingEntry(path, "-", "-", 0, 0, 0, 0, 0, 0)
    entry = now or nothing
    return replace(entry, image_kind=before.kind if before else "-", image_size=before.size if before else 0)


def _too_deep(folder: str) -> ListingEntry:
    return ListingEntry(folder, "t", "-", 0, 0, 0, 0, 0, 0)
