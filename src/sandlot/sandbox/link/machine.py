"""The file and process operations of a running machine, over the link to its process 1. The same for every backend."""

import errno
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import anyio.to_thread

from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.process import SandboxProcess, spawn
from sandlot.sandbox.link.stream import SandboxStream, connect, listen
from sandlot.sandbox.link.wire import FrameKind, Listing, ListingEntry, pack_text, take_entries
from sandlot.sandbox.quota import Quota

_CHUNK = 512 << 10
_PARSED_ON_LOOP = 256 << 10
"""Bytes of a listing that are parsed on the event loop, about 2 ms; a longer one is parsed in a thread."""
_NOT_LISTED = ("/proc/", "/dev/", "/sys/")


class Entries(NamedTuple):
    """A listing, up to the limit of the quota."""

    found: list[ListingEntry]
    left_out: int
    """Number of paths that are not in `found`."""


class Machine:
    """The operations of a live process 1. Its backend starts and closes it."""

    def __init__(self, link: Link, quota: Quota, defaults: CommandDefaults) -> None:
        self.link = link
        self._quota = quota
        self._defaults = defaults

    async def spawn(self, command: Command) -> SandboxProcess:
        """Start a command, with the image's defaults for what it does not set."""
        return await spawn(self.link, self._defaults.apply(command))

    async def connect(self, where: int | str) -> SandboxStream:
        """Connect to a port or unix socket inside."""
        return await connect(self.link, where)

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[SandboxStream]]:
        """Listen on a port inside."""
        return listen(self.link, port)

    async def list_files(self, folder: str) -> list[str]:
        """Absolute paths of all files below a folder, sorted; the image's included, `/proc`, `/dev` and `/sys` not."""
        try:
            entries = await self.list_entries(Listing.BELOW, folder)
        except (FileNotFoundError, NotADirectoryError):
            return []  # there is nothing below it
        return sorted(entry.path for entry in entries if entry.kind == "f" and not entry.path.startswith(_NOT_LISTED))

    async def stat(self, path: str) -> ListingEntry:
        """One path as it is, links not followed."""
        return (await self.list_entries(Listing.ITSELF, path))[0]

    async def read(self, path: str) -> bytes:
        """One regular file. `OSError` by number: not there, a folder, larger than the quota allows."""
        most = self._quota.file_bytes
        pieces, _ = await self.link.ask(FrameKind.READ, most.to_bytes(8, "little") + pack_text(_check_path(path)), most=most)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """One file with the folders above it, in pieces."""
        for at in range(0, max(len(data), 1), _CHUNK):
            head = struct.pack("<BI", at > 0, mode) + pack_text(_check_path(path))
            await self.link.ask(FrameKind.WRITE, head + pack_text(data[at : at + _CHUNK]))

    async def list_entries(self, how: Listing, path: str = "/") -> list[ListingEntry]:
        """A whole listing; `OSError` with `EFBIG` if it is longer than the quota allows."""
        found, left_out = await self.list_first_entries(how, path)
        if left_out:
            most = self._quota.listing_bytes
            raise OSError(errno.EFBIG, f"the listing is longer than {most:,} bytes: {left_out:,} paths are left out", path)
        return found

    async def list_first_entries(self, how: Listing, path: str = "/", *, most: int | None = None) -> Entries:
        """A listing of at most `most` bytes (None: the quota's limit), and the number of paths that are not in it."""
        most = self._quota.listing_bytes if most is None else most
        request = bytes((how,)) + most.to_bytes(8, "little") + pack_text(_check_path(path))
        pieces, left_out = await self.link.ask(FrameKind.LIST, request, most=most)
        if sum(map(len, pieces)) <= _PARSED_ON_LOOP:
            return Entries(_parse_entries(pieces), left_out)
        return Entries(await anyio.to_thread.run_sync(_parse_entries, pieces), left_out)

    async def kill_all(self, *, freeze: bool) -> int:
        """End every process but process 1, with `freeze` for good: none can start again. Returns how many there were."""
        return (await self.link.ask(FrameKind.FREEZE, bytes((freeze,))))[1]


def _parse_entries(pieces: Sequence[bytes]) -> list[ListingEntry]:
    return [entry for piece in pieces for entry in take_entries(piece)]


def _check_path(path: str) -> str:
    """The path, if it is absolute and without NUL."""
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"path {path!r} in a sandbox is not absolute, or contains a NUL; paths start with `/`")
    return path
