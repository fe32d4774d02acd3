"""Image archives: what `docker save`, `skopeo` and `podman save` write, unpacked without a daemon.

An archive is somebody else's: every name in it is treated as hostile. Layers are unpacked one by one into folders of their own,
through descriptors that never follow a link, so that no name can lead outside; whiteouts become what overlay understands. Device
nodes, setuid bits and sockets are left out: nothing in a sandbox could use them. Sizes and counts are bounded before they are
spent. A layer is kept by the digest of itself and all below it, so images that share their beginnings share folders.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from sandlot.errors import ConfigError

MAX_BYTES = 32 << 30
"""All files of one layer together."""
MAX_ENTRIES = 2_000_000
MAX_JSON_BYTES = 4 << 20
MAX_LAYERS = 100
MAX_READ = 16 << 20
NOBODY = 65534
DAMAGED = (
    *(tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError),
    *(LookupError, TypeError, ValueError, OverflowError, RecursionError),
)
"""What reading somebody else's archive raises."""
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image's layers as folders, topmost first, and the digest of its configuration."""

    layers: tuple[Path, ...]
    digest: str


def unpack(archive: Path, store: Path) -> Unpacked:
    """Unpack an archive into a store of layers; what is there already is used. `ConfigError` says what is wrong with it."""
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=cast("Any", _Bounded(file)), mode="r:") as outer:
            config, names = _contents(outer)
            layers: list[Path] = []
            for name in names:
                layers.append(_layer(outer, name, store, layers))
    except ConfigError as error:
        raise ConfigError(f"image archive {archive}: {error}") from error
    except DAMAGED as error:
        raise ConfigError(f"image archive {archive}: {type(error).__name__}: {error}") from error
    if not layers:
        raise ConfigError(f"image archive {archive}: it has no layers")
    return Unpacked(layers=tuple(reversed(layers)), digest=f"sha256:{hashlib.sha256(config).hexdigest()}")


def _contents(outer: tarfile.TarFile) -> tuple[bytes, list[str]]:
    """The configuration's bytes and the names of the layers, lowest first: Docker's own manifest, else an OCI layout's."""
    if "manifest.json" in outer.getnames():
        manifest = json.loads(_small(outer, "manifest.json"))[0]
        return _small(outer, manifest["Config"]), [str(name) for name in manifest["Layers"]]
    index = json.loads(_small(outer, "index.json"))
    manifest = json.loads(_small(outer, _blob(index["manifests"][0])))
    if "manifests" in manifest:  # an index of indexes: one for each kind of machine
        manifest = json.loads(_small(outer, _blob(manifest["manifests"][0])))
    return _small(outer, _blob(manifest["config"])), [_blob(layer) for layer in manifest["layers"]]


def _blob(descriptor: dict[str, Any]) -> str:
    algorithm, _, value = str(descriptor["digest"]).partition(":")
    return f"blobs/{algorithm}/{value}"


def _small(outer: tarfile.TarFile, name: str) -> bytes:
    with _member(outer, name) as file:
        data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise ConfigError(f"`{name}` in the archive is larger than {MAX_JSON_BYTES} bytes")
    return data


@contextmanager
def _member(outer: tarfile.TarFile, name: str) -> Generator[IO[bytes]]:
    info = outer.getmember(name)
    if info.issym():  # `docker save` writes one layer that two images share as a link to the other
        info = outer.getmember(os.path.normpath(os.path.join(os.path.dirname(name), info.linkname)))  # noqa: PTH118, PTH120 - names, not paths
    file = outer.extractfile(info)
    if file is None:
        raise ConfigError(f"`{name}` in the archive is not a file")
    with file:
        yield file


def _layer(outer: tarfile.TarFile, name: str, store: Path, below: list[Path]) -> Path:
    if len(below) == MAX_LAYERS:
        raise ConfigError(f"more than {MAX_LAYERS} layers")
    with _member(outer, name) as file:
        own = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
    chain = hashlib.sha256(f"{below[-1].name if below else ''} {own}".encode()).hexdigest()
    folder = store / f"layer-{chain[:32]}-{os.getuid()}"
    if folder.exists():
        return folder
    store.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=store))
    try:
        made.chmod(0o755)
        with _member(outer, name) as file, _opened(file) as inner:
            _Unpacking(made, below).run(inner)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder


class _Bounded:
    """A file whose reader cannot be talked into one giant read: a header of claimed gigabytes would be taken into memory."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.tell = file.tell
        self.seek = file.seek
        self.seekable = file.seekable

    def read(self, count: int) -> bytes:
        if not 0 <= count <= MAX_READ:
            raise ConfigError(f"a header in the archive claims {count} bytes")
        return self._file.read(count)


@contextmanager
def _opened(file: IO[bytes]) -> Generator[tarfile.TarFile]:
    """A layer's own archive, whatever it is packed with."""
    magic = file.read(6)
    file.seek(0)
    plain: Any = file
    if magic[:2] == b"\x1f\x8b":
        plain = gzip.GzipFile(fileobj=file)
    elif magic[:3] == b"BZh":
        plain = bz2.BZ2File(file)
    elif magic == b"\xfd7zXZ\0":
        plain = lzma.LZMAFile(file)  # noqa: SIM115 - as above
    elif magic[:4] == b"\x28\xb5\x2f\xfd":
        raise ConfigError("a layer is packed with zstd; save the image with gzip layers")
    with tarfile.open(fileobj=cast("Any", _Bounded(plain)), mode="r:") as layer:
        yield layer


class _Unpacking:
    """One layer on its way into a folder."""

    def __init__(self, folder: Path, below: list[Path]) -> None:
        self._folder = folder
        self._below = below
        self._root = os.geteuid() == 0
        self._left = MAX_BYTES

    def run(self, layer: tarfile.TarFile) -> None:
        modes: list[tuple[str, tarfile.TarInfo]] = []
        for count, info in enumerate(layer):
            if count >= MAX_ENTRIES:
                raise ConfigError(f"a layer has more than {MAX_ENTRIES} entries")
            path = _inside(info.name)
            if path:
                self._put(layer, info, path)
                if info.isdir():
                    modes.append((path, info))
        for path, info in reversed(modes):  # last, so that a folder nobody may write can still be filled
            with self._parent(path) as (parent, name):
                self._finish(parent, name, info)

    def _put(self, layer: tarfile.TarFile, info: tarfile.TarInfo, path: str) -> None:
        with self._parent(path) as (parent, name):
            if name == _OPAQUE:
                os.setxattr(parent, "trusted.overlay.opaque" if self._root else "user.overlay.opaque", b"y")
                return
            if name.startswith(_WHITEOUT):
                gone = name.removeprefix(_WHITEOUT)
                if gone in {"", ".", ".."} or "/" in gone:
                    raise ConfigError(f"a whiteout names {gone!r}")
                _clear(parent, gone)
                os.mknod(gone, stat.S_IFCHR, 0, dir_fd=parent)
                return
            if info.isdir() and _is_folder(parent, name):
                return
            _clear(parent, name)
            if info.isdir():
                os.mkdir(name, 0o700, dir_fd=parent)
            elif info.issym():
                os.symlink(info.linkname, name, dir_fd=parent)  # only ever followed inside the sandbox
                self._own(parent, name, info)
                os.utime(name, (info.mtime, info.mtime), dir_fd=parent, follow_symlinks=False)
            elif info.islnk():
                self._link(_inside(info.linkname), parent, name)
            elif info.isreg():
                self._write(layer, info, parent, name)
            elif info.isfifo():
                os.mkfifo(name, 0o600, dir_fd=parent)
                self._finish(parent, name, info)

    def _link(self, original: str, parent: int, name: str) -> None:
        """A hard link to a file of this layer; to one of a layer below, where a link cannot reach, it becomes a copy."""
        try:
            with self._parent(original, make=False) as (source, last):
                os.link(last, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            for folder in reversed(self._below):
                if _copied(folder, original, parent, name):
                    return
            raise ConfigError(f"a hard link to `{original}`, which no layer has") from None

    def _write(self, layer: tarfile.TarFile, info: tarfile.TarInfo, parent: int, name: str) -> None:
        self._left -= info.size
        if self._left < 0:
            raise ConfigError(f"a layer unpacks to more than {MAX_BYTES} bytes")
        source = layer.extractfile(info)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as target:
            if source is not None:
                shutil.copyfileobj(source, target, 1 << 20)
        self._finish(parent, name, info)

    def _own(self, parent: int, name: str, info: tarfile.TarInfo) -> None:
        if self._root:
            uid, gid = (number if number < 1 << 16 else NOBODY for number in (info.uid, info.gid))
            os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)

    def _finish(self, parent: int, name: str, info: tarfile.TarInfo) -> None:
        self._own(parent, name, info)
        os.chmod(name, info.mode & 0o1777, dir_fd=parent)
        os.utime(name, (info.mtime, info.mtime), dir_fd=parent, follow_symlinks=False)

    @contextmanager
    def _parent(self, path: str, *, make: bool = True) -> Generator[tuple[int, str]]:
        """The folder a path lies in, opened step by step without following anything; made where it is missing."""
        *folders, name = path.split("/")
        at = os.open(self._folder, _FOLDER)
        try:
            for folder in folders:
                if make and not _is_folder(at, folder):
                    _clear(at, folder)  # a link or file in the way is the layer's own, and is replaced as by any unpacking
                    os.mkdir(folder, 0o755, dir_fd=at)
                inner = os.open(folder, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
            yield at, name
        finally:
            os.close(at)


def _copied(folder: Path, original: str, parent: int, name: str) -> bool:
    """Copy a regular file of another layer, found without following anything; False if it is not there."""
    *folders, last = original.split("/")
    at = os.open(folder, _FOLDER)
    try:
        for step in folders:
            inner = os.open(step, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        about = os.stat(last, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode):
            return False
        source = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with os.fdopen(source, "rb") as read, os.fdopen(target, "wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
            os.fchown(target, about.st_uid, about.st_gid)
            os.fchmod(target, stat.S_IMODE(about.st_mode))
    except (FileNotFoundError, NotADirectoryError):
        return False
    finally:
        os.close(at)
    return True


def _inside(name: str) -> str:
    """A member's path below the root, or nothing for the root itself; `..` and NUL are refused, not repaired."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if ".." in parts or "\0" in name:
        raise ConfigError(f"an entry is named {name!r}, which leads outside")
    return "/".join(parts)


def _is_folder(parent: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _clear(parent: int, name: str) -> None:
    """Make room for an entry that comes a second time, with another kind."""
    if _is_folder(parent, name):
        shutil.rmtree(name, dir_fd=parent)
    else:
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            return
