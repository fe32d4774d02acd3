"""An image that is ready for sandboxes, and checks of its root file system."""

import platform
import stat
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.images.store import Lease

_MOUNT_POINTS = ("dev", "proc", "sys")
"""Sandboxes mount over these paths: a link in an image would redirect the mount."""


@dataclass(frozen=True, slots=True)
class SandboxImage:
    """The folders of the host to stack for each mount point, topmost first."""

    name: str
    trees: tuple[tuple[str, tuple[Path, ...]], ...]
    portable: bool
    """True if the same spec gives the same bytes on every machine."""
    defaults: CommandDefaults = field(default_factory=CommandDefaults)
    """Its defaults for commands."""
    leases: tuple[Lease, ...] = field(default=(), repr=False)
    """Keep this object while the folders are used: the store does not remove leased images."""


def image_architecture() -> str:
    """The processor of this machine, as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def unwritable_error(image: str, folder: Path) -> ConfigError:
    """The error for an image whose files would belong to `nobody` inside."""
    kind = _file_system(folder)
    return ConfigError(
        f"image `{image}`: {folder} is on a file system of type `{kind}`, which does not support id-mapped mounts, so processes "
        "inside could not change its files. Copy it to a local disk or a tmpfs (`cp -a`); for images in Sandlot's cache, set "
        "XDG_CACHE_HOME to a folder there"
    )


def _file_system(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the innermost mount that holds a folder."""
    found: tuple[int, str] = (0, "unknown")
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        place = Path(left.split()[4].replace("\\040", " "))
        if folder.is_relative_to(place):
            found = max(found, (len(place.parts), right.split()[0]))
    return found[1]


def require_mount_points(root: Path) -> None:
    """Refuse a root file system whose `/dev`, `/proc` or `/sys` is not a folder."""
    for name in _MOUNT_POINTS:
        try:
            mode = (root / name).lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            raise ConfigError(f"`/{name}` of {root} is not a folder; sandboxes mount their own `/{name}` there")
