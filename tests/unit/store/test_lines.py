"""Lines that are added and never lost: torn tails, garbage, many writers, a disk that fails."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.disk import Disk
from sandlot.core.errors import StoreError
from sandlot.store.lines import append_line, read_lines
from sandlot.store.lock import write_lock


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")), max_size=8), st.binary(max_size=10))
def test_what_was_added_is_read_back_after_whatever_was_there(tmp_path_factory, lines, before):
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_bytes(before)
    for line in lines:
        append_line(path, line, Disk(sync=lambda _fd: None))
    read = read_lines(path)
    assert read[: len(before.split(b"\n")) - 1] == before.split(b"\n")[:-1]
    if lines:
        assert read[-1] == b""
        assert read[-1 - len(lines) : -1] == lines


def test_a_torn_line_does_not_take_the_next_with_it(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a":')
    append_line(path, b'{"a": 3}')
    assert path.read_bytes() == b'{"a": 1}\n{"a":\n{"a": 3}\n'


def test_a_file_that_is_not_there_has_no_lines_and_a_newline_is_refused(tmp_path):
    assert read_lines(tmp_path / "none") == []
    with pytest.raises(ValueError, match="newline"):
        append_line(tmp_path / "none", b"a\nb")


def test_a_disk_that_fails_is_a_store_error(tmp_path):
    def full(_fd, _data):
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left"):
        append_line(tmp_path / "x", b"a", Disk(write=full))
    with pytest.raises(StoreError, match="could not be read"):
        read_lines(tmp_path)


def add_many(path, name):
    for number in range(50):
        append_line(path, f"{name} {number} {'x' * 500}".encode())


def test_several_people_at_once_do_not_cut_into_each_other(tmp_path):
    path = tmp_path / "x"
    writers = [threading.Thread(target=add_many, args=(path, name)) for name in "abc"]  # each opens the file for itself
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = read_lines(path)
    assert sorted(lines) == sorted([b"", *(f"{name} {n} {'x' * 500}".encode() for name in "abc" for n in range(50))])


def test_a_link_in_a_run_from_elsewhere_is_not_written_through(tmp_path):
    target = tmp_path / "mine"
    target.write_text("before")
    for name in ("labels.jsonl", "lock"):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(StoreError, match="could not be written"):
        append_line(tmp_path / "labels.jsonl", b"{}")
    with pytest.raises(StoreError, match="cannot be locked"), write_lock(tmp_path):
        pass
    assert target.read_text() == "before"
