"""An append-only file of records, durable before `append` returns, with many appends sharing one sync.

The file is a 16-byte opening and then *frames*; a frame is everything one sync made durable: a head (magic, length, checksum of
the body, checksum of the head) and a body of tagged records. A frame is written only after the one before it is durable, so

- a bad frame with nothing after it is a torn tail: nobody was told it was kept, and it is cut off;
- a bad frame with anything of ours after it is corruption, and refused by name and offset, never skipped.

The head's checksum covers the file's random salt and the head's own offset: bytes of another log inside a record are never
taken for a frame of this one.
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
"""A frame that has reached this takes no more records; the next ones wait for the next sync."""
_MAX_RECORD_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class Record:
    """One payload, and where in the file it begins."""

    tag: int
    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file holds: the records of its good frames, where they end, and what was torn."""

    records: list[Record]
    salt: int | None
    """None: not even the opening is there yet."""
    end: int
    torn_bytes: int


def read_frames(path: Path) -> Scan:
    """Read a file that may be growing or torn at its end; `StoreError` where it is broken in the middle."""
    return scan(path.read_bytes(), str(path))


def scan(data: bytes, name: str) -> Scan:
    """The same of bytes in hand."""
    if len(data) < _OPENING.size or not any(data):
        return Scan(records=[], salt=None, end=0, torn_bytes=len(data))
    magic, version, salt = _OPENING.unpack_from(data)
    if magic != _FILE_MAGIC:
        raise StoreError(f"`{name}` is not a log of Sandlot: it begins with {data[:8]!r}", kind="corrupt")
    if version != _FORMAT:
        raise StoreError(f"`{name}` has format {version}; this Sandlot reads format {_FORMAT}", kind="format")
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
        f"`{name}` is corrupt at byte {offset}, and there are records after it: restore the file from a copy, "
        "or move it away to lose what it holds",
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
    """Where the frame at `offset` ends; None if there is no whole frame."""
    if not _has_head(data, offset, salt):
        return None
    end = offset + HEAD_BYTES + _HEAD.unpack_from(data, offset)[1]
    return end if end <= len(data) else None


def _head_after(data: bytes, offset: int, salt: int) -> bool:
    """True if a frame was begun anywhere after a bad one at `offset`."""
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
    """A whole file of these (tag, payload), for putting in the place of another."""
    opening, salt = _new_opening()
    pieces, size = [opening], len(opening)
    for tag, payload in records:
        pieces.append(_frame_bytes(_RECORD.pack(tag, len(payload)) + payload, salt, size))
        size += len(pieces[-1])
    return b"".join(pieces)


def recover(path: Path, disk: Disk = DISK) -> Scan:
    """Read a file for going on with it: the torn tail is cut off, and what is left is durable when this returns."""
    found = read_frames(path)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if found.torn_bytes:
            disk.truncate(fd, found.end)
        disk.sync(fd)  # whole frames may have been written by a process that died before its own sync
    finally:
        os.close(fd)
    return found


@dataclass(eq=False, slots=True)
class _Frame:
    """Records that will share one sync; the one who opened it writes it."""

    pieces: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    offset: int | None = None
    """Where its body begins, once it is durable."""

    def add(self, tag: int, payload: bytes) -> int:
        self.pieces += (_RECORD.pack(tag, len(payload)), payload)
        start = self.size + _RECORD.size
        self.size = start + len(payload)
        return start


class FrameLog:
    """The writing end of one file, for one process. After a failed write nothing more is taken: the error is final."""

    def __init__(self, path: Path, *, after: Scan | None = None, disk: Disk = DISK) -> None:
        self.path = path
        self.num_records = len(after.records) if after else 0
        """Durable ones."""
        self._end = after.end if after else 0
        self._salt = after.salt if after else None
        self._disk = disk
        self._fd: int | None = None
        self._open: _Frame | None = None
        self._turn = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)  # its own, so that author code can never starve the store of threads
        self._failed: str | None = None

    @property
    def size_bytes(self) -> int:
        """What is durable."""
        return self._end

    @property
    def failed(self) -> bool:
        """True if a write failed: what was acknowledged is there, the rest is not promised."""
        return self._failed is not None

    async def append(self, tag: int, payload: bytes) -> int:
        """Returns where the payload begins in the file, when it is durable; `StoreError` if it is not.

        Cancellation waits until the answer is known: a record is never half promised.
        """
        if len(payload) > _MAX_RECORD_BYTES:
            raise StoreError(f"`{self.path}`: a record of {len(payload)} bytes; the most is {_MAX_RECORD_BYTES}", kind="too_big")
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
        """Wait for the frame before this one; whoever appends meanwhile joins."""
        try:
            async with self._turn:
                if self._open is frame:
                    self._open = None
                if self._failed is None:
                    with boundary(StoreError, f"`{self.path}` could not be written"):
                        await anyio.to_thread.run_sync(self._write, frame, limiter=self._thread)
        except StoreError as error:
            self._failed = f"{error}; nothing more is taken. Free the disk and run the same command again"
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
        """Returns when every append made before is answered. Appending afterwards is an error."""
        with anyio.CancelScope(shield=True):
            async with self._turn:  # first come, first served: the frames opened before are written before
                self._failed = self._failed or f"`{self.path}` is closed"
                fd, self._fd = self._fd, None
                if fd is not None:
                    os.close(fd)
