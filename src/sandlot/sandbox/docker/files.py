"""The frozen files of a Docker sandbox: read, listed and compared with the image.

The engine says only which paths may have changed. What is there now is read from the frozen machine, and what was there before
from a machine on the pristine image. So a file whose name is not valid UTF-8, which the engine cannot report, is still found.
"""

import errno
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Survey
from sandlot.sandbox.changes import Change, changes_of, survey_of
from sandlot.sandbox.docker.api import DockerApi
from sandlot.sandbox.docker.machine import MOUNTED, DockerBase, DockerMachine, TouchedPaths, json_name
from sandlot.sandbox.link.machine import Entries, Machine
from sandlot.sandbox.link.wire import Listing, ListingEntry

_RELEASE_S = 5.0
_NOT_LISTED = frozenset({"proc", "dev", "sys"})
_COMPARING_SHARE = 0.5
"""Share of the remaining time that the engine may take to compare, before the paths are counted to see if there are too many."""
_MANY_PATHS = 50_000
"""More new paths than this explain a slow comparison; they are counted and not listed."""
_MANY_FOLDERS = 20_000
"""Folders that are listed, each by one request of about 0.3 ms."""


class DockerFiles:
    """What a machine wrote, after its processes have ended. The image is made when the first machine is started on it."""

    def __init__(self, docker: DockerApi, machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> None:
        self.machine = machine
        self._docker = docker
        self._pristine = pristine
        self._base: DockerBase | None = None
        self._committing = anyio.Lock()

    async def base(self) -> DockerBase:
        """What a machine on these files starts from: an image, committed when first needed."""
        async with self._committing:
            if self._base is None:
                self._base = await self.machine.commit()
            return self._base

    async def survey(self) -> Survey:
        """Everything that is not the image's, with its kind."""
        return await survey_machine(self.machine, self._pristine)

    async def read(self, path: str) -> bytes:
        """One file, the image's included; `FileNotFoundError` if it is not there."""
        return await self.machine.machine.read(path)

    async def diff(self) -> Mapping[str, Change]:
        """Everything that differs from the image, folders and deletions included. The first starts a machine to compare with."""
        before = await self._pristine(self.machine.base)
        touched = await _find_touched(self.machine, self._pristine)
        if touched.left_out:
            raise OSError(errno.EFBIG, f"too many paths differ from the image: {touched.left_out:,} and more are left out")
        entries = (await _list_changes(self.machine.machine, before, touched.paths)).found
        for path, data in (await self.machine.read_mounted()).items():
            if data != MOUNTED[path]:
                (now,) = await self.machine.machine.list_entries(Listing.ITSELF, path)
                entries.append(replace(now, image_kind="f", image_size=len(MOUNTED[path])))
        return changes_of(entries)

    async def remove(self) -> None:
        """Remove the image, if one was made."""
        if self._base is not None:
            # Machines on it are removed, but the engine may still use it for a moment, and sets no event.
            with anyio.move_on_after(_RELEASE_S):
                while not await self._docker.remove_image(self._base.image):  # noqa: ASYNC110
                    await anyio.sleep(0.05)


async def survey_machine(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> Survey:
    """Everything in a machine that is not the image's. Paths that cannot be listed in time are only counted."""
    touched = await _find_touched_in_time(machine, pristine)
    listed = await _list_changes(machine.machine, None, touched.paths, most=_MANY_FOLDERS)
    found = await survey_of(Entries(listed.found, listed.left_out + touched.left_out))
    mounted = {path: len(data) for path, data in (await machine.read_mounted()).items() if data != MOUNTED[path]}
    return msgspec.structs.replace(found, sizes=dict(sorted({**found.sizes, **mounted}.items())))


async def _find_touched_in_time(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> TouchedPaths:
    """The paths that may have changed; if there are too many to compare, only their number."""
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


async def _find_touched(machine: DockerMachine, pristine: Callable[[DockerBase], Awaitable[Machine]]) -> TouchedPaths:
    try:
        return await machine.changed_paths()
    except SandboxError as error:
        if error.kind != "engine":
            raise
    # One path that is too long makes the engine's comparison fail. An agent must not escape grading that way: compare here.
    return machine.add_base_changes(TouchedPaths(await _compare_listings(machine.machine, await pristine(machine.base))))


async def _count_paths(machine: Machine) -> int:
    """The number of paths, counted inside the machine."""
    found, left_out = await machine.list_first_entries(Listing.BELOW, most=1)
    return len(found) + left_out


async def _list_changes(now: Machine, before: Machine | None, paths: Iterable[str], *, most: int | None = None) -> Entries:
    """What is at these paths in the machine `now`, and in `before` if it is given. Links are not followed.

    Without `before`, deleted paths are left out. The engine names a replaced folder once, so its contents are listed here to
    find what is missing. A folder that cannot be listed completely is marked as too deep. At most `most` folders are listed;
    the others are counted.
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
            found.append(ListingEntry(folder, "t", "-", 0, 0, 0, 0, 0, 0))  # too deep to look further
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
    """Paths at which two machines differ in kind, size, time, mode or owner."""
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
    """The wanted names in a folder, and in the folders below it."""


def _names_tree(paths: Iterable[str]) -> _Names:
    root = _Names()
    for path in paths:
        at = root
        for name in filter(None, path.split("/")):
            at = at.setdefault(name, _Names())
    return root


async def _list_children(machine: Machine, folder: str) -> dict[str, ListingEntry] | None:
    """Entries of a folder by name; empty if there is no such folder, None if its path or its listing is too long."""
    try:
        entries = await machine.list_entries(Listing.CHILDREN, folder)
    except OSError as error:
        return None if error.errno in {errno.ENAMETOOLONG, errno.EFBIG} else {}
    return {entry.path.rpartition("/")[2]: entry for entry in entries}


def _merge_entries(path: str, now: ListingEntry | None, before: ListingEntry | None) -> ListingEntry:
    entry = now or ListingEntry(path, "-", "-", 0, 0, 0, 0, 0, 0)
    return replace(entry, image_kind=before.kind if before else "-", image_size=before.size if before else 0)
