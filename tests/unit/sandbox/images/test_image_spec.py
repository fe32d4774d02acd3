"""How images are named, where their paths begin, and what a package list may say."""

import os
from pathlib import Path

import pytest

from builders.images import docker_archive, file, tar_of
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.image import image_of
from sandlot.sandbox.images.debian import installed_versions, read_recipe
from sandlot.sandbox.images.spec import find_image, image_digest, resolve_spec


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("host", "host"),
        ("host:lib:/opt/tool", "host:/env/lib:/opt/tool"),
        ("folder:root", "folder:/env/root"),
        ("./root", "folder:/env/root"),
        ("/elsewhere", "folder:/elsewhere"),
        ("archive:box.tar", "archive:/env/box.tar"),
        ("archive:box.tar#box:1", "archive:/env/box.tar#box:1"),
        ("archive:/abs/box.tar", "archive:/abs/box.tar"),
        ("debian:bookworm?git", "debian:bookworm?git"),
        ("debian:bookworm?@packages.txt", "debian:bookworm?@/env/packages.txt"),
        ("python:3.12-slim", "python:3.12-slim"),
    ],
)
def test_paths_begin_at_the_environments_folder_and_other_names_stay(spec, place):
    assert resolve_spec(spec, Path("/env")) == place
    assert resolve_spec(place, Path("/env")) == place


@pytest.mark.parametrize("spec", ["", "hots", "folder:", "archive:", "debian:", "python:3.12"])
def test_an_unknown_spec_is_refused_with_the_known_kinds(spec):
    for ask in (find_image, image_digest):
        with pytest.raises(ConfigError, match=r"image specs are: `host`, `folder:PATH`, `archive:PATH`, `debian:"):
            ask(spec)


def test_a_package_list_is_the_same_in_any_order(tmp_path):
    (tmp_path / "packages.txt").write_text("# tools\ngit   # for the repository\n\npython3-minimal\ngit\n")
    listed = read_recipe(f"bookworm?@{tmp_path}/packages.txt")
    assert listed == read_recipe("bookworm?python3-minimal, git,") == read_recipe("bookworm?git,python3-minimal")
    assert listed.key == read_recipe("bookworm?git,python3-minimal").key
    assert listed.key != read_recipe("trixie?git,python3-minimal").key
    assert read_recipe("bookworm").packages == ()


@pytest.mark.parametrize(
    "rest",
    ["--help?git", "book worm", "Bookworm", "bookworm?--foreign", "bookworm?a b", "bookworm?../x", "bookworm?@/nowhere", "?git"],
)
def test_a_package_list_cannot_smuggle_options(rest):
    with pytest.raises(ConfigError, match="image `debian:"):
        read_recipe(rest)


def test_without_debootstrap_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("sandlot.sandbox.images.debian.shutil.which", lambda *_, **__: None)
    with pytest.raises(SandboxError, match="`apt-get install debootstrap`"):
        find_image("debian:bookworm")
    assert image_digest("debian:bookworm", build=False) == "debian:bookworm:unbuilt"


def test_only_packages_that_are_installed_count(tmp_path):
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: zlib\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.2\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 3\n\n"
        "Package: base\nStatus: install ok installed\nArchitecture: all\nVersion: 1:2-3\nDescription: x\n Version: not this\n"
    )
    assert installed_versions(tmp_path) == "base 1:2-3 all\nzlib 1.2 amd64\n"


def environment(folder: Path, image: str | None) -> Environment:
    env = Environment("box", image=image)
    env.source = folder
    return env


def test_an_environments_fingerprint_follows_the_bytes_of_its_image(tmp_path):
    home = tmp_path / "env"
    (home / "root").mkdir(parents=True)
    (home / "environment.toml").write_text("name = 'box'")
    (home / "box.tar").write_bytes(docker_archive(tar_of(file("a", b"1"))))
    by_archive = environment(home, "archive:box.tar")
    assert image_of(by_archive) == f"archive:{home}/box.tar"
    before = environment_fingerprint(by_archive)
    (home / "box.tar").write_bytes(docker_archive(tar_of(file("a", b"1")), packed=True))
    assert environment_fingerprint(by_archive) == before
    (home / "box.tar").write_bytes(docker_archive(tar_of(file("a", b"2"))))
    assert environment_fingerprint(by_archive) != before

    by_folder = environment(home, "folder:root")
    before = environment_fingerprint(by_folder)
    (home / "root" / "docs").mkdir()
    assert environment_fingerprint(by_folder) != before
    (home / "root" / "host").symlink_to("/proc/self/stat")  # a link of the image is a link, not the host's file
    assert environment_fingerprint(by_folder) == environment_fingerprint(by_folder)


def test_an_image_only_some_backend_knows_counts_by_name(tmp_path):
    (tmp_path / "environment.toml").write_text("name = 'box'")
    one, two = environment(tmp_path, "python:3.12"), environment(tmp_path, "python:3.13")
    assert environment_fingerprint(one) != environment_fingerprint(two)
    assert image_of(one) == "python:3.12"
    assert image_of(environment(tmp_path, None)) == ""


def test_the_host_image_of_another_machine_has_another_digest(monkeypatch):
    assert image_digest("host").startswith("host:")
    assert not find_image("host").portable
    assert os.path.lexists(find_image("host").leases[0].root / "etc/mtab")
