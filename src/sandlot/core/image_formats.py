"""What the bytes of an image are: PNG, JPEG, GIF or WebP, and how large the picture is.

Bytes come from agents and from programs in sandboxes, so they are hostile. The type is read from the bytes, never from a name or
a label. Nothing is decoded into pixels: sizes stand in headers, and a picture that would be too large to decode is refused by its
header. The compressed data of a PNG is unpacked once, in pieces that are thrown away, and must have exactly the size that its
header announces.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAX_IMAGE_BYTES = 5 * 2**20
"""Size of one image file; endpoints refuse larger ones."""
MAX_SIDE = 8000
"""Pixels of one side."""
MAX_PIXELS = 40_000_000
"""Pixels of one image, all frames of an animation together."""

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values of one pixel, by the colour type of a PNG."""
_DEPTHS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column and row, and steps, of the seven passes of an interlaced PNG."""
_PIECE = 2**16
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG that hold its size."""
_JPEG_BARE = {0x01, *range(0xD0, 0xD8)}
"""Markers without a length."""


class BadImageError(ValueError):
    """The bytes are no image that may be shown. The text says what they are and what is allowed."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the bytes of an image are."""

    media_type: str
    width: int
    height: int


def image_facts(data: bytes) -> ImageFacts:
    """The type and size of an image; `BadImageError` if it is broken, too large, or no PNG, JPEG, GIF or WebP."""
    if len(data) > MAX_IMAGE_BYTES:
        raise BadImageError(f"the image has {len(data):,} bytes; at most {MAX_IMAGE_BYTES:,} are allowed: make it smaller")
    try:
        if data.startswith(_PNG):
            return _png(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _fitting("image/jpeg", *_jpeg_size(data))
        if data[:6] in {b"GIF87a", b"GIF89a"}:
            return _gif(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _fitting("image/webp", *_webp_size(data))
    except (struct.error, IndexError, zlib.error) as error:
        raise BadImageError(f"the image is broken: {error or 'it ends too early'}") from error
    raise BadImageError(f"{_found(data)}; an image is PNG, JPEG, GIF or WebP")


def _found(data: bytes) -> str:
    start = data[:4096].lstrip().lower()
    if not data:
        return "there are no bytes"
    if b"<svg" in start:
        return "this is an SVG drawing, which can hold scripts"
    return f"the bytes are not an image; they begin {data[:12]!r}"


def _fitting(media_type: str, width: int, height: int) -> ImageFacts:
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise BadImageError(
            f"the image is {width} x {height} pixels; at most {MAX_SIDE} on a side and {MAX_PIXELS:,} in all are allowed"
        )
    return ImageFacts(media_type, width, height)


# -- PNG ---------------------------------------------------------------------------------------------------------------


def _png(data: bytes) -> ImageFacts:
    chunks = _png_chunks(data)
    kind, head = next(chunks, (b"", b""))
    if kind != b"IHDR" or len(head) != 13:
        raise BadImageError("the PNG is broken: it does not begin with its header")
    width, height, depth, colour, packing, filtering, interlaced = struct.unpack(">IIBBBBB", head)
    facts = _fitting("image/png", width, height)
    if depth not in _DEPTHS.get(colour, ()) or packing or filtering or interlaced > 1:
        raise BadImageError(f"the PNG is broken: its header has colour type {colour} with {depth} bits")
    wanted = _png_bytes(width, height, depth * _CHANNELS[colour], interlaced=bool(interlaced))
    unpacker, found, ended = _Unpacker(), 0, False
    for kind, content in chunks:
        if kind == b"acTL":
            raise BadImageError("the PNG is animated; give a picture that does not move")
        if kind == b"IEND":
            ended = True
        if kind == b"IDAT":
            found += unpacker.size(content, wanted - found)
    if found != wanted or not ended:
        raise BadImageError(f"the PNG is broken: {found:,} bytes of pixels instead of {wanted:,}")
    return facts


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks up to the end of the picture; nothing may follow it."""
    place = len(_PNG)
    while place < len(data):
        (size,) = struct.unpack_from(">I", data, place)
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (check,) = struct.unpack_from(">I", data, place + 8 + size)
        if zlib.crc32(content, zlib.crc32(kind)) != check:
            raise BadImageError(f"the PNG is broken: the checksum of a {kind!r} chunk is wrong")
        place += 12 + size
        yield kind, content
        if kind == b"IEND" and place != len(data):
            raise BadImageError(f"{len(data) - place:,} bytes follow the end of the PNG; cut them off")


class _Unpacker:
    """Unpacks the data of a PNG piece by piece, and keeps none of it."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()

    def size(self, packed: bytes, most: int) -> int:
        """How many bytes some more data unpacks to; `BadImageError` as soon as there are more than `most`."""
        found = 0
        while packed and not self._stream.eof:
            found += len(self._stream.decompress(packed, _PIECE))
            if found > most:
                raise BadImageError("the PNG holds more data than its header announces")
            packed = self._stream.unconsumed_tail
        return found


def _png_bytes(width: int, height: int, bits: int, *, interlaced: bool) -> int:
    """Bytes of the unpacked rows: each has one byte for its filter."""
    parts = _PASSES if interlaced else ((0, 0, 1, 1),)
    total = 0
    for left, top, right, down in parts:
        columns, rows = -(-(width - left) // right), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


# -- the others --------------------------------------------------------------------------------------------------------


def _jpeg_size(data: bytes) -> tuple[int, int]:
    place = 2
    while True:
        if data[place] != 0xFF:
            raise BadImageError("the JPEG is broken: a marker is missing")
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _JPEG_BARE:
            place += 2
        elif marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        elif marker in {0xD9, 0xDA}:
            raise BadImageError("the JPEG is broken: it has no size")
        else:
            (size,) = struct.unpack_from(">H", data, place + 2)
            place += 2 + max(size, 2)


def _gif(data: bytes) -> ImageFacts:
    """The size of the picture; all frames together must fit the limit too."""
    width, height, packed = struct.unpack_from("<HHB", data, 6)
    facts, pixels = _fitting("image/gif", width, height), 0
    place = 13 + (3 << ((packed & 7) + 1) if packed & 0x80 else 0)
    while data[place] != 0x3B:
        if data[place] == 0x21:
            place = _after_blocks(data, place + 2)
        elif data[place] == 0x2C:
            left, top, across, down, packed = struct.unpack_from("<HHHHB", data, place + 1)
            pixels += across * down
            if left + across > width or top + down > height or pixels > MAX_PIXELS:
                raise BadImageError(
                    f"the GIF has a frame that does not fit, or more than {MAX_PIXELS:,} pixels in all its frames"
                )
            place = _after_blocks(data, place + 11 + (3 << ((packed & 7) + 1) if packed & 0x80 else 0))
        else:
            raise BadImageError("the GIF is broken: an unknown block")
    if not pixels:
        raise BadImageError("the GIF is broken: it has no frame")
    return facts


def _after_blocks(data: bytes, place: int) -> int:
    while size := data[place]:
        place += 1 + size
    return place + 1


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        if data[20] & 2:
            raise BadImageError("the WebP is animated; give a picture that does not move")
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    raise BadImageError("the WebP is broken: it has no size")
