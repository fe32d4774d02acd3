import io
import json
import os
import pickle
import tarfile
import zipfile

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop import untrusted
from sandlot.interop.untrusted import copy_tree, read_bytes, read_rows, refuse_pickle, source_digest, unpack


def tar_of(path, *members, mode="w:gz"):
    """Members are (TarInfo, bytes)."""
    with tarfile.open(path, mode) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def entry(name, kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def test_a_folder_is_copied_with_its_executable_bits(tmp_path):
    source = tmp_path / "task"
    (source / "tests").mkdir(parents=True)
    (source / "tests" / "run.sh").write_text("true\n")
    (source / "tests" / "run.sh").chmod(0o700)
    (source / "plain.txt").write_text("x")
    copy_tree(source, tmp_path / "copy")
    assert (tmp_path / "copy/tests/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "copy/plain.txt").read_text() == "x"


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "socket"])
def test_links_and_devices_in_a_folder_are_refused(tmp_path, monkeypatch, kind):
    source = tmp_path / "task"
    source.mkdir()
    place = source / "trap"
    if kind == "link":
        place.symlink_to("/etc/passwd")
    elif kind == "folder link":
        place.symlink_to("/etc", target_is_directory=True)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as listening:
            monkeypatch.chdir(source)
            listening.bind("trap")
    with pytest.raises(ConfigError, match=r"trap.*only files and folders"):
        copy_tree(source, tmp_path / "copy")


def test_a_folder_of_absurd_size_is_refused(tmp_path, monkeypatch):
    source = tmp_path / "task"
    source.mkdir()
    with (source / "huge").open("wb") as file:
        file.truncate(10 * 2**40)
    with pytest.raises(ConfigError, match="more than"):
        copy_tree(source, tmp_path / "copy")
    (source / "huge").unlink()
    monkeypatch.setattr(untrusted, "_MAX_TREE_FILES", 3)
    for number in range(4):
        (source / str(number)).write_text("")
    monkeypatch.setattr(untrusted._Budget, "__init__", _small)
    with pytest.raises(ConfigError, match="more than 3 files"):
        copy_tree(source, tmp_path / "other")


def _small(budget, what):
    budget.what, budget.bytes_left, budget.files_left, budget.names = what, 2**20, 3, set()


def test_a_very_deep_folder_is_refused(tmp_path):
    deep = tmp_path / "task" / "/".join(["d"] * 60)
    deep.mkdir(parents=True)
    with pytest.raises(ConfigError, match="folders deep"):
        copy_tree(tmp_path / "task", tmp_path / "copy")


def test_a_good_archive_is_unpacked(tmp_path):
    archive = tar_of(tmp_path / "a.tgz", (entry("task/run.sh", mode=0o755), b"true"), (entry("task/data.txt"), b"x"))
    unpack(archive, tmp_path / "tar")
    assert (tmp_path / "tar/task/run.sh").stat().st_mode & 0o111
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("task/data.txt", "x")
    unpack(tmp_path / "a.zip", tmp_path / "zip")
    assert (tmp_path / "zip/task/data.txt").read_text() == "x"


TRICKS = {
    "absolute": entry("/etc/cron.d/x"),
    "above": entry("../../x"),
    "above in the middle": entry("a/../../x"),
    "link": entry("task/link", tarfile.SYMTYPE, "/etc"),
    "hard link": entry("task/link", tarfile.LNKTYPE, "/etc/passwd"),
    "device": entry("task/dev", tarfile.CHRTYPE),
    "pipe": entry("task/pipe", tarfile.FIFOTYPE),
    "control": entry("task/\x1b[31m"),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_path_tricks_in_a_tar_are_refused_and_nothing_is_left(tmp_path, trick):
    archive = tar_of(tmp_path / "a.tgz", (entry("first.txt"), b"x"), (TRICKS[trick], b""))
    with pytest.raises(ConfigError):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["/x", "../x", "a/../../x", "..\\x", "C:\\x"])
def test_path_tricks_in_a_zip_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("first.txt", "x")
        zipped.writestr(name, "x")
    with pytest.raises(ConfigError):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr(info, "/etc/passwd")
    with pytest.raises(ConfigError, match="a link"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted._Budget, "__init__", _small)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("bomb", bytes(8 * 2**20))
    with pytest.raises(ConfigError, match="more than"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    archive = tar_of(tmp_path / "a.tgz", (entry("bomb"), bytes(8 * 2**20)))
    with pytest.raises(ConfigError, match="more than"):
        unpack(archive, tmp_path / "out")


def test_what_is_no_archive_is_an_error(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"hello" * 1000)
    with pytest.raises(ConfigError):
        unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("name", ["data.pkl", "data.pt", "data.jsonl"])
def test_pickles_are_refused_by_name_and_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ConfigError, match="pickle"):
        refuse_pickle(path)
    with pytest.raises(ConfigError, match="pickle"):
        list(read_rows(path))


def test_rows_are_read_and_absurd_ones_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(read_rows(path)) == [{"a": 1}, {"a": 2}]
    with pytest.raises(ConfigError, match="more than 2 lines"):
        list(read_rows(path, at_most=2))
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(ConfigError, match="line 1"):
        list(read_rows(path))
    monkeypatch.setattr(untrusted, "_MAX_ROW_BYTES", 100)
    path.write_text(json.dumps({"a": "x" * 1000}) + "\n")
    with pytest.raises(ConfigError, match="line 1: more than 100 bytes"):
        list(read_rows(path))


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none"):
        with pytest.raises(ConfigError, match=name):
            read_bytes(tmp_path / name)
    (tmp_path / "big").write_bytes(b"12345")
    with pytest.raises(ConfigError, match="at most 4"):
        read_bytes(tmp_path / "big", at_most=4)


def test_the_digest_of_a_source_changes_with_its_content(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    first = source_digest(tmp_path / "a")
    (tmp_path / "a" / "x").write_text("2")
    assert source_digest(tmp_path / "a") != first
