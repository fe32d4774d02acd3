"""The folders every root file system has, whatever the image brings."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sandlot.sandbox.images.store import ImageAbout, Lease, keep, key_for

FORMAT = "2"
"""Part of every skeleton's name: change it when what a skeleton holds changes."""

_FOLDERS = (
    *("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr"),
    *("var", "var/cache", "var/lib", "var/lock", "var/log", "var/tmp"),
)


def make_bare_skeleton() -> Lease:
    """Nothing but the folders."""

    def fill(lease: Lease) -> ImageAbout:
        fill_bare(lease.root)
        return ImageAbout(kind="bare", name="bare", digest=f"bare:{FORMAT}")

    return keep(key_for("bare", FORMAT), fill)


def fill_bare(root: Path) -> None:
    """Put the folders into a fresh root."""
    with default_umask():
        for folder in _FOLDERS:
            (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "var/tmp").chmod(0o1777)
    (root / "root").chmod(0o700)


@contextmanager
def default_umask() -> Generator[None]:
    """Modes as they are asked for, whatever the user's habit."""
    old = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(old)
