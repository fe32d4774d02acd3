"""Folders that appear whole: written beside their place, then put there in one step."""

import ctypes
import os
import secrets
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def swapped_in(path: Path, known: Collection[str]) -> Generator[Path]:
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
