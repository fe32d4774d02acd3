"""An append-only file of records. `append` returns when the record is durable; many appends share one sync.

The file has a 16-byte header and then *frames*; a frame is what one sync made durable: a head (magic, length, checksum of the
body, checksum of the head) and a body of tagged records. A frame is written only after the one before it is durable, so

- a bad frame with nothing after it is a torn tail: its `append` never returned, and it is cut off;
- a bad frame with another frame after it is corruption: an error with file name and offset.

The head's checksum covers the file's random salt and the head's own offset, so the bytes of another log inside a record are never
taken for a frame.
"""

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import anyio
import anyio.to_thread

from sandlot.core.disk import DISK, Disk, sync_folder, write_all
from sandlot.core.errors import StoreError, boundary

_OPENING = struct.Struct("<7sBQ")  # magic, format, salt
_HEAD = struct.Struct("<4sII")  # magic, length of the body, checksum of the body
_CHECK = struct.Struct("<I")  # checksum of the head
_RECORD = struct.Struct("<BI")  # tag, length
_PLACE = struct.Struct("<QQ")  # salt, offset

_FILE_MAGIC = b"sandlot"
_FRAME_MAGIC = b"\xf5SLF"
_FORMAT = 1
HEAD_BYTES = _HEAD.size + _CHECK.size
FRAME_BYTES = 32 * 2**20
"""A frame of this size takes no more records; further ones go into the next frame."""
_MAX_RECORD_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class Record:
    """One payload and its offset in the file."""

    tag: int
    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of a file: the records of its valid frames, where they end, and the torn bytes after them."""

    records: list[Record]
    salt: int | None
    """None if the header is not complete."""
    end: int
    torn_bytes: int


def read_frames(path: Path) -> Scan:
    """Read a file that may be growing or torn at its end; `StoreError` if it is corrupt in the middle."""
    return scan(path.read_bytes(), str(path))


def scan(data: bytes, name: str) -> Scan:
    """The same for bytes."""
    if len(data) < _OPENING.size or not any(data):
        return Scan(records=[], salt=None, end=0, torn_bytes=len(data))
    magic, version, salt = _OPENING.unpack_from(data)
    if magic != _FILE_MAGIC:
        raise StoreError(f"`{name}` is not a log of Sandlot: it begins with {data[:8]!r}", kind="corrupt")
    if version != _FORMAT:
        raise StoreError(f"`{name}` has format {version}; this version of Sandlot reads format {_FORMAT}", kind="format")
    records: list[Record] = []
    view = memoryview(data)
    offset = _OPENING.size
    while (end := _frame_end(data, offset, salt)) is not None:
        if crc32(view[offset + HEAD_BYTES : end]) != _HEAD.unpack_from(data, offset)[2]:
            if end < len(data):
                raise _corrupt(name, offset)
            break
        records += _records(view, offset + HEAD_BYTES, end)
        offset = end
    if _head_after(data, offset, salt):
        raise _corrupt(name, offset)
    return Scan(records=records, salt=salt, end=offset, torn_bytes=len(data) - offset)


def _corrupt(name: str, offset: int) -> StoreError:
    return StoreError(
        f"`{name}` is corrupt at byte {offset}, with records after it; restore the file from a copy, "
        "or move it away and lose its records",
        kind="corrupt",
    )


def _head_check(head: bytes, salt: int, offset: int) -> int:
    return crc32(head, crc32(_PLACE.pack(salt, offset)))


def _has_head(data: bytes, offset: int, salt: int) -> bool:
    check_at = offset + _HEAD.size
    if check_at + _CHECK.size > len(data) or data[offset : offset + 4] != _FRAME_MAGIC:
        return False
    return _CHECK.unpack_from(data, check_at)[0] == _head_check(data[offset:check_at], salt, offset)


def _frame_end(data: bytes, offset: int, salt: int) -> int | None:
    """The end of the frame at `offset`; None if there is no complete frame."""
    if not _has_head(data, offset, salt):
        return None
    end = offset + HEAD_BYTES + _HEAD.unpack_from(data, offset)[1]
    return end if end <= len(data) else None


def _head_after(data: bytes, offset: int, salt: int) -> bool:
    """True if there is the head of a frame after a bad one at `offset`."""
    at = data.find(_FRAME_MAGIC, offset + 1)
    while at >= 0 and not _has_head(data, at, salt):
        at = data.find(_FRAME_MAGIC, at + 1)
    return at >= 0


def _records(view: memoryview, start: int, end: int) -> list[Record]:
    records: list[Record] = []
    while start < end:
        tag, length = _RECORD.unpack_from(view, start)
        start += _RECORD.size
        records.append(Record(tag, start, view[start : start + length]))
        start += length
    return records


def _new_opening() -> tuple[bytes, int]:
    salt = int.from_bytes(os.urandom(8), "little")
    return _OPENING.pack(_FILE_MAGIC, _FORMAT, salt), salt


def _frame_bytes(body: bytes, salt: int, offset: int) -> bytes:
    head = _HEAD.pack(_FRAME_MAGIC, len(body), crc32(body))
    return b"".join((head, _CHECK.pack(_head_check(head, salt, offset)), body))


def encode_frames(records: Iterable[tuple[int, bytes]]) -> bytes:
    """The bytes of a file with these (tag, payload) records."""
    opening, salt = _new_opening()
    pieces, size = [opening], len(opening)
    for tag, payload in records:
        pieces.append(_frame_bytes(_RECORD.pack(tag, len(payload)) + payload, salt, size))
        size += len(pieces[-1])
    return b"".join(pieces)


def recover(path: Path, disk: Disk = DISK) -> Scan:
    """Read a file to append to it: cuts off the torn tail, and syncs the rest."""
    found = read_frames(path)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if found.torn_bytes:
            disk.truncate(fd, found.end)
        disk.sync(fd)  # a process may have ended after its write and before its sync
    finally:
        os.close(fd)
    return found


@dataclass(eq=False, slots=True)
class _Frame:
    """Records that share one sync; the task that opened the frame writes it."""

    pieces: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    offset: int | None = None
    """The offset of its body, once durable."""

    def add(self, tag: int, payload: bytes) -> int:
        self.pieces += (_RECORD.pack(tag, len(payload)), payload)
        start = self.size + _RECORD.size
        self.size = start + len(payload)
        return start


class FrameLog:
    """Appends to one file, from one process. After a failed write every further append fails."""

    def __init__(self, path: Path, *, after: Scan | None = None, disk: Disk = DISK) -> None:
        self.path = path
        self.num_records = len(after.records) if after else 0
        """Durable records."""
        self._end = after.end if after else 0
        self._salt = after.salt if after else None
        self._disk = disk
        self._fd: int | None = None
        self._open: _Frame | None = None
        self._turn = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)  # its own, so that author code cannot take all threads
        self._failed: str | None = None

    @property
    def size_bytes(self) -> int:
        """Durable bytes."""
        return self._end

    @property
    def failed(self) -> bool:
        """True if a write failed. Records whose `append` returned are durable."""
        return self._failed is not None

    async def append(self, tag: int, payload: bytes) -> int:
        """Append a record and return its offset when it is durable; `StoreError` if the write failed.

        Cancellation takes effect only when the result is known.
        """
        if len(payload) > _MAX_RECORD_BYTES:
            raise StoreError(
                f"`{self.path}`: a record of {len(payload):,} bytes; the limit is {_MAX_RECORD_BYTES:,}", kind="too_big"
            )
        if self._failed:
            raise StoreError(self._failed, kind="write")
        frame, first = self._open, False
        if frame is None or frame.size >= FRAME_BYTES:
            frame, first = _Frame(), True
            self._open = frame
        start = frame.add(tag, payload)
        with anyio.CancelScope(shield=True):
            if first:
                await self._write_in_turn(frame)
            else:
                await frame.done.wait()
        if frame.offset is None:
            raise StoreError(self._failed or f"`{self.path}` was not written", kind="write")
        return frame.offset + start

    async def _write_in_turn(self, frame: _Frame) -> None:
        """Wait for the frame before this one, then write. Appends meanwhile join the frame."""
        try:
            async with self._turn:
                if self._open is frame:
                    self._open = None
                if self._failed is None:
                    with boundary(StoreError, f"`{self.path}` could not be written"):
                        await anyio.to_thread.run_sync(self._write, frame, limiter=self._thread)
        except StoreError as error:
            self._failed = f"{error}; nothing more is written. Free disk space and run the same command again"
        finally:
            frame.done.set()

    def _write(self, frame: _Frame) -> None:
        opening = b""
        if self._salt is None:
            opening, self._salt = _new_opening()
        fd = self._descriptor()
        offset = self._end + len(opening)
        data = _frame_bytes(b"".join(frame.pieces), self._salt, offset)
        write_all(fd, opening + data, self._disk)
        self._disk.sync(fd)
        if opening:
            sync_folder(self.path.parent, self._disk)
        self._end = offset + len(data)
        self.num_records += len(frame.pieces) // 2
        frame.offset = offset + HEAD_BYTES

    def _descriptor(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        return self._fd

    async def close(self) -> None:
        """Returns when every earlier append has finished. Appending afterwards is an error."""
        with anyio.CancelScope(shield=True):
            async with self._turn:  # a fair lock: frames opened before are written first
                self._failed = self._failed or f"`{self.path}` is closed"
                fd, self._fd = self._fd, None
                if fd is not None:
                    os.close(fd)
