"""What the store asks of the operating system, injected like the clock.

Every write, sync, rename and removal that durability rests on goes through a `Disk`, so that tests can fail or stop at each
one of them. A file is put whole or not at all: written beside its name, synced, renamed, and the folder synced.
"""

import ctypes
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
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


def write_file(path: Path, data: bytes | memoryview, disk: Disk) -> None:
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


_AT_FDCWD = -100


_RENAME_EXCHANGE = 2


@contextmanager
def replace_folder(path: Path, known: Collection[str]) -> Generator[Path]:
    """An empty folder to write into; it takes the place of `path` when the block ends well. A crash leaves what was there.

    A folder with anything in it but files of `known` names is not replaced: `ValueError`.
    """
    path = path.absolute()
    _refuse_foreign(path, known)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    new.mkdir()
    try:
        yield new
        _settle(new)
        if path.exists():
            _exchange(new, path)
        else:
            new.rename(path)
        _sync(path.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _refuse_foreign(path: Path, known: Collection[str]) -> None:
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; name a folder")
    foreign = [file.name for file in path.iterdir() if file.name not in known] if path.exists() else []
    if foreign:
        raise ValueError(f"{path} holds `{min(foreign)}`, which saving would delete; choose another folder")


def _settle(folder: Path) -> None:
    mode = folder.stat().st_mode & 0o666
    for file in folder.iterdir():
        file.chmod(mode)  # some writers make private files
        _sync(file)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders. Where the file system cannot do it at once, the old one is moved away first."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    if rename and rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE) == 0:
        return
    aside = new.with_suffix(".old")
    old.rename(aside)
    new.rename(old)
    aside.rename(new)
