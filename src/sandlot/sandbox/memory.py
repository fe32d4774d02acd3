"""Files for worlds that need no machine: a file tree in memory, one per rollout, without a process.

It has the same contract for files as a real sandbox, so an environment's checks and tools need not change when it gets an image
later. No command can run in it, and nothing of the host can be reached from it.
"""

import errno
import posixpath
from collections.abc import Mapping

from sandlot.core.ports.sandbox import Survey

_MAX_BYTES = 256 * 2**20
"""Size limit of one world: a tool that writes without end gets the error of a full disk, and cannot fill the host's memory."""


class MemorySnapshot:
    """The files at one moment."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    async def survey(self) -> Survey:
        """Every file's path and size; there are only files."""
        return Survey(sizes=await self.list())

    async def list(self) -> Mapping[str, int]:
        """Every file's path and size."""
        return {path: len(data) for path, data in sorted(self._files.items())}

    async def read(self, path: str) -> bytes:
        """One file."""
        return _get(self._files, path)


class MemoryFiles:
    """Files by absolute path."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._size_bytes = 0

    async def read(self, path: str) -> bytes:
        """One file."""
        return _get(self._files, path)

    async def write(self, path: str, data: bytes) -> None:
        """Put one file."""
        place = _normalize(path)
        if place == "/" or any(parent in self._files for parent in _parents(place)):
            raise NotADirectoryError(errno.ENOTDIR, "a parent of the path is a file", path)
        if any(other.startswith(place + "/") for other in self._files):
            raise IsADirectoryError(errno.EISDIR, "the path is a folder", path)
        size = self._size_bytes + len(data) - len(self._files.get(place, b""))
        if size > _MAX_BYTES:
            raise OSError(errno.ENOSPC, f"the world's files would take {size} bytes of {_MAX_BYTES}", path)
        self._files[place] = bytes(data)
        self._size_bytes = size

    async def list(self, folder: str = "/") -> list[str]:
        """Paths below a folder, sorted."""
        prefix = _normalize(folder).rstrip("/") + "/"
        return sorted(path for path in self._files if path.startswith(prefix))

    async def freeze(self) -> MemorySnapshot:
        """The files as they are now."""
        return MemorySnapshot(dict(self._files))


def _normalize(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"path {path!r} is not absolute; world paths start with `/`")
    return posixpath.normpath("/" + path.lstrip("/"))


def _parents(place: str) -> list[str]:
    pieces = place.split("/")[1:-1]
    return ["/" + "/".join(pieces[: count + 1]) for count in range(len(pieces))]


def _get(files: Mapping[str, bytes], path: str) -> bytes:
    place = _normalize(path)
    if place not in files:
        raise FileNotFoundError(errno.ENOENT, "no such file", path)
    return files[place]
