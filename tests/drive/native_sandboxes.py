"""Native sandboxes for tests: as root, and as an ordinary user with a cache and an image of their own."""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandlot.core.ports.sandbox import Command, Completed, Sandbox
from sandlot.sandbox.backend import MachineBackend
from sandlot.sandbox.command import run_command
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.spec import find_image
from sandlot.sandbox.native import backend as native
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

NOBODY = 65534
KINDS = ("root", "ordinary user")


@functools.cache
def ordinary_cache() -> Path:
    """A cache an ordinary user could have made: root's own is out of their sight. Made once for all tests."""
    cache = Path(tempfile.mkdtemp(prefix="sandlot-test-"))
    atexit.register(shutil.rmtree, cache)
    cache.chmod(0o755)
    (cache / "sandlot").mkdir()
    shutil.copy2(find_program(), cache / "sandlot")
    return cache


def find_image_of_theirs(spec: str) -> SandboxImage:
    """The image as an ordinary user has it: built here as root, then given away.

    Each time it is asked for: `host` is built anew when the machine's settings have changed, as by `apt-get` meanwhile.
    """
    image = find_image(spec)
    for lease in image.leases:
        if os.geteuid() == 0 and lease.folder.stat().st_uid != NOBODY:
            for path in (*lease.folder.rglob("*"), lease.folder):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return image


@asynccontextmanager
async def backend_of(kind: str, *, quota: Quota | None = None, pool: int = 0) -> AsyncGenerator[MachineBackend]:
    if kind == "root":
        async with open_native(quota=quota, pool=pool) as backend:
            yield backend
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(ordinary_cache()))
        patch.setattr(native, "find_image", find_image_of_theirs)
        async with open_native(quota=quota, pool=pool, user=NOBODY if os.geteuid() == 0 else None) as backend:
            yield backend


async def sh(sandbox: Sandbox, script: str, **fields) -> Completed:
    return await run_command(sandbox, Command(argv=("sh", "-c", script), **fields))


async def py(sandbox: Sandbox, script: str, **fields) -> Completed:
    return await run_command(sandbox, Command(argv=("/usr/bin/python3", "-c", script), **fields))
