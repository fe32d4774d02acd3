"""Reads entries of an `.eval` log: a ZIP archive whose entries are compressed with zstd (method 93) or deflate.

Python reads method 93 only from 3.14 on, so those entries are found with `zipfile` and decompressed with pyarrow. Nothing is
unpacked to disk. Sizes are limited while decompressing, whatever the archive's directory says.
"""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from sandlot.core.errors import ConfigError
from sandlot.interop.untrusted import MAX_FILE_BYTES

_ZSTANDARD = 93
_MAX_ENTRIES = 1_000_000
_MAX_TOTAL_BYTES = 64 * 2**30
_LOCAL_HEADER = struct.Struct("<4s22sHH")
_ENCRYPTED = 0x1
_PIECE = 1 << 20


class LogArchive:
    """An open `.eval` log."""

    def __init__(self, path: Path, file: IO[bytes], entries: dict[str, zipfile.ZipInfo]) -> None:
        self._path = path
        self._file = file
        self._entries = entries
        self._bytes_left = _MAX_TOTAL_BYTES

    @property
    def names(self) -> list[str]:
        """The names of its entries, in the order of the archive."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """The bytes of an entry; `ConfigError` if it is damaged or too large."""
        info = self._entries[name]
        what = f"`{self._path}`: the entry {name[:200]!r}"
        if info.flag_bits & _ENCRYPTED:
            raise ConfigError(f"{what} is encrypted")
        try:
            data = self._decompressed(info, what)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, struct.error, NotImplementedError, ValueError) as error:
            raise ConfigError(f"{what} is damaged: {error}") from error
        if zlib.crc32(data) != info.CRC:
            raise ConfigError(f"{what} is damaged: its checksum is wrong")
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise ConfigError(f"`{self._path}` holds more than {_MAX_TOTAL_BYTES:,} bytes")
        return data

    def _decompressed(self, info: zipfile.ZipInfo, what: str) -> bytes:
        packed = self._packed(info)
        if info.compress_type == zipfile.ZIP_STORED:
            return packed
        if info.compress_type == zipfile.ZIP_DEFLATED:
            unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
            data = unpacking.decompress(packed, MAX_FILE_BYTES + 1)
        elif info.compress_type == _ZSTANDARD:
            data = _from_zstd(packed)
        else:
            raise ConfigError(f"{what} is compressed with method {info.compress_type}; zstd, deflate and none are read")
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{what} has more than {MAX_FILE_BYTES:,} bytes")
        return data

    def _packed(self, info: zipfile.ZipInfo) -> bytes:
        """The compressed bytes: they begin after the entry's own header, whose length its directory does not say."""
        if info.compress_size > MAX_FILE_BYTES:
            raise ValueError(f"{info.compress_size:,} compressed bytes")
        self._file.seek(info.header_offset)
        mark, _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if mark != b"PK\3\4":
            raise ValueError("its header is not where the directory says")
        self._file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
        packed = self._file.read(info.compress_size)
        if len(packed) != info.compress_size:
            raise EOFError("the file ends too early")
        return packed


def _from_zstd(packed: bytes) -> bytes:
    arrow: Any = import_module("pyarrow")  # when it is needed: importing it takes half a second
    with arrow.CompressedInputStream(arrow.BufferReader(packed), "zstd") as stream:
        data = io.BytesIO()
        while data.tell() <= MAX_FILE_BYTES and (piece := stream.read(_PIECE)):
            data.write(piece)
        return data.getvalue()


@contextmanager
def open_archive(path: Path) -> Generator[LogArchive]:
    """Open an `.eval` log; `ConfigError` if it is no ZIP archive."""
    if not path.is_file():
        raise ConfigError(f"there is no file `{path}`")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                found = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            size = os.fstat(file.fileno()).st_size
            raise ConfigError(f"`{path}` ({size:,} bytes) is no `.eval` log: {error}") from error
        if len(found) > _MAX_ENTRIES:
            raise ConfigError(f"`{path}` has {len(found):,} entries; at most {_MAX_ENTRIES:,} are read")
        entries = {info.filename: info for info in found}
        if len(entries) < len(found):
            raise ConfigError(f"`{path}` holds two entries with the same name")
        yield LogArchive(path, file, entries)
