"""Rows keep their provenance through every step; what is no row is refused with its place."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.data.rows import read_data, write_data


def places(*sources):
    return [(row.value, row.origin.place) for row in read_data(sources)]


def test_every_format_gives_rows_with_their_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    (tmp_path / "d" / "b.csv").write_text("\ufeffx,y\n1,two\n")
    write_data(tmp_path / "d" / "c.parquet", read_data(["d/a.jsonl"]))
    assert places("d") == [
        ({"x": 1}, "d/a.jsonl:1"),
        ({"x": 2}, "d/a.jsonl:2"),
        ({"x": "1", "y": "two"}, "d/b.csv:1"),
        ({"x": 1}, "d/a.jsonl:1"),  # a row that was imported before keeps its provenance
        ({"x": 2}, "d/a.jsonl:2"),
    ]


def test_the_hash_is_of_the_row_as_it_was_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": 1, "y": 2}\n{"y": 2, "x": 1}\n{"x": 1}\n')
    hashes = [row.origin.sha256 for row in read_data([tmp_path / "a.jsonl"])]
    assert hashes[0] == hashes[1] != hashes[2]
    write_data(tmp_path / "b.jsonl", read_data([tmp_path / "a.jsonl"]))
    assert [row.origin.sha256 for row in read_data([tmp_path / "b.jsonl"])] == hashes


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.jsonl", b'{"x": 1}\n[1]\n', "row 2 is list"),
        ("a.jsonl", b'{"x": \n', "line 1"),
        ("a.jsonl", b'{"x": 1, "provenance": "me"}\n', "`provenance` is not ours"),
        ("a.jsonl", b'{"x":' * 5000, "line 1"),
        ("a.csv", b"x,y\n1\n", "more or fewer cells"),
        ("a.csv", b"x,y\n1,2,3\n", "more or fewer cells"),
        ("a.csv", b"x\n\xff\n", "not CSV"),
        ("a.parquet", b"PAR1 nonsense PAR1", "not readable Parquet"),
        ("a.pkl", b"\x80\x04.", "pickle"),
        ("a.txt", b"x", "unknown format"),
    ],
)
def test_what_is_no_row_is_refused(tmp_path, name, data, why):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=why):
        list(read_data([tmp_path / name]))


def test_links_and_empty_folders_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "empty").mkdir()
    for source, why in (("link.jsonl", "no file"), ("empty", r"no \.jsonl"), ("missing", "no file")):
        with pytest.raises(ConfigError, match=why):
            list(read_data([tmp_path / source]))
    assert len(list(read_data([tmp_path]))) == 1  # links in a folder are passed over


def test_a_file_is_never_replaced_and_mixed_rows_do_not_become_a_table(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n{"x": "two"}\n')
    with pytest.raises(ConfigError, match="already exists"):
        write_data(tmp_path / "a.jsonl", [])
    with pytest.raises(ConfigError, match=r"write \.jsonl"):
        write_data(tmp_path / "b.parquet", read_data([tmp_path / "a.jsonl"]))
    with pytest.raises(ConfigError, match=r"as \.jsonl or \.parquet"):
        write_data(tmp_path / "b.csv", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]
