"""Image files for tests, made from scratch, honest and hostile."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int, depth: int = 8, colour: int = 0, interlaced: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def png(width: int = 3, height: int = 2, shade: int = 0, *, pixels: bytes | None = None, more: bytes = b"") -> bytes:
    """A grey picture; `pixels` are its rows if they are not to fit, `more` are chunks before its data."""
    rows = (b"\0" + bytes([shade]) * width) * height if pixels is None else pixels
    return SIGNATURE + header(width, height) + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def unpacked_bomb(size: int = 2**26) -> bytes:
    """One pixel by its header, and 64 MiB of zeros in 64 KiB of data."""
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(bytes(2**20)) for _ in range(size // 2**20)) + packer.flush()
    return SIGNATURE + header(1, 1) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def huge_by_header(width: int = 60_000, height: int = 60_000) -> bytes:
    return SIGNATURE + header(width, height) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
