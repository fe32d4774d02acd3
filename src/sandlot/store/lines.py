"""Files of lines that several people add to: append-only, durable before `append_line` returns, readable after any crash.

A line that a crash cut off stays where it is and never takes the next one with it: what is appended begins on a line of its own.
"""

import fcntl
import os
from pathlib import Path

from sandlot.core.disk import DISK, Disk, sync_folder, write_all
from sandlot.core.errors import StoreError, boundary


def append_line(path: Path, line: bytes, disk: Disk = DISK) -> None:
    """Add one line, on disk when this returns. Others who add at the same time wait their turn."""
    if b"\n" in line:
        raise ValueError("a line holds no newline; encode it")
    with boundary(StoreError, f"`{path}` could not be written"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # goes with the descriptor; held for one write
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, (b"\n" if torn else b"") + line + b"\n", disk)
            disk.sync(fd)
        finally:
            os.close(fd)
        if not size:
            sync_folder(path.parent, disk)


def read_lines(path: Path) -> list[bytes]:
    """Every line there is, the last one also if a crash cut it off; none if there is no file."""
    with boundary(StoreError, f"`{path}` could not be read"):
        return path.read_bytes().split(b"\n") if path.exists() else []
