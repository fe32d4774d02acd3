"""Images from package lists: a real debootstrap from where this machine's apt gets its packages, a minute or two."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from drive.native_sandboxes import sh
from sandlot.apps import BROWSER_IMAGE
from sandlot.sandbox.images.spec import find_image, image_digest
from sandlot.sandbox.images.store import images_folder, list_images
from sandlot.sandbox.native.backend import open_native

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

SPEC = BROWSER_IMAGE
"""An image that other tests use too: it is installed once."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


async def test_packages_are_installed_once_and_run_in_a_sandbox():
    image = await anyio.to_thread.run_sync(find_image, SPEC)
    root = image.trees[0][1][0]
    assert (root / "etc/resolv.conf").read_text() == (root / "etc/apt/sources.list").read_text() == ""
    assert (root / "etc/hostname").read_text() == "sandbox\n"
    assert not [path for path in root.rglob("*") if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o6000]
    assert not list((root / "dev").iterdir())
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(images_folder()) in line]
    assert image_digest(SPEC).startswith("debian:sha256:")
    suite, _, names = SPEC.partition("?")
    assert find_image(f"{suite}?{','.join([*reversed(names.split(',')), *names.split(',')])}").trees == image.trees
    (item,) = [item for item in list_images() if item.about.name == find_image(SPEC).name]
    print(f"{item.about.size_bytes / 2**20:.0f} MiB, {item.about.num_files} paths", file=sys.stderr)  # noqa: T201 - as above
    async with open_native() as backend, backend.open(SPEC) as sandbox:
        done = await sh(sandbox, "echo $(id -u) $(uname -n); dpkg -s fonts-dejavu-core | head -1")
        assert done.stdout == "0 sandbox\nPackage: fonts-dejavu-core\n"


def test_a_build_that_is_interrupted_leaves_nothing(cache):
    script = f"""
        import logging, os, signal
        from sandlot.sandbox.images import debian
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a script may have started the tests with it ignored
        class Stop(logging.Handler):
            def emit(self, record):
                if "Extracting" in getattr(record, "line", ""):
                    os.kill(os.getpid(), signal.SIGINT)
        debian._log.addHandler(Stop())
        debian._log.setLevel(logging.INFO)
        debian.debian_image(debian.read_recipe({SPEC.removeprefix("debian:")!r}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr
    assert [path.name for path in images_folder().iterdir() if not path.name.startswith(".making-")] == []
    assert str(cache) not in Path("/proc/mounts").read_text()
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(cache) in _said(path)]
    assert running == []


def _said(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace") if path.parent.name != str(os.getpid()) else ""
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.usefixtures("cache")
def test_a_suite_that_does_not_exist_is_told_in_debootstraps_words():
    with pytest.raises(Exception, match=r"debootstrap failed with code \d+\n.*nosuchsuite"):
        find_image("debian:nosuchsuite")
    assert [path.name for path in images_folder().iterdir() if not path.name.startswith(".making-")] == []
