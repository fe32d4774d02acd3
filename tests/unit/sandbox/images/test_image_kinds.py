"""Images: what is in them, what is not, and that equal bytes have equal names."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from drive.native_sandboxes import KINDS, backend_of, sh
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.sandbox.images import host
from sandlot.sandbox.images.folder import folder_digest
from sandlot.sandbox.images.host import USERS, make_skeleton
from sandlot.sandbox.images.spec import find_image, image_digest


@pytest.fixture
def skeleton():
    return find_image("host").trees[0][1][0]


def test_the_host_image_holds_usr_and_a_made_up_root(skeleton):
    image = find_image("host")
    assert dict(image.trees)["/usr"][-1] == Path("/usr")
    assert not image.portable
    assert image_digest("host").startswith("host:sha256:")
    assert [path for path in skeleton.rglob("*") if path.is_file() and path.relative_to(skeleton).parts[0] != "etc"] == []


def test_the_host_image_has_no_secret_of_etc(skeleton):
    for name in (
        "shadow",
        "shadow-",
        "gshadow",
        "sudoers",
        "ssh",
        "ssl/private",
        "npmrc",
        "pip.conf",
        "gitconfig",
        "environment",
        "crontab",
    ):
        assert not (skeleton / "etc" / name).exists(), name
    assert {line.split(":")[0] for line in (skeleton / "etc/passwd").read_text().splitlines()} == {user[0] for user in USERS}


def test_only_what_everybody_may_read_was_copied(skeleton):
    for path in (skeleton / "etc").rglob("*"):
        source = Path("/etc") / path.relative_to(skeleton / "etc")
        if path.is_file() and not path.is_symlink() and source.exists() and path.read_bytes() == source.read_bytes():
            assert source.stat().st_mode & stat.S_IROTH, source


def test_the_host_image_takes_more_folders_each_once(tmp_path):
    inner = tmp_path / "code" / "inner"
    inner.mkdir(parents=True)
    image = find_image(f"host:{inner}:{tmp_path / 'code'}:/usr/lib:{tmp_path / 'code'}")
    assert image.trees[-1] == (str(tmp_path / "code"), (tmp_path / "code",))
    assert len(image.trees) == len(find_image("host").trees) + 1
    assert image_digest(f"host:{inner}") != image_digest("host")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_next_sandbox_has_what_changed_in_the_machines_settings(kind, monkeypatch):
    """As when `apt-get` installs something while sandboxes are opened and closed."""
    async with backend_of(kind) as backend, backend.open("host") as sandbox:
        assert (await sh(sandbox, "ls /etc/issue")).code == 2
    monkeypatch.setattr(host, "ETC_KEPT", (*host.ETC_KEPT, "issue"))
    async with backend_of(kind) as backend, backend.open("host") as sandbox:
        assert (await sh(sandbox, "ls /etc/issue && touch /root/mine /etc/mine")).code == 0


@pytest.fixture
def etc(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(host, "_PAUSES_S", (0.0, 0.0))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "services").write_text("old")
    (tmp_path / "etc" / "shells").write_text("old")
    return tmp_path / "etc"


def meanwhile(monkeypatch, *changes):
    """After each file that is copied, the next of these is done."""
    copy, left = shutil.copyfile, list(changes)

    def copied(source, target):
        copy(source, target)
        if left:
            left.pop(0)()

    monkeypatch.setattr(shutil, "copyfile", copied)


def test_settings_that_are_replaced_while_they_are_copied_are_copied_again(etc, monkeypatch):
    meanwhile(monkeypatch, lambda: (etc / "services").write_text("newer"))
    made = make_skeleton(etc).root / "etc"
    assert ((made / "services").read_text(), (made / "shells").read_text()) == ("newer", "old")


def test_a_setting_that_is_gone_before_it_is_copied_is_left_out_until_it_is_back(etc, monkeypatch):
    meanwhile(monkeypatch, (etc / "shells").unlink)
    made = make_skeleton(etc).root / "etc"
    assert ((made / "services").read_text(), (made / "shells").exists()) == ("old", False)
    (etc / "shells").write_text("newer")
    assert (make_skeleton(etc).root / "etc" / "shells").read_text() == "newer"


def test_settings_that_change_all_the_time_are_the_machines_fault(etc, monkeypatch):
    texts = iter("newer" * number for number in range(2, 9))
    meanwhile(monkeypatch, *[lambda: (etc / "services").write_text(next(texts))] * 4)
    with pytest.raises(SandboxError, match="changed each time they were copied"):
        make_skeleton(etc)


@pytest.mark.parametrize("folder", ["/home", "/etc/ssl", "/proc/self", "/nowhere/at/all"])
def test_the_host_image_refuses_folders_that_show_the_machine(folder):
    with pytest.raises(ConfigError, match=f"host:{folder}"):
        find_image(f"host:{folder}")


async def test_a_folder_of_the_machine_is_seen_and_stays_as_it_is(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.txt").write_text("mine")
    (tmp_path / "other.txt").write_text("not seen")
    async with backend_of("root") as backend, backend.open(f"host:{tmp_path / 'code'}") as sandbox:
        seen = await sh(sandbox, f"cat {tmp_path}/code/a.txt; echo theirs > {tmp_path}/code/a.txt; ls {tmp_path}")
    assert seen.stdout == "minecode\n"
    assert (tmp_path / "code" / "a.txt").read_text() == "mine"


def test_an_image_that_does_not_exist_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="no folder at"):
        find_image(str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="image specs are: `host`"):
        find_image("python:3.12")


def test_a_digest_is_of_names_kinds_modes_and_contents_and_of_nothing_else(tmp_path):
    def make(name):
        folder = tmp_path / name
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "file").write_text("x")
        (folder / "link").symlink_to("a/file")
        return folder

    one, two = make("one"), make("two")
    os.utime(two / "a" / "file", (1, 1))
    assert folder_digest(one) == folder_digest(two)
    changes = (
        lambda: (two / "a" / "file").write_text("y"),
        lambda: (two / "a" / "file").chmod(0o600),
        (two / "new").mkdir,
        lambda: ((two / "link").unlink(), (two / "link").symlink_to("elsewhere")),
    )
    seen = {folder_digest(two)}
    for change in changes:
        change()
        seen.add(folder_digest(two))
    assert len(seen) == 5


@pytest.mark.parametrize("name", ["proc", "dev"])
async def test_an_image_with_a_link_where_a_mount_belongs_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("/etc")
    async with backend_of("root") as backend:
        with pytest.raises(SandboxError, match=f"find a real /{name} in the image"):
            async with backend.open(str(tmp_path)):
                pass


async def test_a_plain_folder_is_a_root_file_system(tmp_path):
    root = tmp_path / "root"
    for folder in ("bin", "etc"):
        (root / folder).mkdir(parents=True)
    (root / "etc" / "motd").write_text("hello from the folder\n")
    async with backend_of("root") as backend, backend.open(str(root)) as sandbox:
        assert await sandbox.read("/etc/motd") == b"hello from the folder\n"
        assert (await sandbox.stat("/tmp")).mode & 0o7777 == 0o1777
        await sandbox.write("/etc/motd", b"changed")
        assert await (await sandbox.freeze()).list() == {"/etc/motd": 7}
        assert (await sh(sandbox, "true")).code == 127  # there is no shell in it
    assert (root / "etc" / "motd").read_text() == "hello from the folder\n"
    assert sorted(path.name for path in root.iterdir()) == ["bin", "etc"]


@pytest.fixture
def overlay(tmp_path):
    """A folder that is itself an overlay mount, as everything in a container is."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/file").write_text("x")
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(tmp_path / "merged")], check=True)
    yield tmp_path / "merged"
    subprocess.run(["umount", str(tmp_path / "merged")], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts an overlay")
async def test_a_folder_whose_files_could_not_be_changed_is_refused_with_the_fix(overlay):
    async with backend_of("root") as backend:
        with pytest.raises(ConfigError, match=r"type `overlay`.*Copy it to a local disk"):
            async with backend.open(f"folder:{overlay}"):
                pass
        async with backend.open(f"folder:{overlay.parent / 'lower'}") as sandbox:
            assert (await sandbox.stat("/file")).uid == 0
