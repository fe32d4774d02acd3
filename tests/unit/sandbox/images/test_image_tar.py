"""Reading tar archives: valid archives are read, and no header can do harm."""

import io
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.images import file, folder, link, stretch_of, tar_of
from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.tar import MAX_HEADERS_BYTES, TarKind, read_entries

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda name: not name.endswith("/") and len(name.encode()) < 4000
)


def read(data: bytes, where: Path):
    with stretch_of(data, where) as stretch:
        return list(read_entries(stretch))


def contents(data: bytes, where: Path) -> dict[bytes, bytes]:
    """Each file as it will be."""
    found = {}
    with stretch_of(data, where) as stretch:
        for entry in read_entries(stretch):
            whole = bytearray(entry.size)
            for segment in entry.segments:
                whole[segment.offset : segment.offset + segment.length] = stretch.read(segment.at, segment.length)
            found[entry.name] = bytes(whole)
    return found


def header(name: bytes = b"x", size: bytes = b"0", kind: bytes = b"0", **fields: bytes) -> bytes:
    """One header block with anything in it, and the right checksum."""
    places = {"mode": (100, 8), "uid": (108, 8), "gid": (116, 8), "mtime": (136, 12), "link": (157, 100), "rest": (257, 255)}
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    for field, value in fields.items():
        block[places[field][0] : places[field][0] + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    return header(size=b"%o" % len(records), kind=kind) + records.ljust(-(-len(records) // 512) * 512, b"\0")


def record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(b"%d %s=%s\n" % (length, key, value)) != length:
        length += 1
    return b"%d %s=%s\n" % (length, key, value)


@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=1500), st.integers(0, 2**40), st.integers(0, 0o7777)), max_size=6),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
def test_what_the_standard_library_wrote_is_read_as_it_reads_it(files, style):
    packed = tar_of(*(file(name, data, mtime=time, mode=mode, uid=time % 70000) for name, data, time, mode in files), style=style)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        wanted = [(info.name, info.size, info.mode, info.uid, info.mtime) for info in tar]
    with tempfile.TemporaryDirectory() as where:
        found = read(packed, Path(where))
    said = [(each.name.decode(), each.size, each.mode, each.uid, each.mtime_ns // 10**9) for each in found]
    assert [(name.rstrip("/"), *rest) for name, *rest in said] == [(name.rstrip("/"), *rest) for name, *rest in wanted]


@given(st.data())
def test_no_change_of_bytes_makes_it_do_anything_but_read_or_refuse(data):
    whole = bytearray(
        tar_of(file("a" * 150, b"hello"), folder("b"), link("c", "a"), file("d", b"x" * 700, pax_headers={"k": "v"}))
    )
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(whole) // 512 - 1)) * 512
        block = whole[at : at + 512]
        block[data.draw(st.integers(0, 511))] = data.draw(st.integers(0, 255))
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        whole[at : at + 512] = block
    with tempfile.TemporaryDirectory() as where:
        try:
            found = read(bytes(whole), Path(where))
        except ConfigError:
            return
    assert len(found) <= len(whole) // 512


def test_names_need_not_be_text(tmp_path):
    assert read(header(b"caf\xe9") + bytes(1024), tmp_path)[0].name == b"caf\xe9"
    assert read(pax(record(b"path", b"\xff\xfe/x")) + header(), tmp_path)[0].name == b"\xff\xfe/x"


def test_long_names_and_links_come_whole_in_every_format(tmp_path):
    name, target = "d" * 90 + "/" + "e" * 120 + "/f", "t" * 300
    for style in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        (entry,) = read(tar_of(link(name, target), style=style), tmp_path)
        assert (entry.name, entry.link, entry.kind) == (name.encode(), target.encode(), TarKind.LINK)


@pytest.mark.parametrize("version", ["--format=gnu", *(f"--format=pax --sparse-version={v}" for v in ("0.0", "0.1", "1.0"))])
def test_sparse_files_of_every_kind_come_out_as_they_were(tmp_path, version):
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "sparse").open("wb") as out:
        for number in range(60):  # more than fit in one header of the old kind
            out.seek(number * 65536 + 8192)
            out.write(bytes([number + 1]) * 5000)
        out.truncate(10_000_000)
    (tmp_path / "in" / "after").write_text("still found")
    made = tmp_path / "made.tar"
    subprocess.run(["tar", "-C", tmp_path / "in", "--sparse", *version.split(), "-cf", made, "sparse", "after"], check=True)
    assert made.stat().st_size < 2_000_000
    found = contents(made.read_bytes(), tmp_path)
    assert found == {b"sparse": (tmp_path / "in" / "sparse").read_bytes(), b"after": b"still found"}


NEGATIVE = b"\xff" * 12
TOO_MUCH = 2 * MAX_HEADERS_BYTES
HUGE = b"\x80" + b"\xff" * 11


@pytest.mark.parametrize(
    "hostile",
    {
        "a size below zero": header(size=NEGATIVE) + bytes(1024),
        "a size beyond everything": header(size=HUGE) + bytes(1024),
        "a pax header of negative size": header(size=NEGATIVE, kind=b"x") + header(),
        "a pax header that fills the memory": header(size=b"%o" % TOO_MUCH, kind=b"x") + bytes(TOO_MUCH),
        "a long name that fills the memory": header(size=b"%o" % TOO_MUCH, kind=b"L") + bytes(TOO_MUCH),
        "pax headers without end": pax(record(b"a", b"b")) * 3000 + header(),
        "a pax header and then nothing": header() + pax(record(b"a", b"b")) + bytes(1024),
        "a pax size below zero": pax(record(b"size", b"-512")) + header(),
        "a pax size of a million digits": pax(record(b"size", b"9" * 500_000)) + header(),
        "a pax record longer than its header": pax(b"999 path=x\n") + header(),
        "a pax record of no length": pax(b"0 path=x\n") + header(),
        "a pax record of negative length": pax(b"-5 path=x\n") + header(),
        "a pax record without an equals sign": pax(b"9 abcdef\n") + header(),
        "digits only": pax(b"1" * 100_000) + header(),
        "a name with a NUL": pax(record(b"path", b"a\0b")) + header(),
        "a name longer than any": pax(record(b"path", b"a" * 5000)) + header(),
        "a time that is none": pax(record(b"mtime", b"nan")) + header(),
        "a wrong checksum": header()[:-1] + b"!" + bytes(1024),
        "a damaged header after a good one": header() + b"x" * 512 + bytes(1024),
        "data that is not there": header(size=b"7777") + b"x" * 512,
        "half a header": header()[:300],
        "an unknown type": header(kind=b"Z") + bytes(1024),
        "a sparse piece beyond the file": pax(record(b"GNU.sparse.map", b"99999,512") + record(b"GNU.sparse.size", b"5"))
        + header(size=b"1000") + bytes(2048),
        "sparse pieces over each other": pax(record(b"GNU.sparse.map", b"0,10,5,10") + record(b"GNU.sparse.size", b"50"))
        + header(size=b"24") + bytes(2048),
        "a sparse map with half a pair": pax(record(b"GNU.sparse.map", b"0,10,5") + record(b"GNU.sparse.size", b"50"))
        + header(size=b"24") + bytes(2048),
        "sparse pieces that take another entry's bytes": pax(
            record(b"GNU.sparse.map", b"0,4000") + record(b"GNU.sparse.size", b"5000")
        )
        + header(size=b"1000") + bytes(4096),
        "a sparse map without end": pax(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.realsize", b"9"))
        + header(size=b"1000") + b"9" * 2048,
        "an old sparse header that goes on for ever": header(kind=b"S", size=b"0", rest=bytes(225) + b"\1" + b"7" * 11)
        + (bytes(504) + b"\1" + bytes(7)) * 5000,
    }.items(),
    ids=lambda item: item[0],
)  # fmt: skip
def test_a_hostile_header_is_refused(hostile, tmp_path):
    with pytest.raises(ConfigError) as caught:
        read(hostile[1], tmp_path)
    assert caught.value.kind == "config"


def test_what_is_no_file_has_no_bytes_whatever_its_header_says(tmp_path):
    found = read(header(b"d/", size=b"1000", kind=b"5") + header(b"after") + bytes(1024), tmp_path)
    assert [entry.name for entry in found] == [b"d/", b"after"]


def test_large_numbers_in_binary_are_read(tmp_path):
    (entry,) = read(header(uid=b"\x80" + struct.pack(">xxxI", 3_000_000)) + bytes(1024), tmp_path)
    assert entry.uid == 3_000_000
