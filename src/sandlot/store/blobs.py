"""Bytes stored by their hash: evidence, artifacts, whole tool outputs.

The same bytes are stored once. `put` returns when they are durable: small blobs share a pack file and its sync, a large one has
its own file. `get` verifies the hash.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from sandlot.core.disk import DISK, Disk, make_folder, write_file
from sandlot.core.errors import StoreError, boundary
from sandlot.core.types import digest as digest_of
from sandlot.store.frames import FrameLog, Scan, recover
from sandlot.store.layout import large_file, pack_file, pack_index_file, packs_of
from sandlot.store.packs import BLOB_TAG, KEY_BYTES, BlobPlace, Packs, write_index

LARGE_BYTES = 2**20
"""A larger blob has its own file."""
_PACK_BYTES = 64 * 2**20
"""A pack of this size is full."""


class MemoryBlobs:
    """Blobs in memory, for tests and for sessions outside a run."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        name = digest_of(data)
        self._kept[name] = bytes(data)
        return name

    async def get(self, digest: str) -> bytes:
        """Read bytes by digest; `KeyError` if they were never stored."""
        return self._kept[digest]


def key_of(digest: str) -> bytes:
    """The raw bytes of a digest; `KeyError` if it is not a digest, since nothing can be stored under it."""
    try:
        key = bytes.fromhex(digest)
    except ValueError:
        raise KeyError(digest) from None
    if len(key) != KEY_BYTES or digest != key.hex():
        raise KeyError(digest)
    return key


class KeptBlobs:
    """The blobs of a run for reading, also while it is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs = Packs(folder)

    async def get(self, digest: str) -> bytes:
        """Read bytes by digest, verified; `KeyError` if they were never stored."""
        return await anyio.to_thread.run_sync(self.read, digest)

    async def put(self, data: bytes) -> str:
        """`StoreError`: the run is open for reading only."""
        raise StoreError(f"`{self._folder}` is open for reading only; {len(data)} bytes were not stored", kind="read_only")

    def read(self, digest: str) -> bytes:
        """The same as `get`, blocking."""
        key = key_of(digest)
        try:
            return _read(self._folder, self._packs, key)
        except (KeyError, StoreError):
            self._packs.refresh()  # a writer may have added it, or `gc` moved it, since the last look
            return _read(self._folder, self._packs, key)


def _read(folder: Path, packs: Packs, key: bytes) -> bytes:
    name = key.hex()
    place = packs.find(key)
    where = pack_file(folder, place.pack) if place else large_file(folder, name)
    if place:
        data = packs.read(place)
    else:
        try:
            data = where.read_bytes()
        except FileNotFoundError:
            raise KeyError(name) from None
    if digest_of(data) != name:
        raise StoreError(
            f"blob {name} in `{where}` is corrupt: its bytes have another hash; restore the file from a copy", kind="corrupt"
        )
    return data


@dataclass(frozen=True, slots=True)
class _Found:
    """The state of the blobs when opened for writing."""

    packs: Packs
    number: int
    """The pack to append to."""
    tail: Scan | None
    """The content of that pack; None if it is new."""


class DiskBlobs:
    """The blobs of a run for writing and reading."""

    def __init__(self, folder: Path, found: _Found, disk: Disk) -> None:
        self._folder = folder
        self._packs = found.packs
        self._number = found.number
        self._log = FrameLog(pack_file(folder, found.number), after=found.tail, disk=disk)
        self._disk = disk
        self._writing: dict[bytes, anyio.Event] = {}
        self._thread = anyio.CapacityLimiter(4)

    async def put(self, data: bytes) -> str:
        """Store bytes durably and return their digest. The same bytes are stored once."""
        if len(data) > LARGE_BYTES:
            with anyio.CancelScope(shield=True):
                return await anyio.to_thread.run_sync(self._put_large, data, limiter=self._thread)
        name = digest_of(data)
        key = bytes.fromhex(name)
        while self._packs.find(key) is None:
            if key in self._writing:
                await self._writing[key].wait()
            else:
                await self._put_small(key, data)
        return name

    async def get(self, digest: str) -> bytes:
        """Read bytes by digest, verified; `KeyError` if they were never stored."""
        return await anyio.to_thread.run_sync(_read, self._folder, self._packs, key_of(digest), limiter=self._thread)

    async def _put_small(self, key: bytes, data: bytes) -> None:
        current, number = self._log, self._number
        done = self._writing[key] = anyio.Event()
        try:
            offset = await current.append(BLOB_TAG, key + data)
            self._packs.add(key, BlobPlace(number, offset + KEY_BYTES, len(data)))
        finally:
            del self._writing[key]
            done.set()
        if current is self._log and current.size_bytes >= _PACK_BYTES:
            await self._start_next_pack()

    async def _start_next_pack(self) -> None:
        full = self._log
        self._number += 1
        self._log = FrameLog(pack_file(self._folder, self._number), disk=self._disk)
        await full.close()
        with anyio.CancelScope(shield=True), boundary(StoreError, f"`{full.path}` could not be indexed"):
            await anyio.to_thread.run_sync(write_index, full.path, self._disk, limiter=self._thread)

    def _put_large(self, data: bytes) -> str:
        name = digest_of(data)
        path = large_file(self._folder, name)
        if not path.exists():
            with boundary(StoreError, f"`{path}` could not be written"):
                make_folder(path.parent, self._disk)
                write_file(path, data, self._disk)
        return name

    async def close(self) -> None:
        """Returns when every `put` has finished."""
        await self._log.close()


@asynccontextmanager
async def open_blobs(folder: Path, disk: Disk = DISK) -> AsyncGenerator[DiskBlobs]:
    """Open a run's blobs for writing; the caller holds the lock."""
    with boundary(StoreError, f"`{folder}` cannot be opened for writing"):
        found = await anyio.to_thread.run_sync(_recover, folder, disk)
    blobs = DiskBlobs(folder, found, disk)
    try:
        yield blobs
    finally:
        await blobs.close()


def _recover(folder: Path, disk: Disk) -> _Found:
    """Cut off the torn tail of the newest pack, to append to it unless it is full."""
    make_folder(folder / "packs", disk)
    packs = packs_of(folder)
    number, tail = max(packs, default=1), None
    if packs:
        tail = recover(packs[number], disk)
        if tail.end >= _PACK_BYTES or pack_index_file(packs[number]).exists():
            number, tail = number + 1, None
    return _Found(packs=Packs(folder), number=number, tail=tail)
