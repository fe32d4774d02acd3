"""Naming what changed when a `host` image has another digest."""

import os
from pathlib import Path

import pytest

from sandlot.sandbox.images.difference import KEPT_LISTS, image_difference, packages_digest
from sandlot.sandbox.images.spec import image_digest

ETC = "sha256:" + "a" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def status(folder: Path, **versions: str) -> Path:
    entries = [f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n" for name, version in versions.items()]
    file = folder / "status"
    file.write_text("\n".join([*entries, "Package: removed\nStatus: deinstall ok config-files\nVersion: 1\n"]))
    return file


def host(packages: str, etc: str = ETC, *folders: str) -> str:
    return ":".join(("host", etc, packages, *folders))


def test_packages_that_changed_came_or_went_are_named(tmp_path):
    before = packages_digest(status(tmp_path, bash="5.1", git="2.39", perl="5.36"))
    after = packages_digest(status(tmp_path, bash="5.2", git="2.39", tree="2.1"))
    assert image_difference(host(before), host(after)) == (
        "the image `host` changed: the machine's packages: 1 changed (`bash`), 1 added (`tree`), 1 removed (`perl`)"
    )


def test_what_is_not_known_here_is_still_said_to_differ(tmp_path):
    known = packages_digest(status(tmp_path, bash="5.1"))
    assert image_difference(host("f" * 64), host(known)) == "the image `host` changed: the machine's packages: a different list"
    assert "the files copied from `/etc`: different files" in image_difference(host(known), host(known, "sha256:" + "b" * 64))


def test_files_of_etc_are_named_while_both_images_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("sandlot.sandbox.images.host.ETC_KEPT", ("shells",))
    before = image_digest("host")
    monkeypatch.setattr("sandlot.sandbox.images.host.ETC_KEPT", ("shells", "protocols"))
    assert image_difference(before, image_digest("host")).endswith("the files copied from `/etc`: 1 added (`protocols`)")


def test_equal_images_other_folders_and_other_kinds():
    assert image_difference(host("x"), host("x")) == ""
    assert image_difference(host("x"), host("x", ETC, "/srv/code")).endswith("its folders: none, now /srv/code")
    assert image_difference(host("x"), "sha256:1234").startswith("a different image")


def test_old_lists_of_packages_are_not_kept_for_ever(tmp_path, cache, monkeypatch):
    for number in range(KEPT_LISTS + 5):
        digest = packages_digest(status(tmp_path, bash=str(number)))
        os.utime(cache / "sandlot/packages" / digest, (number, number))
    assert len(list((cache / "sandlot/packages").iterdir())) <= KEPT_LISTS + 1
    assert packages_digest(tmp_path / "nothing") == "unknown"
