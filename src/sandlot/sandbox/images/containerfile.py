"""A Containerfile (Dockerfile) as an image: a layer of what its steps changed, on an image of Debian packages.

It is built once by a process of its own (`sandbox/containerfile/build.py`) and stored under the content of the file and of the
folder it is in. Packages are those of the day, so the digest is that of the files that came out, and the image is not portable.
"""

import hashlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import command_defaults
from sandlot.sandbox.images.debian import debian_image, read_recipe
from sandlot.sandbox.images.folder import folder_digest
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.store import Lease, hold, key_for

_log = logging.getLogger(__name__)

_BUILDER = "sandlot.sandbox.containerfile.build"
_FORMAT = "2"
"""Part of the key: change it when the same file would be built differently."""
_NAMES = ("Containerfile", "Dockerfile")


def containerfile_image(path: Path) -> SandboxImage:
    """Build it, or find it built."""
    file = _file_of(path)
    lease = _built(file)
    about = lease.about()
    kind, _, rest = about.base.partition(":")
    base = containerfile_image(Path(rest)) if kind == "containerfile" else debian_image(read_recipe(rest))
    ((place, folders),) = base.trees
    return SandboxImage(
        name=f"containerfile:{file}",
        trees=((place, (lease.root, *folders)),),
        portable=False,
        defaults=command_defaults(about.env, about.user, about.folder),
        leases=(lease, *base.leases),
    )


def containerfile_digest(path: Path, *, build: bool) -> str:
    """The digest of the files that it makes; without `build`, a hash of its source if it was not built yet."""
    file = _file_of(path)
    key = _key(file)
    there = _built(file) if build else hold(key)
    return there.about().digest if there is not None else f"{key}:unbuilt"


def containerfile_notes(path: Path) -> tuple[str, ...]:
    """What the image does differently from the file: bases that stand for others, hosts that were refused. Builds it."""
    return _built(_file_of(path)).about().notes


def _built(file: Path) -> Lease:
    key = _key(file)
    there = hold(key)
    if there is not None:
        return there
    _log.warning("building an image from a Containerfile: minutes, once", extra={"file": str(file)})
    command = [sys.executable, "-m", _BUILDER, str(file), key]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run(command, capture_output=True, check=False, env=env)  # noqa: S603 - our own module
    there = hold(key)
    if done.returncode or there is None:
        raise ConfigError(f"image `containerfile:{file}`: {_error_of(done)}")
    return there


def _error_of(done: subprocess.CompletedProcess[bytes]) -> str:
    try:
        return str(json.loads(done.stdout.splitlines()[-1])["error"])
    except (ValueError, LookupError):
        return f"its build ended with code {done.returncode}: {done.stderr.decode(errors='replace').strip()[-500:]}"


def _file_of(path: Path) -> Path:
    if path.is_file():
        return path.resolve()
    for name in _NAMES:
        if (path / name).is_file():
            return (path / name).resolve()
    raise ConfigError(f"image `containerfile:{path}`: no file there, and no folder with a Containerfile")


def _key(file: Path) -> str:
    whole = hashlib.sha256("\0".join((_FORMAT, os.uname().machine, file.name, folder_digest(file.parent))).encode())
    return key_for("containerfile", whole.hexdigest())
