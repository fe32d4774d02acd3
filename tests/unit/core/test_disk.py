import ctypes
import errno
import os
import subprocess
import sys
from dataclasses import replace
from itertools import count

import pytest

from fakes.failing_disk import Countdown, StoppedError
from sandlot.core.disk import DISK, make_folder, replace_folder, write_file


def test_a_file_is_put_whole_or_not_at_all_wherever_it_stops(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"old", DISK)
    for steps in count():
        stopping = Countdown(left=steps, torn=2)
        try:
            write_file(path, b"newer", stopping.disk)
        except StoppedError:
            assert path.read_bytes() in {b"old", b"newer"}
        else:
            break
    assert steps == 4  # write, sync, rename, sync of the folder
    assert path.read_bytes() == b"newer"


def test_a_file_that_does_not_fit_leaves_no_half_behind(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")

    def write(fd, data):
        raise full

    disk = type(DISK)(write=write)
    with pytest.raises(OSError, match="No space left"):
        write_file(tmp_path / "file", b"data", disk)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_need_not_be_durable_is_whole_and_never_synced(tmp_path):
    def sync(fd):
        raise AssertionError

    path = tmp_path / "file"
    write_file(path, b"old", DISK)
    for steps in count():
        stopping = Countdown(left=steps, torn=2)
        try:
            write_file(path, b"newer", replace(stopping.disk, sync=sync), durable=False)
        except StoppedError:
            assert path.read_bytes() == b"old"
        else:
            break
    assert steps == 2  # write, rename
    assert path.read_bytes() == b"newer"


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "file"

    def rename(draft, target):
        write_file(path, b"the other writer's", DISK)  # in the middle of the first one's write
        draft.replace(target)

    write_file(path, b"mine", replace(DISK, rename=rename))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"mine")]


def test_a_replaced_folder_may_hold_folders(tmp_path):
    for text in ("old", "new"):
        with replace_folder(tmp_path / "kept", ("inner", "file")) as new:
            (new / "inner").mkdir()
            (new / "inner" / "file").write_text(text)
            (new / "file").write_text(text)
    assert {path.read_text() for path in tmp_path.rglob("file")} == {"new"}
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("has_call", [True, False])
def test_many_files_are_synced_at_once_where_the_system_can(tmp_path, monkeypatch, has_call):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    if not has_call:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    elif not hasattr(ctypes.CDLL(None), "syncfs"):
        pytest.skip("this system has no `syncfs`")
    with replace_folder(tmp_path / "kept", ()) as new:
        for number in range(1_200):
            (new / str(number)).write_text("x")
    assert len(list((tmp_path / "kept").iterdir())) == 1_200
    assert len(synced) == (1 if has_call else 1_202)  # the folder above; and each file, and the folder itself


def test_a_write_taken_in_bites_is_whole(tmp_path):
    disk = type(DISK)(write=lambda fd, data: os.write(fd, data[:3]))
    write_file(tmp_path / "file", b"0123456789", disk)
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_folders_are_made_with_those_above_them(tmp_path):
    make_folder(tmp_path / "a" / "b" / "c", DISK)
    make_folder(tmp_path / "a" / "b", DISK)
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_writing_a_run_loads_neither_pyarrow_nor_numpy():
    modules = "sandlot.store.directory, sandlot.store.reader, sandlot.store.gc"
    script = f"import sys, {modules}; print({{'pyarrow', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
