import io
import zipfile

import pyarrow as pa
import pytest

from builders.inspect_logs import write_zstd_zip
from sandlot.core.errors import ConfigError
from sandlot.interop.inspect_ai import archive
from sandlot.interop.inspect_ai.archive import open_archive


def read_all(path):
    with open_archive(path) as opened:
        return {name: opened.read(name) for name in opened.names}


def test_zstd_deflate_and_stored_entries_are_read(tmp_path):
    entries = [("header.json", b"{}"), ("samples/1.json", b"x" * 3_000_000)]
    assert read_all(write_zstd_zip(tmp_path / "z.eval", entries)) == dict(entries)
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        with zipfile.ZipFile(tmp_path / "d.eval", "w", method) as made:
            for name, data in entries:
                made.writestr(name, data)
        assert read_all(tmp_path / "d.eval") == dict(entries)


def test_zstd_of_several_frames_is_read_whole(tmp_path):
    codec = pa.Codec("zstd")
    two = codec.compress(b"a" * 1000, asbytes=True) + codec.compress(b"b" * 1000, asbytes=True)
    assert archive._from_zstd(two) == b"a" * 1000 + b"b" * 1000


@pytest.mark.parametrize("declared", [None, 10])
def test_a_zstd_bomb_is_refused_whatever_its_directory_says(tmp_path, monkeypatch, declared):
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 1_000_000)
    made = write_zstd_zip(tmp_path / "bomb.eval", [("header.json", b"\0" * 50_000_000)], declared=declared)
    assert made.stat().st_size < 100_000
    with pytest.raises(ConfigError, match=r"header\.json' has more than 1,000,000 bytes"):
        read_all(made)


def test_a_deflate_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 1_000_000)
    with zipfile.ZipFile(tmp_path / "bomb.eval", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("header.json", b"\0" * 50_000_000)
    with pytest.raises(ConfigError, match="more than 1,000,000 bytes"):
        read_all(tmp_path / "bomb.eval")


def test_many_entries_that_are_large_together_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MAX_TOTAL_BYTES", 2_500_000)
    made = write_zstd_zip(tmp_path / "many.eval", [(f"{number}.json", b"\0" * 1_000_000) for number in range(3)])
    with pytest.raises(ConfigError, match="holds more than 2,500,000 bytes"):
        read_all(made)


def test_a_wrong_checksum_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="checksum is wrong"):
        read_all(write_zstd_zip(tmp_path / "z.eval", [("header.json", b"{}")], crc=7))


def test_every_cut_of_a_log_is_a_clear_error(tmp_path):
    whole = write_zstd_zip(tmp_path / "z.eval", [("header.json", b'{"version": 2}' * 20)]).read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut.eval").write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            read_all(tmp_path / "cut.eval")


def test_every_changed_byte_is_an_error_or_the_same_content(tmp_path):
    """A changed name is no damage; everything else must be found."""
    whole = bytearray(write_zstd_zip(tmp_path / "z.eval", [("header.json", b'{"version": 2}' * 20)]).read_bytes())
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        (tmp_path / "broken.eval").write_bytes(broken)
        try:
            found = read_all(tmp_path / "broken.eval")
        except ConfigError:
            continue
        assert list(found.values()) in ([b'{"version": 2}' * 20], []), place


def test_encrypted_entries_and_unknown_methods_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "lzma.eval", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("header.json", "{}")
    with pytest.raises(ConfigError, match="method 14; zstd, deflate and none are read"):
        read_all(tmp_path / "lzma.eval")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("header.json", "{}")
    data = bytearray(buffer.getvalue())
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "secret.eval").write_bytes(data)
    with pytest.raises(ConfigError, match="is encrypted"):
        read_all(tmp_path / "secret.eval")


def test_two_entries_with_one_name_are_refused(tmp_path):
    made = write_zstd_zip(tmp_path / "twice.eval", [("header.json", b"{}"), ("header.json", b"[]")])
    with pytest.raises(ConfigError, match="two entries with the same name"):
        read_all(made)


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip", b"PK\5\6" + b"\xff" * 18])
def test_what_is_no_archive_is_said_so(tmp_path, data):
    (tmp_path / "x.eval").write_bytes(data)
    with pytest.raises(ConfigError, match=r"is no `\.eval` log"):
        read_all(tmp_path / "x.eval")


def test_a_missing_file_and_a_folder_are_said_so(tmp_path):
    for path in (tmp_path, tmp_path / "none.eval"):
        with pytest.raises(ConfigError, match="there is no file"):
            read_all(path)
