"""Packs: many small blobs in one framed file.

A record is the 32 raw bytes of the hash, then the blob. A full pack has an index file, so that opening a run does not read every
blob. If the index is missing or does not match, the pack is read instead.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandlot.core.disk import Disk, write_file
from sandlot.core.errors import StoreError, boundary
from sandlot.store.frames import Scan, encode_frames, read_frames
from sandlot.store.layout import pack_file, pack_index_file, packs_of

BLOB_TAG = ord("b")
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """The place of a blob."""

    pack: int
    offset: int
    length: int


class _PackIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The index file of a pack."""

    format: int = 1
    pack_bytes: int
    keys: bytes
    offsets: list[int]
    lengths: list[int]


class Packs:
    """The small blobs of a run by hash, for reading."""

    def __init__(self, blobs: Path) -> None:
        self.blobs = blobs
        self._places: dict[bytes, BlobPlace] = {}
        self._sizes: dict[int, int] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._places)

    def refresh(self) -> None:
        """Read what has been written since."""
        packs = packs_of(self.blobs)
        sizes = {number: path.stat().st_size for number, path in packs.items()}
        shrunk = {number for number, size in self._sizes.items() if sizes.get(number, 0) < size}
        if shrunk:  # `gc` removed blobs
            self._places = {key: place for key, place in self._places.items() if place.pack not in shrunk}
        known, self._sizes = self._sizes, sizes
        for number, path in packs.items():
            size = sizes[number]
            if known.get(number) == size:
                continue
            places = _indexed(path, number, size)
            self._places.update(places if places is not None else _places_of(read_frames(path), number))

    def add(self, key: bytes, place: BlobPlace) -> None:
        """Add a blob that has become durable."""
        self._places[key] = place

    def find(self, key: bytes) -> BlobPlace | None:
        """The place of a blob; None if it is not stored."""
        return self._places.get(key)

    def read(self, place: BlobPlace) -> bytes:
        """Read the bytes at a place."""
        path = pack_file(self.blobs, place.pack)
        with boundary(StoreError, f"`{path}` cannot be read"):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(fd, place.length, place.offset)
            finally:
                os.close(fd)


def _places_of(found: Scan, number: int) -> dict[bytes, BlobPlace]:
    """The places of the blobs of a pack."""
    return {
        bytes(record.data[:KEY_BYTES]): BlobPlace(number, record.offset + KEY_BYTES, len(record.data) - KEY_BYTES)
        for record in found.records
        if record.tag == BLOB_TAG
    }


def write_index(pack: Path, disk: Disk) -> None:
    """Write the index of a full pack. Blocking: for a worker thread."""
    found = read_frames(pack)
    places = _places_of(found, 0)
    index = _PackIndex(
        pack_bytes=found.end,
        keys=b"".join(places),
        offsets=[place.offset for place in places.values()],
        lengths=[place.length for place in places.values()],
    )
    write_file(pack_index_file(pack), msgspec.msgpack.encode(index), disk)


def _indexed(pack: Path, number: int, size: int) -> dict[bytes, BlobPlace] | None:
    try:
        index = msgspec.msgpack.decode(pack_index_file(pack).read_bytes(), type=_PackIndex)
    except (OSError, msgspec.MsgspecError):
        return None  # the pack is read instead
    if index.pack_bytes != size or len(index.keys) != KEY_BYTES * len(index.offsets):
        return None
    keys = (index.keys[at : at + KEY_BYTES] for at in range(0, len(index.keys), KEY_BYTES))
    places = zip(keys, index.offsets, index.lengths, strict=True)
    return {key: BlobPlace(number, offset, length) for key, offset, length in places}


def dead_blobs(pack: Path, live: set[bytes]) -> dict[bytes, int]:
    """The unreferenced blobs of a pack, with their sizes."""
    return {key: place.length for key, place in _places_of(read_frames(pack), 0).items() if key not in live}


def repack(pack: Path, live: set[bytes], disk: Disk) -> None:
    """Rewrite a pack with only the live blobs, or remove it if there are none."""
    index = pack_index_file(pack)
    if index.exists():
        disk.remove(index)  # first: an index must not outlive its pack
    kept = [(record.tag, bytes(record.data)) for record in read_frames(pack).records if bytes(record.data[:KEY_BYTES]) in live]
    if kept:
        write_file(pack, encode_frames(kept), disk)
    else:
        disk.remove(pack)
