"""Append-only files of lines for several writers; a line is durable when `append_line` returns.

If a crash cut off a line, the next one starts on a new line. A link is refused: a run from elsewhere may point it at a file of
the user's.
"""

import fcntl
import os
from pathlib import Path

from sandlot.core.disk import DISK, Disk, sync_folder, write_all
from sandlot.core.errors import StoreError, boundary


def append_line(path: Path, line: bytes, disk: Disk = DISK) -> None:
    """Append one line, durably. Concurrent writers wait for each other."""
    if b"\n" in line:
        raise ValueError("the line has a newline in it; encode it")
    with boundary(StoreError, f"`{path}` could not be written"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # released with the descriptor
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, (b"\n" if torn else b"") + line + b"\n", disk)
            disk.sync(fd)
        finally:
            os.close(fd)
        if not size:
            sync_folder(path.parent, disk)


def read_lines(path: Path) -> list[bytes]:
    """All lines, the last one even if a crash cut it off; empty if there is no file."""
    with boundary(StoreError, f"`{path}` could not be read"):
        return path.read_bytes().split(b"\n") if path.exists() else []
