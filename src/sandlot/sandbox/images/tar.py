"""Reads tar archives that may be malicious.

Supports ustar, pax and GNU headers, long names and sparse files. Every number is checked before it is used, the size of extension
headers is limited, and each entry starts after the one before it, so reading always ends. The standard library's reader is not
used: in current Python versions a header can make it loop forever (CVE-2025-8194) or use up the memory, and a damaged header in
the middle ends the archive without an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandlot.sandbox.images.byte_range import ByteRange, bad_archive

_BLOCK = 512
MAX_HEADERS_BYTES = 1 << 20
"""Limit of the names, extension headers and sparse maps of one entry."""
_MAX_NAME = 4096


class TarKind(StrEnum):
    """Kinds of entries."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    HARD_LINK = "hard link"
    OTHER = "other"
    """A device or a pipe."""


@dataclass(frozen=True, slots=True)
class _TarSegment:
    """A run of a file's bytes."""

    offset: int
    """Its position in the file."""
    at: int
    """Its position in the archive."""
    length: int


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of an archive. Names are bytes: they need not be UTF-8."""

    name: bytes
    kind: TarKind
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int
    """Size of the file, holes included."""
    link: bytes
    segments: tuple[_TarSegment, ...]


_KINDS = {
    **dict.fromkeys((b"0", b"\0", b"7", b"S"), TarKind.FILE),
    b"1": TarKind.HARD_LINK,
    b"2": TarKind.LINK,
    b"5": TarKind.FOLDER,
    **dict.fromkeys((b"3", b"4", b"6"), TarKind.OTHER),
}
_END = bytes(_BLOCK)


class _MoreHeaders:
    """The extension headers of the entry that follows them."""

    def __init__(self, common: dict[bytes, bytes]) -> None:
        self.values = dict(common)
        self.sparse: list[int] = []
        self.bytes_left = MAX_HEADERS_BYTES

    def take(self, size: int) -> int:
        """Count header bytes against the limit."""
        if not 0 <= size <= self.bytes_left:
            raise bad_archive(f"the headers of one entry take {size} more bytes; the limit is {MAX_HEADERS_BYTES} in all")
        self.bytes_left -= size
        return size


def read_entries(archive: ByteRange) -> Iterator[TarEntry]:
    """The entries of an archive, in order; `ConfigError` if it is malformed."""
    at = 0
    common: dict[bytes, bytes] = {}
    extras = _MoreHeaders(common)
    while at < archive.size:
        header = archive.read(at, _BLOCK)
        if header == _END:
            break
        _require_checksum(header, at)
        kind, size, at = header[156:157], _number(header[124:136]), at + _BLOCK
        if kind in b"xgLKV":
            extras.take(_BLOCK)
            body = archive.read(at, extras.take(size))
            at += _padded(size)
            if kind in b"LK":
                extras.values[b"path" if kind == b"L" else b"linkpath"] = body.split(b"\0")[0]
            elif kind == b"g":
                common.update(_pax_records(body))
                extras.values = common | extras.values
            elif kind == b"x":
                records = _pax_records(body)
                extras.values.update(records)
                extras.sparse += [_count(value) for key, value in records if key in _SPARSE_PAIRS]
            continue
        entry, at = _read_entry(archive, header, at, extras)
        yield entry
        extras = _MoreHeaders(common)
    if extras.values != common:
        raise bad_archive("the archive ends after an extension header, without its entry")


_SPARSE_PAIRS = (b"GNU.sparse.offset", b"GNU.sparse.numbytes")


def _read_entry(archive: ByteRange, header: bytes, at: int, extras: _MoreHeaders) -> tuple[TarEntry, int]:
    """The entry of a header, and the position of the next header."""
    letter, values = header[156:157], extras.values
    kind = _KINDS.get(letter)
    if kind is None:
        raise bad_archive(f"an entry of unknown type {letter!r} at byte {at - _BLOCK}")
    name = values.get(b"GNU.sparse.name") or values.get(b"path") or _name(header)
    if kind is TarKind.FILE and name.endswith(b"/"):
        kind = TarKind.FOLDER
    stored = _count(values[b"size"]) if b"size" in values else _number(header[124:136])
    stored = stored if kind is TarKind.FILE else 0  # only files have bytes, whatever the header says
    end = at + _padded(stored)
    size, segments = stored, (_TarSegment(0, at, stored),) if stored else ()
    if kind is TarKind.FILE and (letter == b"S" or any(key.startswith(b"GNU.sparse.") for key in values)):
        size, pairs, at, end = _read_sparse(archive, header, at, end, extras)
        segments = _segments(pairs, size, at, end)
    archive.read(at + sum(segment.length for segment in segments), 0)
    entry = TarEntry(
        name=_check_name(name),
        kind=kind,
        mode=_number(header[100:108]) & 0o7777,
        uid=_count(values[b"uid"]) if b"uid" in values else _number(header[108:116]),
        gid=_count(values[b"gid"]) if b"gid" in values else _number(header[116:124]),
        mtime_ns=_time_ns(values[b"mtime"]) if b"mtime" in values else _number(header[136:148], least=-(2**63)) * 10**9,
        size=size,
        link=_check_name(values.get(b"linkpath") or header[157:257].split(b"\0")[0]),
        segments=segments,
    )
    return entry, end


def _read_sparse(archive: ByteRange, header: bytes, at: int, end: int, extras: _MoreHeaders) -> tuple[int, list[int], int, int]:
    """Real size, offset-length pairs, position of the data, position of the next header."""
    values = extras.values
    if header[156:157] == b"S":
        pairs = [_number(header[place : place + 12]) for place in range(386, 482, 12)]
        more = header[482]
        while more:
            block = archive.read(at, extras.take(_BLOCK))
            pairs += [_number(block[place : place + 12]) for place in range(0, 504, 12)]
            more, at, end = block[504], at + _BLOCK, end + _BLOCK
        return _number(header[483:495]), pairs, at, end
    size = _count(values.get(b"GNU.sparse.realsize") or values.get(b"GNU.sparse.size") or b"")
    if values.get(b"GNU.sparse.major") == b"1":
        pairs, used = _read_sparse_map(archive, at, end, extras)
        return size, pairs, at + used, end
    if b"GNU.sparse.map" in values:
        return size, [_count(number) for number in values[b"GNU.sparse.map"].split(b",") if number], at, end
    return size, extras.sparse, at, end


def _read_sparse_map(archive: ByteRange, at: int, end: int, extras: _MoreHeaders) -> tuple[list[int], int]:
    """The map of sparse format 1.0: one number per line, first the number of pairs, then the pairs, padded to whole blocks."""
    text, used = b"", 0
    while True:
        if at + used >= end:
            raise bad_archive("the map of a sparse file is truncated")
        text += archive.read(at + used, extras.take(_BLOCK))
        used += _BLOCK
        lines = text.split(b"\n")[:-1]
        if lines and len(lines) > 2 * _count(lines[0]):
            return [_count(line) for line in lines[1 : 1 + 2 * _count(lines[0])]], used


def _segments(pairs: list[int], size: int, at: int, end: int) -> tuple[_TarSegment, ...]:
    if len(pairs) % 2:
        raise bad_archive("the map of a sparse file has an offset without a length")
    found: list[_TarSegment] = []
    past = 0
    for offset, length in zip(pairs[::2], pairs[1::2], strict=True):
        if length == 0:
            continue
        if offset < past or offset + length > size or at + length > end:
            raise bad_archive(f"a sparse file of {size} bytes has {length} bytes at {offset}")
        found.append(_TarSegment(offset, at, length))
        past, at = offset + length, at + length
    return tuple(found)


def _pax_records(body: bytes) -> list[tuple[bytes, bytes]]:
    """The records of a pax header, each `LENGTH KEY=VALUE` and a line end."""
    found: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(body):
        space = body.find(b" ", at, at + 20)
        length = _count(body[at:space]) if space > 0 else 0
        record = body[space + 1 : at + length]
        key, equals, value = record[:-1].partition(b"=")
        if length <= space - at or at + length > len(body) or not record.endswith(b"\n") or not equals:
            raise bad_archive("a malformed pax header")
        found.append((key, value))
        at += length
    return found


def _require_checksum(header: bytes, at: int) -> None:
    wanted = header[148:156].strip(b"\0 ")
    rest = header[:148] + b" " * 8 + header[156:]
    is_number = re.fullmatch(rb"[0-7]+", wanted) is not None
    # Old programs summed signed bytes.
    if not is_number or (int(wanted, 8) != sum(rest) and int(wanted, 8) != sum(rest) - 256 * sum(byte > 127 for byte in rest)):
        raise bad_archive(f"no tar header at byte {at}: wrong checksum")


def _number(field: bytes, least: int = 0) -> int:
    """An octal number, or a binary one as GNU tar writes large numbers."""
    if field[0] in {0x80, 0xFF}:
        value = int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    else:
        text = field.split(b"\0")[0].strip()
        if text and not re.fullmatch(rb"[0-7]+", text):
            raise bad_archive(f"{field!r} in a tar header is not a number")
        value = int(text, 8) if text else 0
    if not least <= value < 2**63:
        raise bad_archive(f"the number {value} in a tar header is out of range")
    return value


def _count(text: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,19}", text):
        raise bad_archive(f"{text[:40]!r} in a pax header is not a number")
    return int(text)


def _time_ns(text: bytes) -> int:
    match = re.fullmatch(rb"(-?[0-9]{1,18})(?:\.([0-9]{1,30}))?", text)
    if match is None:
        raise bad_archive(f"{text[:40]!r} in a pax header is not a time")
    return int(match[1]) * 10**9 + int((match[2] or b"")[:9].ljust(9, b"0"))


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _check_name(name: bytes) -> bytes:
    if b"\0" in name or len(name) > _MAX_NAME:
        raise bad_archive(f"an invalid file name: {name[:80]!r}")
    return name


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
