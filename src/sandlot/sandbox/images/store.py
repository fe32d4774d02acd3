"""The store of built images, in the cache folder.

    images/KEY/root      the files            images/KEY/about.json  its record        images/KEY/lock  held by its users
    images/.draft-*      being built          images/.making-KEY     held by the process that builds it

An image is built in a draft folder and renamed, so it is complete or absent. Every user holds a shared lock on it (a `Lease`),
which the system releases when the process dies; `remove_unused_images` removes only images without users. KEY is the kind, a hash
of what the image is built from and, for an ordinary user, the user id, since the files belong to that user.
"""

import fcntl
import logging
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.errors import SandboxError
from sandlot.sandbox.program import cache_folder

_log = logging.getLogger(__name__)

_DRAFT = ".draft-"
_MAKING = ".making-"
_YOUNG_S = 3600
"""A draft without a lock file is kept this long: its builder may not have made the lock yet."""


class ImageAbout(msgspec.Struct, frozen=True, kw_only=True):
    """`about.json` of a stored image."""

    format: int = 1
    kind: str
    """`host`, `places`, `hidden`, `bare`, `archive`, `debian` or `containerfile`."""
    name: str
    """The spec it was first built for."""
    digest: str
    """Hash of what it was built from; part of the environment's fingerprint."""
    made: float = 0.0
    size_bytes: int = 0
    num_files: int = 0
    notes: tuple[str, ...] = ()
    """What was left out or changed while building."""
    base: str = ""
    """The spec of the image that this one is a layer on; empty for a whole image."""
    env: tuple[str, ...] = ()
    user: str = "root"
    folder: str = "/"
    """Defaults for commands, of an image built from a Containerfile: `NAME=value`, the user, the working directory."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image of the store."""

    key: str
    about: ImageAbout
    used: float
    """When it was last used, in seconds since the epoch."""


class Lease:
    """A stored image that is not removed while this object exists."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.lock = lock
        """The descriptor of the lock; a child process that inherits it keeps the image too."""
        self.release = weakref.finalize(self, os.close, lock)

    @property
    def root(self) -> Path:
        """The image's files."""
        return self.folder / "root"

    def about(self) -> ImageAbout:
        """Its record."""
        return _read_about(self.folder)


def images_folder() -> Path:
    """The folder of the store."""
    return cache_folder() / "images"


def key_for(kind: str, hexes: str) -> str:
    """The key of an image."""
    return f"{kind}-{hexes}" + (f"-u{os.geteuid()}" if os.geteuid() else "")


def hold(key: str) -> Lease | None:
    """Lease a stored image; None if it was never built or is being removed."""
    folder = images_folder() / key
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    lease = Lease(folder, fd)
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        same = os.path.samestat(os.fstat(fd), (folder / "lock").stat())
    except FileNotFoundError:  # removed while we waited for it
        same = False
    if not same:
        lease.release()
        return None
    if os.access(folder / "lock", os.W_OK):
        os.utime(fd)
    return lease


def keep(key: str, fill: Callable[[Lease], ImageAbout]) -> Lease:
    """Lease an image, and build it first if it is missing: `fill` writes its root. Only one process builds; others wait."""
    try:
        there = hold(key)
        if there is not None:
            return there
        images_folder().mkdir(parents=True, exist_ok=True)
        with _build_lock(key):
            return hold(key) or _build(key, fill)
    except OSError as error:
        raise SandboxError(
            f"cannot store image `{key}` in {images_folder()}: {error}; set XDG_CACHE_HOME to another folder", kind="config"
        ) from error


def _build(key: str, fill: Callable[[Lease], ImageAbout]) -> Lease:
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=images_folder()))
    try:
        fd = os.open(draft / "lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        lease = Lease(draft, fd)
        fcntl.flock(fd, fcntl.LOCK_SH)
        lease.root.mkdir()
        lease.root.chmod(0o755)
        about = msgspec.structs.replace(fill(lease), made=SYSTEM_CLOCK.wall(), **_measure(lease.root))
        (draft / "about.json").write_bytes(msgspec.json.encode(about))
        draft.rename(images_folder() / key)
    except BaseException:
        _remove_tree(draft)
        raise
    lease.release.detach()
    _log.info("made an image", extra={"image": about.name, "digest": about.digest, "size_bytes": about.size_bytes})
    return Lease(images_folder() / key, fd)


@contextmanager
def _build_lock(key: str) -> Generator[None]:
    fd = os.open(images_folder() / f"{_MAKING}{key}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("waiting for another process that builds the same image", extra={"image": key})
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # the file stays: if it were removed, two processes could lock two files


def list_images() -> list[StoredImage]:
    """Every image of the store, the last used one first."""
    found: list[StoredImage] = []
    for path in images_folder().glob("*/about.json"):
        folder = path.parent
        if folder.name.startswith("."):
            continue
        try:
            found.append(StoredImage(key=folder.name, about=_read_about(folder), used=(folder / "lock").stat().st_mtime))
        except FileNotFoundError:  # removed since we looked
            continue
    return sorted(found, key=lambda item: item.used, reverse=True)


def remove_unused_images(
    keep: Collection[str] = (), *, unused_for_s: float = 0.0, clock: Clock = SYSTEM_CLOCK
) -> list[StoredImage]:
    """Remove images without users and drafts of dead processes; returns the removed images. `keep`: digests or keys to keep."""
    gone: list[StoredImage] = []
    for item in list_images():
        stays = item.key in keep or item.about.digest in keep or clock.wall() - item.used < unused_for_s
        if not stays and _remove(images_folder() / item.key):
            gone.append(item)
    for draft in images_folder().glob(f"{_DRAFT}*"):
        if (draft / "lock").exists() or clock.wall() - draft.stat().st_mtime > _YOUNG_S:
            _remove(draft)
    return gone


def _remove(folder: Path) -> bool:
    """Rename the folder away, then delete it; False if it is in use."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        doomed = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder.parent))
        folder.rename(doomed)
    except (BlockingIOError, FileNotFoundError):
        return False
    else:
        _remove_tree(doomed)
        return True
    finally:
        os.close(fd)


def _remove_tree(folder: Path) -> None:
    """Delete a folder, also one with folders that an ordinary user may not write to."""
    if os.geteuid() != 0:
        for path, _, _ in os.walk(os.fsencode(folder)):
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101 - bytes: names need not be text
    shutil.rmtree(os.fsencode(folder))


def _read_about(folder: Path) -> ImageAbout:
    return msgspec.json.decode((folder / "about.json").read_bytes(), type=ImageAbout)


def _measure(root: Path) -> dict[str, int]:
    """Bytes on disk, with each hard-linked file counted once, and the number of paths."""
    seen: set[tuple[int, int]] = set()
    size = number = 0
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            about = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - names are bytes: they need not be text
            number += 1
            if (about.st_dev, about.st_ino) not in seen:
                seen.add((about.st_dev, about.st_ino))
                size += about.st_blocks * 512
    return {"size_bytes": size, "num_files": number}
