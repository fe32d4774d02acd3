"""Decompression of layers and archives: gzip, xz, bzip2, and zstd if its program is installed.

The data may be malicious: memory is limited here, the size of the output by the caller.
"""

import bz2
import gzip
import lzma
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Generator
from typing import IO

from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.byte_range import ByteRange, ByteRangeFile, bad_archive

_GZIP, _XZ, _BZIP2, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_MEMORY_BYTES = 128 << 20
"""Memory limit of decompression: more than any format needs at its usual levels."""


def is_compressed(data: ByteRange) -> bool:
    """True if it starts like compressed data; a tar starts with a name."""
    return _first_bytes(data).startswith((_GZIP, _XZ, _BZIP2, _ZSTD))


def decompress(packed: ByteRange) -> Generator[bytes]:
    """The decompressed bytes in pieces; `ConfigError` if the data is damaged."""
    start = _first_bytes(packed)
    try:
        if start.startswith(_GZIP):
            with gzip.GzipFile(fileobj=ByteRangeFile(packed)) as source:
                yield from _read_pieces(source)
        elif start.startswith(_BZIP2):
            with bz2.BZ2File(ByteRangeFile(packed)) as source:  # pyright: ignore[reportArgumentType] - it reads, which is enough
                yield from _read_pieces(source)
        elif start.startswith(_XZ):
            yield from _from_xz(packed)
        else:
            yield from _from_zstd(packed)
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise bad_archive(f"its compressed data is damaged: {error}") from error


def _first_bytes(data: ByteRange) -> bytes:
    return data.read(0, min(6, data.size))


def _read_pieces(source: IO[bytes] | gzip.GzipFile) -> Generator[bytes]:
    while piece := source.read(_PIECE):
        yield piece


def _from_xz(packed: ByteRange) -> Generator[bytes]:
    """Several streams may follow each other, with zeros between them."""
    unpacking = _xz_stream()
    for chunk in packed.chunks():
        given = chunk
        while given:
            if unpacking.eof:
                given = given.lstrip(b"\0")
                if not given:
                    break
                unpacking = _xz_stream()
            yield unpacking.decompress(given, _PIECE)
            while not unpacking.needs_input and not unpacking.eof:
                yield unpacking.decompress(b"", _PIECE)
            given = unpacking.unused_data if unpacking.eof else b""
    if not unpacking.eof:
        raise EOFError("the data is truncated")


def _xz_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)


def _from_zstd(packed: ByteRange) -> Generator[bytes]:
    """Python has no zstd of its own before 3.14."""
    program = shutil.which("zstd")
    if program is None:
        raise ConfigError(
            "a layer is compressed with zstd: `apt-get install zstd`, or save the image with gzip or no compression"
        )
    with tempfile.TemporaryFile() as given:
        for chunk in packed.chunks():
            given.write(chunk)
        given.seek(0)
        command = [program, "-dc", f"--memory={_MEMORY_BYTES}"]
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # noqa: S603
            assert process.stdout is not None
            try:
                yield from _read_pieces(process.stdout)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise EOFError("zstd cannot decompress it")
