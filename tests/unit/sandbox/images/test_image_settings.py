"""Settings of tools that may hold tokens are not in the `host` image."""

import os
import stat

import pytest

from drive.native_sandboxes import KINDS, backend_of, sh
from sandlot.sandbox.images.settings import PATTERNS, find_settings, hide_settings

NAMES = ("etc/npmrc", "local/etc/npmrc", "local/cargo/credentials.toml", "local/go/go.env", "local/.aws", "pip.conf")


@pytest.fixture
def usr(tmp_path):
    """A `/usr` with tokens in it, one of them in a folder behind a link."""
    top = tmp_path / "usr"
    for name in (*NAMES, "share/real/npmrc", "bin/true"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("//registry/:_authToken=hunter2")
    (top / "share/nodejs").mkdir()
    (top / "share/nodejs/npm").symlink_to("../real")
    (top / "local/cargo").chmod(0o700)
    return top


def test_every_file_that_may_hold_a_token_is_found_by_its_real_name(usr):
    assert {str(path) for path in find_settings(usr)} == {*NAMES, "share/real/npmrc"}


def test_the_layer_marks_each_as_deleted_and_keeps_the_modes_of_folders(usr):
    root = hide_settings(usr).root
    marked = {str(path.relative_to(root)) for path in root.rglob("*") if stat.S_ISCHR(path.lstat().st_mode)}
    assert marked == {*NAMES, "share/real/npmrc"}
    assert all((root / name).lstat().st_rdev == os.makedev(0, 0) for name in marked)
    assert stat.S_IMODE((root / "local/cargo").stat().st_mode) == 0o700


def test_a_machine_without_them_needs_no_layer(tmp_path):
    assert hide_settings(tmp_path) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sandbox_finds_no_settings_of_the_machines_tools(kind):
    async with backend_of(kind) as backend, backend.open("host") as sandbox:
        done = await sh(sandbox, f"cd /usr && ls -d {' '.join(PATTERNS)} 2>/dev/null; cat etc/npmrc local/etc/npmrc; ls bin/env")
        assert done.stdout == "bin/env\n"
        assert await sandbox.changed() == {}
