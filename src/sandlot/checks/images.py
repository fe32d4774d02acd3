"""Checks of pictures: size, colours, likeness. PNG only, decoded by this file with limits; other formats give their size only.

What likeness can tell: `image_like` compares the coarse pattern of light and dark (a difference hash of 64 bits). It tells
apart pictures with different layouts. It cannot tell apart texts, small details or colours of equal brightness, and a picture
can be made on purpose to have a given hash: use it beside other checks, or ask a judge that can see.
"""

import itertools
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sandlot.checks.found import Said
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_PIXELS = 2_000_000
_MAX_SIDE = 100_000
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type -> numbers per pixel."""
_FLAT_BITS = 3
"""A hash with fewer ones, or fewer zeros, says nothing: the picture is nearly of one colour."""

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Picture:
    """Width and height in pixels, and rows of red, green and blue."""

    width: int
    height: int
    pixels: _Bytes


def image_size(evidence: Evidence, path: str, *, width: int | None = None, height: int | None = None) -> Said:
    """The picture (PNG, GIF or JPEG) has this width and height in pixels, by its header. It says nothing about the content.

    >>> image_size(evidence, "/out/chart.png", width=32, height=16)
    (True, '`/out/chart.png` has 32 x 16 pixels')
    """
    found = _size_of(evidence.read(path), path)
    fits = (width is None or found[0] == width) and (height is None or found[1] == height)
    return fits and (width is not None or height is not None), f"`{path}` has {found[0]} x {found[1]} pixels"


def image_colors(evidence: Evidence, path: str, colors: Mapping[str, float], *, distance: int = 32) -> Said:
    """Each colour (`#rrggbb`) covers at least this share of the PNG picture. A pixel counts if no channel differs by more.

    >>> image_colors(evidence, "/out/chart.png", {"#ff0000": 0.4, "#ffffff": 0.4})
    (True, '#ff0000 50%, #ffffff 50%')
    """
    if not colors:
        raise ValueError("`colors` is empty: every picture would pass")
    pixels = read_png(evidence.read(path), path).pixels.astype(np.int16)
    shares = {name: float((np.abs(pixels - _color(name)).max(axis=2) <= distance).mean()) for name in colors}
    return all(shares[name] >= least for name, least in colors.items()), ", ".join(f"{n} {s:.0%}" for n, s in shares.items())


def image_like(evidence: Evidence, path: str, hash: str, *, at_most: int = 8) -> Said:  # noqa: A002 - the word authors use
    """The PNG picture's difference hash differs from `hash` (from `image_hash`) in at most so many of 64 bits.

    Two unrelated pictures differ in about 32. A nearly flat reference is an error: every flat picture would be like it.

    >>> image_like(evidence, "/out/chart.png", "0f0f0f0f0f0f0f0f", at_most=4)[0]
    False
    """
    wanted = int(hash, 16)
    if not _FLAT_BITS <= wanted.bit_count() <= 64 - _FLAT_BITS:
        raise ValueError(f"`hash` {hash} is of a nearly flat picture, and says nothing")
    found = int(image_hash(evidence.read(path), path), 16)
    count = (found ^ wanted).bit_count()
    return count <= at_most, f"`{path}` differs in {count} of 64 bits"


def image_hash(data: bytes, path: str = "the picture") -> str:
    """The difference hash of a PNG picture: for each of 8 rows, whether brightness grows between 9 columns."""
    picture = read_png(data, path)
    light = picture.pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    rows = [int(place) for place in np.linspace(0, picture.height, 9)]
    columns = [int(place) for place in np.linspace(0, picture.width, 10)]
    cells = np.array(
        [
            [light[top : max(down, top + 1), left : max(right, left + 1)].mean() for left, right in itertools.pairwise(columns)]
            for top, down in itertools.pairwise(rows)
        ]
    )
    bits = (np.diff(cells, axis=1) > 1.0).flatten()
    return f"{int(''.join('1' if bit else '0' for bit in bits), 2):016x}"


def read_png(data: bytes, path: str) -> Picture:
    """The pixels of a PNG of 8 bits per channel, without interlacing; transparent pixels lie on white."""
    width, height = _size_of(data, path)
    if not data.startswith(_SIGNATURE) or len(data) < 33:
        raise NotInEvidence(f"`{path}` is not a PNG picture")
    depth, kind, _, _, interlaced = data[24:29]
    if width * height > _MAX_PIXELS or not width * height:
        raise NotInEvidence(f"`{path}` has {width:,} x {height:,} pixels; this check reads 1 to {_MAX_PIXELS:,}", kind="cut")
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise NotInEvidence(f"`{path}` is a PNG with {depth} bits, colour type {kind}; this check reads 8 bits, not interlaced")
    chunks = _chunks(data, path)
    channels = _CHANNELS[kind]
    size = height * (1 + width * channels)
    try:
        raw = zlib.decompressobj().decompress(b"".join(body for name, body in chunks if name == b"IDAT"), size)
    except zlib.error as error:
        raise NotInEvidence(f"`{path}` is a damaged PNG: {error}") from error
    if len(raw) != size:
        raise NotInEvidence(f"`{path}` is a damaged PNG: {len(raw):,} of {size:,} bytes")
    lines = _unfilter(np.frombuffer(raw, dtype=np.uint8).reshape(height, 1 + width * channels), channels, path)
    pixels = lines.reshape(height, width, channels)
    return Picture(width, height, _in_colour(pixels, kind, dict(chunks).get(b"PLTE", b""), path))


def _chunks(data: bytes, path: str) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    place = len(_SIGNATURE)
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        if len(body) != length:
            raise NotInEvidence(f"`{path}` is a damaged PNG: a chunk is cut")
        found.append((name, body))
        place += 12 + length
        if name == b"IEND":
            break
    return found


def _unfilter(lines: _Bytes, channels: int, path: str) -> _Bytes:
    """Rows without their filters."""
    height, width = lines.shape[0], lines.shape[1] - 1
    out = np.zeros((height + 1, width), dtype=np.uint8)
    for row in range(height):
        kind, line, above = int(lines[row, 0]), lines[row, 1:], out[row]
        if kind == 0:
            out[row + 1] = line
        elif kind == 1:
            pixels = line.reshape(-1, channels)
            out[row + 1] = np.cumsum(pixels, axis=0, dtype=np.uint64).astype(np.uint8).reshape(-1)
        elif kind == 2:
            out[row + 1] = line + above
        elif kind in {3, 4}:
            out[row + 1] = _slow_row(line, above, channels, paeth=kind == 4)
        else:
            raise NotInEvidence(f"`{path}` is a damaged PNG: filter {kind}")
    return out[1:]


def _slow_row(line: _Bytes, above: _Bytes, channels: int, *, paeth: bool) -> _Bytes:
    """A row with the Average or Paeth filter, which need the pixel before."""
    made, up, here = [0] * len(line), above.tolist(), line.tolist()
    for place, value in enumerate(here):
        left = made[place - channels] if place >= channels else 0
        if paeth:
            corner = up[place - channels] if place >= channels else 0
            guess = left + up[place] - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up[place]), 1, up[place]), (abs(guess - corner), 2, corner))[2]
        else:
            near = (left + up[place]) // 2
        made[place] = value + near & 255
    return np.array(made, dtype=np.uint8)


def _in_colour(pixels: _Bytes, kind: int, palette: bytes, path: str) -> _Bytes:
    """Red, green and blue of each pixel."""
    if kind == 3:
        table = np.frombuffer(palette[: len(palette) // 3 * 3], dtype=np.uint8).reshape(-1, 3)
        if not len(table) or int(pixels.max()) >= len(table):
            raise NotInEvidence(f"`{path}` is a damaged PNG: its palette is too short")
        return table[pixels[:, :, 0]]
    colour = np.repeat(pixels[:, :, :1], 3, axis=2) if kind in {0, 4} else pixels[:, :, :3]
    if kind in {0, 2}:
        return colour
    opaque = pixels[:, :, -1:].astype(np.uint16)
    return ((colour * opaque + 255 * (255 - opaque)) // 255).astype(np.uint8)


def _size_of(data: bytes, path: str) -> tuple[int, int]:
    """Width and height by the header of a PNG, GIF or JPEG."""
    size: tuple[int, int] | None = None
    if data.startswith(_SIGNATURE) and data[12:16] == b"IHDR" and len(data) >= 24:
        size = struct.unpack_from(">II", data, 16)
    elif data[:6] in {b"GIF87a", b"GIF89a"} and len(data) >= 10:
        size = struct.unpack_from("<HH", data, 6)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    if size is None or max(size) > _MAX_SIDE:
        raise NotInEvidence(f"`{path}` is not a PNG, GIF or JPEG picture")
    return size


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 < len(data) and data[place] == 0xFF:
        mark = data[place + 1]
        if 0xC0 <= mark <= 0xCF and mark not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + struct.unpack_from(">H", data, place + 2)[0]
    return None


def _color(name: str) -> npt.NDArray[np.int16]:
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", name):
        raise ValueError(f"{name!r} is not a colour; write #rrggbb")
    return np.array([int(name[place : place + 2], 16) for place in (1, 3, 5)], dtype=np.int16)
