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
from sandlot.sandbox.docker.machine import MOUNTED, DockerBase, DockerMachine, TouchedPaths, json_name
from sandlot.sandbox.link.machine import Entries, Machine
from sandlot.sandbox.link.wire import Listing, ListingEntry
from sandlot.sandbox.native.snapshot import Change, change_of, survey_of

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

    def __init__(self, docker: DockerApi, machine: DockerMachine, below: "DockerFrozen | None") -> None:
        self._docker = docker
        self.machine = machine
        self._below = below.hold() if below is not None else None  # the engine keeps no image whose parent is gone
        self._base: DockerBase | None = None
        self._committing = anyio.Lock()
        self._holders = 1

    async def base(self) -> DockerBase:
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
                while not await self._docker.remove_image(self._base.image):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
        if self._below is not None:
            await self._below.release()


class DockerSnapshot:
    """Files frozen at one moment (port `Snapshot`); readable while its sandbox is open."""

    def __init__(
        self,
        frozen: DockerFrozen,
        fork: "Callable[[DockerFrozen], AbstractAsyncContextManager[DockerSandbox]]",
        pristine: Callable[[DockerBase], Awaitable[Machine]],
    ) -> None:
        self._frozen = frozen
        self._fork = fork
        self._pristine = pristine

    async def list(self) -> Mapping[str, int]:
        """Every file that is not the image's, by absolute path: size in bytes. The image's own files can be read, not listed."""
        return (await self.survey()).sizes

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind."""
        return await _survey_machine(self._frozen.machine, self._pristine)

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self._frozen.machine.machine.read(path)

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included. The first starts a sandbox to compare with."""
        machine = self._frozen.machine
        before = await self._pristine(machine.base)
        touched = await _find_touched(machine, self._pristine)
        if touched.left_out:
            raise OSError(errno.EFBIG, f"too many paths differ from the image: {touched.left_out:,} and more are left out")
        entries = await list_changes(machine.machine, before, touched.paths)
        for path, data in (await machine.read_mounted()).items():
            if data != MOUNTED[path]:
                (now,) = await machine.machine.list_entries(Listing.ITSELF, path)
                entries.append(replace(now, image_kind="f", image_size=len(MOUNTED[path])))
        return {entry.path: change_of(entry) for entry in sorted(entries, key=lambda entry: entry.path)}

    def fork(self) -> "AbstractAsyncContextManager[DockerSandbox]":
        """A sandbox that goes on from these files. Its processes start afresh; forks do not see each other."""
        return self._fork(self._frozen)


async def _survey_machine(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> Survey:
    """Everything in a machine that is not the image's. What is too much to be listed in time is counted."""
    touched = await _find_touched_in_time(machine, pristine)
    listed = await _list_changes(machine.machine, None, touched.paths, most=_MANY_FOLDERS)
    found = await survey_of(Entries(listed.found, listed.left_out + touched.left_out))
    mounted = {path: len(data) for path, data in (await machine.read_mounted()).items() if data != MOUNTED[path]}
    return msgspec.structs.replace(found, sizes={**found.sizes, **mounted})


async def _find_touched_in_time(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> TouchedPaths:
    """None of the paths if an agent left so many that they cannot be compared: only their number."""
    too_long = False
    left_s = anyio.current_effective_deadline() - anyio.current_time()
    try:
        with anyio.move_on_after(left_s * _COMPARING_SHARE):
            return await _find_touched(machine, pristine)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        too_long = True
    extra = await _count_paths(machine.machine) - await _count_paths(await pristine(machine.base))
    if too_long or extra > _MANY_PATHS:
        return TouchedPaths(frozenset(), max(extra, 1))
    return await _find_touched(machine, pristine)


async def changed_sizes(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> Mapping[str, int]:
    """Every file of a machine that is not the image's, by absolute path: size in bytes."""
    return dict(sorted((await _survey_machine(machine, pristine)).sizes.items()))


async def _find_touched(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> TouchedPaths:
    try:
        return await machine.changed_paths()
    except SandboxError as error:
        if error.kind != "engine":
            raise
    # One path too long for the engine ends its comparison. What an agent does must not leave it ungraded: compare ourselves.
    return machine.add_base_changes(TouchedPaths(await _compare_listings(machine.machine, await pristine(machine.base))))


async def _count_paths(machine: Machine) -> int:
    """How many paths there are. They are counted inside."""
    found, left_out = await machine.list_first_entries(Listing.BELOW, most=1)
    return len(found) + left_out


async def list_changes(now: Machine, before: Machine | None, paths: Iterable[str]) -> list[ListingEntry]:
    """What is at these paths now, and before if a machine is given for that; links are never followed."""
    return (await _list_changes(now, before, paths)).found


async def _list_changes(now: Machine, before: Machine | None, paths: Iterable[str], *, most: int | None = None) -> Entries:
    """What is at these paths now, and before if a machine is given for that; links are never followed.

    Without `before`, what is gone is left out. A folder that was replaced whole is named once by the engine: what of the image
    is missing in it is found by looking. A folder that cannot be listed whole is marked as too deep. Folders beyond `most` are
    not looked into, and counted.
    """
    found: list[ListingEntry] = []
    tree = await anyio.to_thread.run_sync(_names_tree, paths)
    waiting: deque[tuple[str, _Names, Machine | None]] = deque([("/", tree, before)])
    num_listed = 0
    while waiting and (most is None or num_listed < most):
        num_listed += 1
        folder, names, elder = waiting.popleft()
        there = await _list_children(now, folder)
        if there is None:
            found.append(_too_deep_entry(folder))
            continue
        past = (await _list_children(elder, folder) or {}) if elder is not None else {}
        for name in sorted({*(name for name in (*there, *past) if json_name(name) in names), *(past.keys() - there.keys())}):
            entry, old = there.get(name), past.get(name)
            path = f"{folder.rstrip('/')}/{name}"
            if (folder == "/" and name in _NOT_LISTED) or path in MOUNTED:
                continue
            found.append(_merge_entries(path, entry, old))
            if entry is not None and entry.kind == "d" and json_name(name) in names:
                waiting.append((path, names[json_name(name)], elder if old is not None and old.kind == "d" else None))
    return Entries(found, len(waiting))


async def _compare_listings(now: Machine, before: Machine) -> frozenset[str]:
    """Paths at which two machines differ by what a listing shows: kind, size, time, mode, owner."""
    seen = [
        {
            (entry.path, entry.kind, entry.size, entry.mtime_ns, entry.mode, entry.uid, entry.gid)
            for entry in await machine.list_entries(Listing.BELOW)
            if entry.path.split("/", 2)[1] not in _NOT_LISTED
        }
        for machine in (now, before)
    ]
    return frozenset(json_name(line[0]) for line in seen[0] ^ seen[1])


class _Names(dict[str, "_Names"]):
    """The names asked for in a folder, and in the folders below it."""


def _names_tree(paths: Iterable[str]) -> _Names:
    root = _Names()
    for path in paths:
        at = root
        for name in filter(None, path.split("/")):
            at = at.setdefault(name, _Names())
    return root


async def _list_children(machine: Machine, folder: str) -> dict[str, ListingEntry] | None:
    """By name; empty where there is no such folder, None where its path or its listing is too long."""
    try:
        entries = await machine.list_entries(Listing.CHILDREN, folder)
    except OSError as error:
        return None if error.errno in {errno.ENAMETOOLONG, errno.EFBIG} else {}
    return {entry.path.rpartition("/")[2]: entry for entry in entries}


def _merge_entries(path: str, now: ListingEntry | None, before: ListingEntry | None) -> ListingEntry:
    nothing = ListingEntry(path, "-", "-", 0, 0, 0, 0, 0, 0)
    entry = now or nothing
    return replace(entry, image_kind=before.kind if before else "-", image_size=before.size if before else 0)


def _too_deep_entry(folder: str) -> ListingEntry:
    return ListingEntry(folder, "t", "-", 0, 0, 0, 0, 0, 0)
