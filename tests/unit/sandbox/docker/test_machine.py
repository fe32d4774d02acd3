import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.sandbox.docker.machine import json_name, list_paths


@given(st.binary(max_size=12))
def test_a_name_is_shown_with_one_mark_for_every_byte_that_is_no_text(raw):
    name = raw.decode("utf-8", "surrogateescape")
    assert json_name(json_name(name)) == json_name(name)
    assert json_name(name).count("\ufffd") - name.count("\ufffd") == sum("\udc80" <= letter <= "\udcff" for letter in name)


def test_every_path_is_found_and_no_link_followed(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/f").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    assert list_paths(str(tmp_path)) == ({"/a", "/a/b", "/a/b/f", "/out", "/pipe", "/\ufffd"}, 0)


@pytest.mark.parametrize("limit", ["most", "most_bytes"])
def test_of_too_many_paths_the_nearest_are_listed_and_the_rest_counted(tmp_path, limit):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "c").touch()
    (tmp_path / "a/b/d").touch()
    limits = {"most": 2, "most_bytes": 2 * len(f"{tmp_path}/a")}
    assert list_paths(str(tmp_path), **{limit: limits[limit]}) == ({"/a", "/c"}, 1)


def test_a_path_too_long_to_name_is_cut_where_it_can_be_named(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (tmp_path / "beside").write_text("")
    found = list_paths(str(tmp_path)).paths
    assert "/beside" in found
    assert 15 < len(found) < 31
