"""The `host` image: the machine's own `/usr` under a generated root.

Its `/etc` has copies of harmless, world-readable files. Nothing else of the machine is in it: no homes, no `/var`, no sockets, no
secrets. It needs no download and is not portable, which its digest shows. Additional folders (a Python outside `/usr`, an
author's code) appear at their own paths; what is written to them stays in the sandbox.
"""

import hashlib
import os
import shutil
import stat
import time
from pathlib import Path

from sandlot.core.errors import ConfigError, SandboxError
from sandlot.sandbox.images.difference import packages_digest
from sandlot.sandbox.images.folder import folder_digest, walk
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.settings import hide_settings
from sandlot.sandbox.images.skeleton import FORMAT, default_umask, fill_bare
from sandlot.sandbox.images.store import ImageAbout, Lease, keep, key_for

ETC_KEPT = (
    *("alternatives", "bash.bashrc", "ca-certificates.conf", "debian_version", "fonts", "inputrc", "java*", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "libreoffice", "locale.alias", "locale.gen", "login.defs", "lsb-release", "magic"),
    *("mime.types", "nsswitch.conf", "os-release", "perl", "profile", "protocols", "python3*", "rpc", "services", "shells"),
    *("skel", "ssl/certs", "ssl/openssl.cnf", "terminfo"),
)
"""Files of the machine's `/etc` that programs need and that hold no secrets."""

USERS = (
    ("root", 0, "/root", "/bin/sh"),
    ("agent", 1000, "/home/agent", "/bin/sh"),
    ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin"),
)

_MODES = {"tmp": 0o1777, "root": 0o700}
"""Modes of the folders in which mount points are made: the usual ones."""

_MAX_TREES = 8
"""The same as in `agent/sandlot.h`."""

_NOTE = "not portable: another machine has another `/usr`"

_PAUSES_S = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
"""A package manager replaces files of `/etc` while they are read: then they are read again, after these pauses."""


class _ChangedError(Exception):
    """Settings changed while they were copied."""


def host_image(folders: tuple[Path, ...] = ()) -> SandboxImage:
    """The skeleton with the machine's `/usr` and the additional folders mounted in it."""
    skeleton = make_skeleton()
    real = [top for top in _top_folders() if not top.is_symlink()]  # a machine without merged /usr has real folders here
    more = _outermost(folders)
    places = _make_mount_points(more) if more else None
    root = (places.root, skeleton.root) if places else (skeleton.root,)
    hidden = hide_settings()
    usr = (hidden.root, Path("/usr")) if hidden else (Path("/usr"),)
    trees = (("/", root), ("/usr", usr), *((str(top), (top,)) for top in (*real, *more)))
    if len(trees) > _MAX_TREES:
        raise ConfigError(f"image `host` with {len(more)} folders; at most {_MAX_TREES - 2 - len(real)}: name a common parent")
    leases = tuple(lease for lease in (skeleton, places, hidden) if lease is not None)
    return SandboxImage(name=":".join(("host", *map(str, more))), trees=trees, portable=False, leases=leases)


def host_digest(folders: tuple[Path, ...] = ()) -> str:
    """`host:` and hashes of the copied `/etc` and of the list of installed packages; `/usr` is too large to be read each time.

    Additional folders are in it by name only: they are for code that is audited, which has its own fingerprint.
    """
    return ":".join((make_skeleton().about().digest, packages_digest(), *map(str, _outermost(folders))))


def _outermost(folders: tuple[Path, ...]) -> list[Path]:
    """Each folder once, without those inside another one or in `/usr`."""
    usual = {Path("/usr"), *_top_folders()}
    more = {folder for folder in folders if usual.isdisjoint((folder, *folder.parents))}
    for folder in more:
        if not folder.is_dir():
            raise ConfigError(f"image `host:{folder}`: no folder at {folder}")
        if len(folder.parts) < 3 or folder.parts[1] in {"etc", "dev", "proc", "sys"}:
            raise ConfigError(f"image `host:{folder}`: a sandbox may not see that much of the machine; name a folder inside it")
    return sorted(folder for folder in more if more.isdisjoint(folder.parents))


def _make_mount_points(folders: list[Path]) -> Lease:
    """Make empty folders to mount others on."""
    stamp = hashlib.sha256("\0".join(map(str, folders)).encode("utf-8", "surrogateescape"))

    def fill(lease: Lease) -> ImageAbout:
        with default_umask():
            for folder in folders:
                (lease.root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
            for top in {folder.parts[1] for folder in folders}:
                if top in _MODES:
                    (lease.root / top).chmod(_MODES[top])
        return ImageAbout(kind="places", name=":".join(("host", *map(str, folders))), digest=f"places:{stamp.hexdigest()}")

    return keep(key_for("places", stamp.hexdigest()), fill)


def _top_folders() -> list[Path]:
    return [Path(top) for top in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32") if Path(top).exists()]


def make_skeleton(etc: Path = Path("/etc")) -> Lease:
    """A bare root with the harmless settings of the machine, as they are at one moment."""
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        try:
            return _copy_settings(etc)
        except (_ChangedError, FileNotFoundError):
            continue
    raise SandboxError(f"image `host`: the files of `{etc}` changed each time they were copied; try again later", kind="start")


def _copy_settings(etc: Path) -> Lease:
    sources = _find_settings(etc)
    stamp = _stamp_of(sources)

    def fill(lease: Lease) -> ImageAbout:
        root = lease.root
        fill_bare(root)
        try:
            with default_umask():
                for top in _top_folders():
                    if top.is_symlink():
                        (root / top.name).symlink_to(top.readlink())
                    else:
                        (root / top.name).mkdir()
                for source in sources:
                    _copy(source, root / "etc" / source.relative_to(etc))
                _fill_etc(root / "etc")
            is_same = _stamp_of(_find_settings(etc)) == stamp
        except FileNotFoundError as error:
            raise _ChangedError from error
        if not is_same:
            raise _ChangedError
        return ImageAbout(kind="host", name="host", digest=f"host:{folder_digest(root)}", notes=(_NOTE,))

    return keep(key_for("host", stamp), fill)


def _find_settings(etc: Path) -> list[Path]:
    return sorted({path for pattern in ETC_KEPT for path in etc.glob(pattern)})


def _stamp_of(sources: list[Path]) -> str:
    stamp = hashlib.sha256(FORMAT.encode())
    for source in sources:
        for path in (source, *(walk(source) if source.is_dir() and not source.is_symlink() else ())):
            about = path.lstat()
            stamp.update(f"{path}\0{about.st_mode}\0{about.st_size}\0{about.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return stamp.hexdigest()


def _fill_etc(etc: Path) -> None:
    files = {
        "group": "".join(f"{name}:x:{number}:\n" for name, number, _, _ in USERS) + "tty:x:5:\n",
        "hostname": "sandbox\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "machine-id": "",
        "passwd": "".join(f"{name}:x:{number}:{number}::{home}:{shell}\n" for name, number, home, shell in USERS),
        "resolv.conf": "",
        "timezone": "Etc/UTC\n",
    }
    for name, content in files.items():
        (etc / name).write_text(content)
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (etc / "mtab").symlink_to("/proc/self/mounts")
    home = etc.parent / "home/agent"
    home.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(home, 1000, 1000)


def _copy(source: Path, target: Path) -> None:
    """Copy links as links, and world-readable folders and files; skip everything else."""
    about = source.lstat()
    if stat.S_ISLNK(about.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
    elif not about.st_mode & stat.S_IROTH:
        return
    elif stat.S_ISDIR(about.st_mode):
        target.mkdir(parents=True, exist_ok=True)
        for inner in sorted(source.iterdir()):
            _copy(inner, target / inner.name)
    elif stat.S_ISREG(about.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        os.utime(target, ns=(about.st_mtime_ns, about.st_mtime_ns))  # compiled files elsewhere refer to it
        target.chmod(stat.S_IMODE(about.st_mode) & 0o755)
