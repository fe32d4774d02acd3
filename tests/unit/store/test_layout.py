from sandlot.store.layout import drafts_of, folders, large_file, layout_of, log_file, packs_of, segment_file


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_number_is_a_log_or_a_segment_and_the_segment_wins(tmp_path):
    touch(log_file(tmp_path, 3), log_file(tmp_path, 2), segment_file(tmp_path, 2), segment_file(tmp_path, 1))
    layout = layout_of(tmp_path)
    assert list(layout.logs) == [3]
    assert list(layout.segments) == [1, 2]
    assert list(layout.shadowed) == [2]
    assert layout.next_number == 4


def test_numbers_count_on_beyond_six_digits(tmp_path):
    touch(segment_file(tmp_path, 999_999), segment_file(tmp_path, 1_000_000), segment_file(tmp_path, 20))
    assert list(layout_of(tmp_path).segments) == [20, 999_999, 1_000_000]


def test_files_with_other_names_are_not_ours(tmp_path):
    touch(*(tmp_path / "log" / name for name in ("1.log", "000001.log.bak", "x000001.log", "000002.LOG")))
    touch(*(tmp_path / "segments" / name for name in ("000001.parquet.tmp", "a.parquet")))
    touch(tmp_path / "packs" / "000001.packs")
    assert layout_of(tmp_path).next_number == 1
    assert packs_of(tmp_path) == {}


def test_nothing_there_is_an_empty_layout(tmp_path):
    assert layout_of(tmp_path / "missing").next_number == 1
    assert drafts_of(tmp_path / "missing") == []


def test_drafts_are_found_wherever_files_are_put(tmp_path):
    for folder in folders(tmp_path):
        folder.mkdir(parents=True)
    expected = [tmp_path / "manifest.json.tmp", tmp_path / "segments" / "000001.parquet.tmp"]
    large = large_file(tmp_path / "blobs", "ab" * 32)
    expected.append(large.with_name(large.name + ".tmp"))
    touch(*expected, tmp_path / "notes.txt")
    assert sorted(drafts_of(tmp_path)) == sorted(expected)
