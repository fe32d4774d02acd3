"""Sandboxes on images from archives, for root and for an ordinary user: what the layers say is what a command sees."""

import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.images import config_of, docker_archive, file, folder, hard_link, link, oci_blobs, tar_of
from drive.native_sandboxes import KINDS, backend_of, sh
from sandlot.sandbox.images.spec import image_digest, resolve_spec

PROGRAMS = ("sh", "cat", "ls", "stat", "rm", "touch", "chown")


def programs() -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """A few of this machine's programs with the libraries they name, where their loader looks for them."""
    needed: set[str] = set()
    for name in PROGRAMS:
        path = shutil.which(name)
        assert path is not None
        yield file(f"bin/{name}", Path(path).read_bytes(), mode=0o4755)
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        needed |= {word for word in said.split() if word.startswith("/")}
    for library in sorted(needed):
        yield file(library, Path(library).read_bytes(), mode=0o755)


def layers() -> tuple[bytes, bytes]:
    """A machine of a few programs, and a second layer that takes things away."""
    low = tar_of(
        folder("./"), *programs(), link("sbin", "bin"),
        file("etc/gone", b"x"), file("etc/kept", b"low"), file("srv/a", b"x"), file("srv/deep/b", b"x"), file("one", b"same"),
        file("home/agent/mine", b"x", uid=1000, gid=1000), folder("locked", mode=0o555), file("locked/in", b"x"),
    )  # fmt: skip
    high = tar_of(
        file("etc/.wh.gone"), file("srv/.wh..wh..opq"), file("srv/new", b"high"), file("etc/kept", b"high"),
        hard_link("two", "one"), file("sbin/extra", b"through a link"),
    )  # fmt: skip
    return low, high


@pytest.fixture
def archive(tmp_path):
    """Where both kinds of user can read it."""
    tmp_path.chmod(0o755)
    path = tmp_path / "box.tar"
    path.write_bytes(docker_archive(*layers(), packed=True))
    return path


@pytest.mark.parametrize("kind", KINDS)
async def test_a_command_sees_what_the_layers_say(kind, archive):
    spec = resolve_spec(f"archive:{archive}")
    async with backend_of(kind) as backend, backend.open(spec) as sandbox:
        script = "cat /etc/kept /srv/new /one /two /bin/extra; ls /etc /srv; [ -d /tmp ] && [ -e /dev/null ] && [ -d /proc/self ]"
        done = await sh(sandbox, script)
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout == "highhighsamesamethrough a link/etc:\nkept\n\n/srv:\nnew\n"
        assert (await sh(sandbox, "echo changed > /two; rm -r /srv /locked; touch /srv; cat /one")).code == 0
        assert await sandbox.read("/two") == b"changed\n"
        assert (await sandbox.stat("/bin/cat")).mode & stat.S_ISUID == 0
    async with backend_of(kind) as backend, backend.open(spec) as sandbox:
        assert await sandbox.read("/srv/new") == b"high"


async def test_owners_inside_are_those_of_the_archive(archive):
    async with backend_of("root") as backend, backend.open(f"archive:{archive}") as sandbox:
        done = await sh(sandbox, "stat -c '%u:%g' /home/agent/mine /etc/kept; chown 33:33 /etc/kept && stat -c '%u:%g' /etc/kept")
        assert done.stdout.split() == ["1000:1000", "0:0", "33:33"]


async def test_commands_use_the_images_defaults_unless_they_set_their_own(tmp_path):
    run = {"Env": ["COLOUR=blue", "PATH=/bin"], "User": "1000:1000", "WorkingDir": "/home/agent"}
    path = tmp_path / "box.tar"
    path.write_bytes(docker_archive(*layers(), config=config_of(layers(), config=run)))
    look = 'touch mine && echo "$COLOUR $PWD"; stat -c %u /proc/self/'
    async with backend_of("root", pool=1) as backend, backend.open(f"archive:{path}") as sandbox:
        assert (await sh(sandbox, look)).stdout == "blue /home/agent\n1000\n"
        assert (await sh(sandbox, look, user="root", cwd="/srv", env={"COLOUR": "red"})).stdout == "red /srv\n0\n"
        async with (await sandbox.freeze()).fork() as fork:
            assert (await sh(fork, look)).stdout == "blue /home/agent\n1000\n"
        assert (await sh(sandbox, look)).stdout == "blue /home/agent\n1000\n"
        await sandbox.reset()
        assert (await sh(sandbox, look)).stdout == "blue /home/agent\n1000\n"
    async with backend_of("root", pool=1) as backend:
        await backend.warm(f"archive:{path}")
        async with backend.open(f"archive:{path}") as sandbox:
            assert (await sh(sandbox, look)).stdout == "blue /home/agent\n1000\n"


def test_an_archive_and_a_layout_of_one_image_have_one_digest(archive, tmp_path):
    layout = tmp_path / "layout"
    for name, data in oci_blobs(*layers()).items():
        (layout / name).parent.mkdir(parents=True, exist_ok=True)
        (layout / name).write_bytes(data)
    assert image_digest(f"archive:{archive}") == image_digest(f"archive:{layout}")


async def test_an_image_in_use_is_not_collected(archive, tmp_path, monkeypatch):
    from sandlot.sandbox.images.store import remove_unused_images
    from sandlot.sandbox.program import find_program

    built = find_program()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "sandlot").mkdir(parents=True)
    shutil.copy2(built, tmp_path / "cache" / "sandlot")
    async with backend_of("root") as backend, backend.open(f"archive:{archive}") as sandbox:
        assert remove_unused_images() == []
        assert (await sh(sandbox, "cat /etc/kept")).stdout == "high"
    del backend, sandbox
    import gc as collector

    collector.collect()
    assert {item.about.kind for item in remove_unused_images()} == {"archive", "bare"}
