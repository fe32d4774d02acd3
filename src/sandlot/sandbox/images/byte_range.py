"""Bounds-checked byte ranges of an open file: archives and layers are read through them."""

import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

from sandlot.core.errors import ConfigError


def bad_archive(why: str) -> ConfigError:
    """The error for an archive that is damaged or malicious."""
    return ConfigError(why, kind="config")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A byte range of an open file. Reading uses no file position, so several readers can share the file."""

    fd: int
    start: int
    size: int

    def read(self, at: int, length: int) -> bytes:
        """Exactly these bytes, or `ConfigError`."""
        if at < 0 or length < 0 or at + length > self.size:
            raise bad_archive(f"the archive is truncated: it ends at byte {self.size}, but an entry ends at {at + length}")
        data = os.pread(self.fd, length, self.start + at)
        if len(data) != length:
            raise bad_archive(f"the archive was shortened while it was read, at byte {at}")
        return data

    def part(self, at: int, size: int) -> "ByteRange":
        """A range within this one."""
        self.read(at + size, 0)
        return ByteRange(self.fd, self.start + at, size)

    def chunks(self) -> Iterator[bytes]:
        """All bytes, in pieces."""
        for at in range(0, self.size, 1 << 20):
            yield self.read(at, min(1 << 20, self.size - at))

    def digest(self) -> str:
        """The digest of all bytes."""
        whole = hashlib.sha256()
        for chunk in self.chunks():
            whole.update(chunk)
        return f"sha256:{whole.hexdigest()}"


class ByteRangeFile(io.RawIOBase):
    """A byte range as a file, for decompressors."""

    def __init__(self, data: ByteRange) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - typeshed's Buffer is 3.12
        """The next bytes."""
        data = self._data.read(self._at, min(len(buffer), self._data.size - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
