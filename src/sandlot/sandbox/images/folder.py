"""A plain folder as an image: a root file system as it lies there. It must not change while it is used."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sandlot.errors import ConfigError
from sandlot.sandbox.images.image import Image
from sandlot.sandbox.images.skeleton import bare_skeleton


def folder_image(folder: Path) -> Image:
    """Stacked over a bare skeleton, so that `/tmp` and the like are always there."""
    if not folder.is_dir():
        raise ConfigError(f"image `folder:{folder}`: no folder at {folder}")
    bare = bare_skeleton()
    return Image(name=f"folder:{folder}", trees=(("/", (folder, bare.root)),), portable=True, leases=(bare,))


def folder_digest(folder: Path) -> str:
    """One hash over every path, kind, mode and content below a folder. Owners and times are left out: copies should agree."""
    if not folder.is_dir():
        raise ConfigError(f"image `folder:{folder}`: no folder at {folder}")
    whole = hashlib.sha256()
    for path in walk(folder):
        about = path.lstat()
        content = b""
        if stat.S_ISREG(about.st_mode):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        elif stat.S_ISLNK(about.st_mode):
            content = os.fsencode(path.readlink())
        whole.update(os.fsencode(path.relative_to(folder)) + b"\0" + f"{about.st_mode:o}".encode() + b"\0" + content + b"\0")
    return f"sha256:{whole.hexdigest()}"


def walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder in a stable order; links are not followed."""
    with os.scandir(folder) as entries:
        inside = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in inside:
        yield folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from walk(folder / entry.name)
