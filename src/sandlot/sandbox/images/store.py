"""What images were made into, kept by content in the cache folder.

    images/KEY/root      the files            images/KEY/about.json  what it is        images/KEY/lock  held by its users
    images/.draft-*      being made           images/.making-KEY     one maker at a time, whichever process asks

An image appears whole or not at all: it is made in a draft and renamed. Whoever uses one holds a shared lock on it (a `Lease`),
which the system drops when the process dies; `gc` removes only what nobody holds. KEY names what the image was made from and, for
an ordinary user, whose it is, since files then belong to that user.
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
"""A draft without a lock file is left alone this long: its maker may be between two steps."""


class ImageAbout(msgspec.Struct, frozen=True, kw_only=True):
    """`about.json` of a kept image."""

    format: int = 1
    kind: str
    """`host`, `places`, `hidden`, `bare`, `archive` or `debian`."""
    name: str
    """The spec it was first made for."""
    digest: str
    """What it was made from; the environment's fingerprint contains it."""
    made: float = 0.0
    size_bytes: int = 0
    num_files: int = 0
    notes: tuple[str, ...] = ()
    """What was left out or changed on the way in."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image of the store, as listed."""

    key: str
    about: ImageAbout
    used: float
    """When it was last asked for, seconds since the epoch."""


class Lease:
    """A kept image that cannot be removed while this object lives."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self.release = weakref.finalize(self, os.close, lock)

    @property
    def root(self) -> Path:
        """The image's files."""
        return self.folder / "root"

    @property
    def lock(self) -> int:
        """The descriptor that holds it; a child process that inherits it holds the image too."""
        return self._lock

    def about(self) -> ImageAbout:
        """What it is."""
        return _read_about(self.folder)


def images_folder() -> Path:
    """Where images are kept."""
    return cache_folder() / "images"


def key_for(kind: str, hexes: str) -> str:
    """The name an image is kept by."""
    return f"{kind}-{hexes}" + (f"-u{os.geteuid()}" if os.geteuid() else "")


def hold(key: str) -> Lease | None:
    """A kept image, or None if it was never made or is just being removed."""
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
    """The image of that name; `fill` puts it into a fresh root if there is none. Other processes wait for the same one."""
    try:
        there = hold(key)
        if there is not None:
            return there
        images_folder().mkdir(parents=True, exist_ok=True)
        with _build_lock(key):
            return hold(key) or _build(key, fill)
    except OSError as error:
        raise SandboxError(
            f"cannot keep image `{key}` in {images_folder()}: {error}; set XDG_CACHE_HOME", kind="config"
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
            _log.warning("waiting for another process that makes the same image", extra={"image": key})
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # the file stays: removing it would let two makers hold two files


def list_images() -> list[StoredImage]:
    """Every image of the store, the one used last first."""
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
    """Remove images that nobody holds, and what crashes left; returns what went. `keep`: digests or keys that stay."""
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
    """Gone in one rename, then file by file; False if somebody holds it."""
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
    """Also for an ordinary user, whose images have folders they may not write to."""
    if os.geteuid() != 0:
        for path, _, _ in os.walk(os.fsencode(folder)):
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101 - bytes: names need not be text
    shutil.rmtree(os.fsencode(folder))


def _read_about(folder: Path) -> ImageAbout:
    return msgspec.json.decode((folder / "about.json").read_bytes(), type=ImageAbout)


def _measure(root: Path) -> dict[str, int]:
    """Bytes on disk, each file once whatever links it has, and the number of paths."""
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
