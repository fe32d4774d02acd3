"""What the store asks of the operating system, injected like the clock.

Every write, sync, rename and removal that durability rests on goes through a `Disk`, so that tests can fail or stop at each
one of them. A file is put whole or not at all: written beside its name, synced, renamed, and the folder synced.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DRAFT = ".tmp"
"""The ending of files that are being written; one left behind by a crash means nothing."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The operations that make things durable."""

    write: Callable[[int, memoryview], int] = os.write
    sync: Callable[[int], None] = os.fdatasync
    rename: Callable[[Path, Path], None] = os.replace
    remove: Callable[[Path], None] = os.unlink
    truncate: Callable[[int, int], None] = os.ftruncate


DISK = Disk()


def write_all(fd: int, data: bytes | memoryview, disk: Disk) -> None:
    """Write every byte; the system may take several bites."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(fd, rest) :]


def sync_folder(folder: Path, disk: Disk) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.sync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path, disk: Disk) -> None:
    """Make a folder, with those above it, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent, disk)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent, disk)


def put_file(path: Path, data: bytes | memoryview, disk: Disk) -> None:
    """Put a whole file under its name, durable when this returns; at any crash the name has all of it or none."""
    draft = path.with_name(path.name + DRAFT)
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, data, disk)
            disk.sync(fd)
        finally:
            os.close(fd)
        disk.rename(draft, path)
    except OSError:
        with suppress(OSError):  # a full disk should not also keep the half that did not fit
            disk.remove(draft)
        raise
    sync_folder(path.parent, disk)
