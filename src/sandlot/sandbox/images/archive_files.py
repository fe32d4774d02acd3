"""The files of an image archive by name, whether it is a tar, a compressed tar or a folder."""

import hashlib
import os
import posixpath
import re
import stat
import tempfile
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.byte_range import ByteRange, bad_archive
from sandlot.sandbox.images.compression import decompress, is_compressed
from sandlot.sandbox.images.store import images_folder
from sandlot.sandbox.images.tar import TarKind, read_entries
from sandlot.sandbox.images.unpack import ImageCaps

_MAX_JSON = 16 << 20


class ArchiveFiles:
    """The files of an archive by name."""

    def __init__(self, found: Mapping[str, ByteRange], folder: Path | None, opened: list[int]) -> None:
        self._found = found
        self._folder = folder
        self._opened = opened

    def find(self, name: str) -> ByteRange | None:
        """One file, or None. In a folder, only regular files are opened, and only by names that cannot lead out of it."""
        if self._folder is None:
            return self._found.get(name)
        if name not in {"index.json", "manifest.json"} and not re.fullmatch(r"blobs/sha256/[0-9a-f]{64}", name):
            return None
        try:
            fd = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        self._opened.append(fd)
        return _byte_range(fd, name)

    def get(self, name: str) -> ByteRange:
        """One file; an error if it is missing."""
        piece = self.find(name)
        if piece is None:
            raise bad_archive(f"the archive has no `{name}`; was it saved completely?")
        return piece

    def read_json(self, name: str) -> bytes:
        """The content of a small file."""
        piece = self.get(name)
        if piece.size > _MAX_JSON:
            raise bad_archive(f"`{name}` takes {piece.size} bytes; at most {_MAX_JSON} are read")
        return piece.read(0, piece.size)

    def read_blob(self, digest: str) -> bytes:
        """The content of a small file by its hash, which is checked."""
        data = self.read_json(blob_name(digest))
        if digest_of(data) != digest:
            raise bad_archive(f"a blob does not match the hash in its name: {digest}")
        return data


@contextmanager
def open_archive(path: Path, caps: ImageCaps) -> Generator[ArchiveFiles]:
    """Open a tar, a compressed tar or an OCI layout folder for as long as the context lasts."""
    opened: list[int] = []
    try:
        if path.is_dir():
            yield ArchiveFiles({}, path, opened)
            return
        try:
            opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except FileNotFoundError:
            raise ConfigError(f"no file at {path}") from None
        with open_decompressed(_byte_range(opened[0], path.name), caps) as tar:
            yield ArchiveFiles(_files_by_name(tar), None, opened)
    finally:
        for fd in opened:
            os.close(fd)


def _byte_range(fd: int, name: str) -> ByteRange:
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        raise bad_archive(f"`{name}` is not a regular file")
    return ByteRange(fd, 0, about.st_size)


def _files_by_name(tar: ByteRange) -> dict[str, ByteRange]:
    """Files by name. Old versions of `docker save` write a layer once and link to it where it is used again."""
    found: dict[str, ByteRange] = {}
    links: dict[str, str] = {}
    for number, entry in enumerate(read_entries(tar)):
        if number > 100_000:
            raise bad_archive("more than 100000 files in an image archive")
        name = posixpath.normpath(entry.name.decode("utf-8", "surrogateescape"))
        link = entry.link.decode("utf-8", "surrogateescape")
        if entry.kind is TarKind.FILE:
            at = entry.segments[0].at if entry.segments else 0
            if len(entry.segments) > 1 or entry.size != sum(segment.length for segment in entry.segments):
                raise bad_archive(f"`{name}` is a sparse file, which is not allowed in an image archive")
            found[name] = tar.part(at, entry.size)
        elif entry.kind is TarKind.LINK:
            links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        elif entry.kind is TarKind.HARD_LINK:
            links[name] = posixpath.normpath(link)
    return found | {name: found[target] for name, target in links.items() if target in found}


@contextmanager
def open_decompressed(packed: ByteRange, caps: ImageCaps) -> Generator[ByteRange]:
    """A tar; a compressed one is decompressed into an unnamed temporary file first."""
    if not is_compressed(packed):
        yield packed
        return
    most = min(caps.size_bytes, caps.free_bytes + caps.ratio * packed.size)
    images_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=images_folder()) as file, closing(decompress(packed)) as chunks:
        for chunk in chunks:
            file.write(chunk)
            if file.tell() > most:
                raise bad_archive(f"{packed.size} compressed bytes become more than {most}: a decompression bomb?")
        file.flush()
        yield ByteRange(file.fileno(), 0, file.tell())


def digest_of(data: bytes) -> str:
    """The digest of some bytes, as image manifests write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def blob_name(digest: str) -> str:
    """The path of a blob in an OCI layout."""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise bad_archive(f"a blob named {digest[:80]!r}; only sha256 is supported")
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"
