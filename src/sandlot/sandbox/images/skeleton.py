"""The folders that every root file system has, whatever is in the image."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sandlot.sandbox.images.store import ImageAbout, Lease, keep, key_for

FORMAT = "2"
"""Part of every skeleton's key: change it when the contents of a skeleton change."""

_FOLDERS = (
    *("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr"),
    *("var", "var/cache", "var/lib", "var/lock", "var/log", "var/tmp"),
)


def make_bare_skeleton() -> Lease:
    """A root with nothing but the folders."""

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
    """Create files with the umask 022, whatever the user's is."""
    old = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(old)
