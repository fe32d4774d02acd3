"""An image, ready to be stacked under a sandbox, and the one rule every root file system must keep."""

import stat
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.images.store import Lease

_MOUNT_POINTS = ("dev", "proc", "sys")
"""Sandboxes mount their own here, by path: a link in an image would send the mount elsewhere."""


@dataclass(frozen=True, slots=True)
class Image:
    """Folders of the host to be stacked, topmost first, for each mount point."""

    name: str
    trees: tuple[tuple[str, tuple[Path, ...]], ...]
    portable: bool
    """False if another machine would not have the same bytes."""
    defaults: CommandDefaults = field(default_factory=CommandDefaults)
    """What it wants its commands to start with."""
    leases: tuple[Lease, ...] = field(default=(), repr=False)
    """Keep this object for as long as the folders are used: the store removes nothing that is held."""


def unwritable_error(image: str, folder: Path) -> ConfigError:
    """The refusal of an image whose files would belong to nobody inside."""
    kind = _file_system(folder)
    return ConfigError(
        f"image `{image}`: {folder} lies on a file system of type `{kind}`, which cannot show its files as the sandbox's own, so "
        "nothing inside could change them. Copy it to a plain disk or a tmpfs (`cp -a`); for images that Sandlot keeps, set "
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
    """Refuse a root file system whose `/dev`, `/proc` or `/sys` is something else than a folder."""
    for name in _MOUNT_POINTS:
        try:
            mode = (root / name).lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            raise ConfigError(f"`/{name}` of {root} must be a folder, because sandboxes mount their own there")
