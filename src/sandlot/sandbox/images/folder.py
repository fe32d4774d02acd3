"""A folder with a root file system as an image, used in place. It must not change while it is used."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.skeleton import make_bare_skeleton


def folder_image(folder: Path) -> SandboxImage:
    """The image, with a bare skeleton below it so that `/tmp` and other standard folders always exist."""
    if not folder.is_dir():
        raise ConfigError(f"image `folder:{folder}`: no folder at {folder}")
    bare = make_bare_skeleton()
    return SandboxImage(name=f"folder:{folder}", trees=(("/", (folder, bare.root)),), portable=True, leases=(bare,))


def folder_digest(folder: Path) -> str:
    """A hash of every path, kind, mode and content below a folder. Owners and times are left out, so that copies agree."""
    if not folder.is_dir():
        raise ConfigError(f"image `folder:{folder}`: no folder at {folder}")
    whole = hashlib.sha256()
    for path in walk(folder):
        mode, content = _content(path)
        whole.update(os.fsencode(path.relative_to(folder)) + b"\0" + f"{mode:o}".encode() + b"\0" + content + b"\0")
    return f"sha256:{whole.hexdigest()}"


def file_digests(folder: Path) -> dict[str, str]:
    """Relative path -> mode and content hash of everything below a folder."""
    found = {str(path.relative_to(folder)): _content(path) for path in walk(folder)}
    return {name: f"{mode:o} {content.hex()}" for name, (mode, content) in found.items()}


def _content(path: Path) -> tuple[int, bytes]:
    """The mode, and the hash of a file's content or the target of a link."""
    about = path.lstat()
    if stat.S_ISREG(about.st_mode):
        with path.open("rb") as file:
            return about.st_mode, hashlib.file_digest(file, "sha256").digest()
    return about.st_mode, os.fsencode(path.readlink()) if stat.S_ISLNK(about.st_mode) else b""


def walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder in a stable order; links are not followed."""
    with os.scandir(folder) as entries:
        inside = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in inside:
        yield folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from walk(folder / entry.name)
