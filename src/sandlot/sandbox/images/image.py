"""An image, ready to be stacked under a sandbox, and the one rule every root file system must keep."""

import stat
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.errors import ConfigError
from sandlot.sandbox.images.store import Lease
from sandlot.sandbox.surroundings import Surroundings

MOUNT_POINTS = ("dev", "proc", "sys")
"""Sandboxes mount their own here, by path: a link in an image would send the mount elsewhere."""


@dataclass(frozen=True, slots=True)
class Image:
    """Folders of the host to be stacked, topmost first, for each mount point."""

    name: str
    trees: tuple[tuple[str, tuple[Path, ...]], ...]
    portable: bool
    """False if another machine would not have the same bytes."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    """What it wants its commands to start with."""
    leases: tuple[Lease, ...] = field(default=(), repr=False)
    """Keep this object for as long as the folders are used: the store removes nothing that is held."""


def require_mount_points(root: Path) -> None:
    """Refuse a root file system whose `/dev`, `/proc` or `/sys` is something else than a folder."""
    for name in MOUNT_POINTS:
        try:
            mode = (root / name).lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            raise ConfigError(f"`/{name}` of {root} must be a folder, because sandboxes mount their own there")
