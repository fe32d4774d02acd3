"""Where the packages of Debian's images come from."""

import pytest

from sandlot.core.errors import SandboxError
from sandlot.sandbox.images import debian


def apt_that(does, tmp_path, monkeypatch):
    apt = tmp_path / "apt-get"
    apt.write_text(f"#!/bin/sh\n{does}\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_mirror_is_that_of_this_machines_apt(tmp_path, monkeypatch):
    apt_that("echo Packages trixie main http://mirror/debian", tmp_path, monkeypatch)
    assert debian._mirror("trixie") == ["http://mirror/debian"]
    assert debian._mirror("bookworm") == []


def test_an_apt_that_does_not_answer_is_an_error_and_no_traceback(tmp_path, monkeypatch):
    apt_that("exec sleep 60", tmp_path, monkeypatch)
    monkeypatch.setattr(debian, "_APT_S", 0.1)
    with pytest.raises(SandboxError, match="did not name its mirrors"):
        debian._mirror("trixie")
