# ruff: noqa: PTH101, PTH102, PTH108, PTH115, PTH208, PTH211 - paths are bytes here: names in an archive need not be UTF-8
"""Builds a root file system from layers that may be malicious.

Layers are unpacked one over the other into one folder, bottom first: a whiteout removes a path, an opaque folder is emptied, and
a later file replaces an earlier one. (Keeping them apart would save disk where images share layers, but slow down every start and
lookup.) Nothing is written through a link from an archive: paths are resolved step by step, links as inside a chroot, and the
last step is never followed. Nothing else can write to the draft, so what was checked stays true.

Left out: devices and pipes (sandboxes have their own `/dev`), the setuid and setgid bits of files (sandboxes ignore them, and the
store must not hold a root shell for the host), extended attributes. Root keeps the owners of files; an ordinary user owns all of
them.
"""

import os
import shutil
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandlot.sandbox.images.byte_range import ByteRange, bad_archive
from sandlot.sandbox.images.tar import TarEntry, TarKind, read_entries

_WHITEOUT = b".wh."
_OPAQUE = b".wh..wh..opq"
_AUFS = b".wh..wh."
"""Records of an old file system (AUFS), ignored except for the opaque mark."""
_MAX_LINKS = 40
_MAX_DEPTH = 256
_MAX_ID = 65535
_NOBODY = 65534


@dataclass(frozen=True, slots=True)
class ImageCaps:
    """Size limits of an image; more is taken for a decompression bomb."""

    num_paths: int = 2_000_000
    size_bytes: int = 32 << 30
    """Size of all files, holes included."""
    ratio: int = 200
    """Uncompressed bytes per compressed byte, beyond the first `free_bytes`."""
    free_bytes: int = 64 << 20


class Unpacking:
    """Builds one image in a fresh folder that no other process writes to."""

    def __init__(self, root: Path, caps: ImageCaps | None = None, *, keep_owners: bool) -> None:
        self._root = os.fsencode(root)
        self._caps = caps or ImageCaps()
        self._keep_owners = keep_owners
        self._num_paths = 0
        self._size_bytes = 0
        self._folders: dict[bytes, tuple[int, int]] = {}
        """Mode and time of each folder: set at the end, since adding files needs a writable folder and changes its time."""
        self.num_left_out = 0
        """Number of devices and pipes that were left out."""

    def add(self, layer: ByteRange) -> None:
        """Add a layer on top. Its whiteouts are applied first: they concern only the layers below, wherever they are in it."""
        for entry in read_entries(layer):
            self._count(entry)
            *_, name = parts = _parts(entry.name) or [b""]
            if name.startswith(_WHITEOUT):
                self._apply_whiteout(parts)
        for entry in read_entries(layer):
            parts = _parts(entry.name)
            if not parts:
                self._set_root(entry)
            elif not parts[-1].startswith(_WHITEOUT):
                self._add_entry(parts, entry, layer)

    def finish(self) -> None:
        """Set the modes and times of folders, the innermost first.

        The tree is walked instead of using the known paths, because a link to the host may have replaced a part of them.
        """
        for path, _, _ in os.walk(self._root, topdown=False):
            if path in self._folders:
                mode, mtime_ns = self._folders[path]
                os.chmod(path, mode)
                os.utime(path, ns=(mtime_ns, mtime_ns))

    def _count(self, entry: TarEntry) -> None:
        self._num_paths += 1
        self._size_bytes += entry.size
        self._check_caps()

    def _check_caps(self) -> None:
        if self._num_paths > self._caps.num_paths:
            raise bad_archive(f"more than {self._caps.num_paths} paths in one image")
        if self._size_bytes > self._caps.size_bytes:
            raise bad_archive(f"more than {self._caps.size_bytes} bytes in one image")

    # -- removing ----------------------------------------------------------------------------------------------------

    def _apply_whiteout(self, parts: list[bytes]) -> None:
        *above, name = parts
        folder = self._resolve(above, make=False)
        if folder is None:
            return
        if name == _OPAQUE:
            for inside in os.listdir(folder):
                _remove(folder + b"/" + inside)
        elif not name.startswith(_AUFS):
            hidden = name.removeprefix(_WHITEOUT)
            if hidden in {b"", b".", b".."}:
                raise bad_archive(f"a whiteout without a name: {b'/'.join(parts)!r}")
            _remove(folder + b"/" + hidden)

    # -- making ------------------------------------------------------------------------------------------------------

    def _set_root(self, entry: TarEntry) -> None:
        if entry.kind is not TarKind.FOLDER:
            raise bad_archive(f"the root of the image is a {entry.kind}")
        self._folders[self._root] = entry.mode | stat.S_IRWXU, _clamped_time_ns(entry)

    def _add_entry(self, parts: list[bytes], entry: TarEntry, layer: ByteRange) -> None:
        folder = self._resolve(parts[:-1], make=True)
        assert folder is not None
        path = folder + b"/" + parts[-1]
        if entry.kind is TarKind.OTHER:
            self.num_left_out += 1
            _remove(path)
        elif entry.kind is TarKind.HARD_LINK:
            self._link(path, entry)
        elif entry.kind is TarKind.FOLDER:
            if not _is_folder(path):
                _remove(path)
                os.mkdir(path, 0o700)
            self._set_owner(path, entry)
            self._folders[path] = entry.mode, _clamped_time_ns(entry)
        else:
            _remove(path)
            self._write(path, entry, layer)

    def _write(self, path: bytes, entry: TarEntry, layer: ByteRange) -> None:
        if entry.kind is TarKind.LINK:
            if not entry.link:
                raise bad_archive(f"a link without a target: {entry.name!r}")
            os.symlink(entry.link, path)
            self._set_owner(path, entry)
        else:
            _write_file(path, entry, layer)
            self._set_owner(path, entry)
            os.chmod(path, entry.mode & 0o777)  # after the owner: changing the owner may clear mode bits
        os.utime(path, ns=(_clamped_time_ns(entry), _clamped_time_ns(entry)), follow_symlinks=False)

    def _link(self, path: bytes, entry: TarEntry) -> None:
        """Make a hard link to a file of this image; files of lower layers are in the same folder by now."""
        *above, name = _parts(entry.link) or [b""]
        folder = self._resolve(above, make=False)
        target = folder + b"/" + name if folder is not None and name else b""
        if target == path:
            return
        if not target or not os.path.lexists(target) or _is_folder(target):
            raise bad_archive(f"{entry.name!r} is a hard link to {entry.link!r}, which is not in the image")
        _remove(path)
        os.link(target, path, follow_symlinks=False)

    def _set_owner(self, path: bytes, entry: TarEntry) -> None:
        if self._keep_owners:
            uid, gid = (number if number <= _MAX_ID else _NOBODY for number in (entry.uid, entry.gid))
            os.chown(path, uid, gid, follow_symlinks=False)

    def _resolve(self, parts: Sequence[bytes], *, make: bool) -> bytes | None:
        """The real folder of a path, links followed as inside a chroot; None if it is missing and `make` is False."""
        done: list[bytes] = []
        todo = deque(parts)
        num_links = 0
        while todo:
            part = todo.popleft()
            if part in {b"", b"."}:
                continue
            if part == b"..":  # only from a link: entry names with `..` are refused
                done = done[:-1]
                continue
            path = b"/".join((self._root, *done, part))
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                if not make:
                    return None
                self._make_folder(path)
                mode = stat.S_IFDIR
            if stat.S_ISLNK(mode):
                num_links += 1
                target = os.readlink(path)
                done = [] if target.startswith(b"/") else done
                todo.extendleft(reversed(target.split(b"/")))
            elif stat.S_ISDIR(mode):
                done.append(part)
            elif make:
                raise bad_archive(f"{b'/'.join(parts)!r} leads through something that is not a folder")
            else:
                return None
            if num_links > _MAX_LINKS or len(done) > _MAX_DEPTH:
                raise bad_archive(
                    f"{b'/'.join(parts)[:200]!r} leads through more than {_MAX_LINKS} links or {_MAX_DEPTH} folders"
                )
        return b"/".join((self._root, *done))

    def _make_folder(self, path: bytes) -> None:
        self._num_paths += 1
        self._check_caps()
        os.mkdir(path, 0o700)
        self._folders[path] = 0o755, 0


def _parts(name: bytes) -> list[bytes]:
    """The parts of an entry's name; a leading `/` is the image's root."""
    parts = [part for part in name.split(b"/") if part not in {b"", b"."}]
    if b".." in parts:
        raise bad_archive(f"{name!r} leads out of the image")
    if any(part.startswith(_WHITEOUT) for part in parts[:-1]):
        raise bad_archive(f"{name!r} is below a whiteout")
    return parts


def _write_file(path: bytes, entry: TarEntry, layer: ByteRange) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", buffering=0) as file:  # noqa: PTH123 - opened by descriptor
        for segment in entry.segments:
            file.seek(segment.offset)
            file.writelines(layer.part(segment.at, segment.length).chunks())
        file.truncate(entry.size)


def _remove(path: bytes) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _clamped_time_ns(entry: TarEntry) -> int:
    return min(max(entry.mtime_ns, 0), 2**33 * 10**9)
