"""Files and folders written whole or not at all, and the system calls that this needs.

`write_file` and `replace_folder` write beside the target, sync and rename: after a crash the target is complete, either old or
new. Every write, sync, rename and removal of a file goes through a `Disk`, so that tests can fail or stop at each of them.
"""

import ctypes
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DRAFT = ".tmp"
"""The suffix of files that are being written. One that a crash leaves behind can be removed."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The system calls that write files. Tests replace them."""

    write: Callable[[int, memoryview], int] = os.write
    sync: Callable[[int], None] = os.fdatasync
    rename: Callable[[Path, Path], None] = os.replace
    remove: Callable[[Path], None] = os.unlink
    truncate: Callable[[int, int], None] = os.ftruncate


DISK = Disk()


def write_all(fd: int, data: bytes | memoryview, disk: Disk) -> None:
    """Write every byte; one system call may write only a part."""
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
    """Create a folder and its parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent, disk)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent, disk)


def write_file(path: Path, data: bytes | memoryview, disk: Disk = DISK, *, durable: bool = True) -> None:
    """Write a file, or replace it: after a crash it has the old bytes or the new ones, complete. Its folder must exist.

    Several processes may write the same file; the last one wins. With `durable`, the new bytes are on disk when this returns;
    without, a power failure may lose them.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, data, disk)
            if durable:
                disk.sync(fd)
        finally:
            os.close(fd)
        disk.rename(draft, path)
    except OSError:
        with suppress(OSError):  # on a full disk, do not keep the part that did fit
            disk.remove(draft)
        raise
    if durable:
        sync_folder(path.parent, disk)


_FOLDER_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}" + re.escape(DRAFT))
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MANY = 1_000
"""Beyond so many paths, one call for the whole file system takes less time than one for each: an import may have 100,000."""


@contextmanager
def replace_folder(path: Path, known: Collection[str]) -> Generator[Path]:
    """Yield an empty folder to write into; it replaces `path` when the block ends without an error. A crash leaves the old one.

    `ValueError` if `path` holds anything but entries with `known` names: they would be deleted.
    """
    path = path.absolute()
    _refuse_foreign(path, known)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    new.mkdir()
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: then no draft is taken for one that was left
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield new
        _settle(new)
        if path.exists():
            _exchange(new, path)
        else:
            new.rename(path)
        _sync(path.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        os.close(lock)


def folder_drafts(folder: Path) -> list[Path]:
    """Drafts of `replace_folder` in a folder that nobody writes any more: their writer was killed."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _FOLDER_DRAFT.fullmatch(path.name) and _is_left(path))


def _is_left(draft: Path) -> bool:
    if draft.is_symlink() or not draft.is_dir():
        return False
    try:
        descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # it is gone, or somebody else's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _refuse_foreign(path: Path, known: Collection[str]) -> None:
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; name a folder")
    foreign = [file.name for file in path.iterdir() if file.name not in known] if path.exists() else []
    if foreign:
        raise ValueError(f"{path} holds `{min(foreign)}`, which would be deleted; choose another folder")


def _settle(folder: Path) -> None:
    mode = folder.stat().st_mode & 0o666
    paths = list(folder.rglob("*"))
    for path in paths:
        if path.is_file():
            path.chmod(mode | path.stat().st_mode & 0o111)  # some writers create private files
    if len(paths) > _MANY and _sync_file_system(folder):
        return
    for path in (*paths, folder):
        _sync(path)


def _sync_file_system(folder: Path) -> bool:
    """Bring all that was written to this folder's file system to the disk. False if that failed, or where no call does so."""
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return sync is not None and sync(descriptor) == 0
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders. Where the file system cannot do so in one step, the old one is moved away first."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    if rename and rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE) == 0:
        return
    aside = new.with_suffix(".old")
    old.rename(aside)
    new.rename(old)
    aside.rename(new)
