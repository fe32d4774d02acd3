"""Image archives, honest and hostile. Nothing an archive says may touch a byte outside the folder it is unpacked into."""

import gzip
import io
import json
import os
import shutil
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native_sandboxes import backend_of, sh
from sandlot.errors import ConfigError
from sandlot.sandbox import archive as archive_module
from sandlot.sandbox.archive import unpack
from sandlot.sandbox.image import find_image, image_digest


def entry(name, kind=tarfile.REGTYPE, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    info.mode = fields.pop("mode", 0o755 if kind == tarfile.DIRTYPE else 0o644)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def layer(*entries) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def saved(path: Path, *layers: bytes) -> Path:
    """As `docker save` writes it."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["x:y"], "Layers": names}]).encode()
    whole = [entry("config.json", data=b'{"os": "linux"}'), entry("manifest.json", data=manifest)]
    path.write_bytes(layer(*whole, *(entry(name, data=data) for name, data in zip(names, layers, strict=True))))
    return path


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): stat.filemode(path.lstat().st_mode) for path in sorted(folder.rglob("*"))}


def test_layers_become_folders_topmost_first(tmp_path):
    image = saved(
        tmp_path / "i.tar", layer(entry("a", data=b"low")), gzip.compress(layer(entry("./b/c", data=b"top", mode=0o4755)))
    )
    top, low = unpack(image, tmp_path / "store").layers
    assert (low / "a").read_bytes() == b"low"
    assert (top / "b/c").read_bytes() == b"top"
    assert tree(top)["b/c"] == "-rwxr-xr-x"  # no setuid bit


def test_an_oci_layout_is_read_too(tmp_path):
    data = layer(entry("a", data=b"x"))
    manifest = json.dumps({"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l"}]}).encode()
    index = json.dumps({"manifests": [{"digest": "sha256:m"}]}).encode()
    blobs = {"blobs/sha256/c": b"{}", "blobs/sha256/l": data, "blobs/sha256/m": manifest, "index.json": index}
    (tmp_path / "o.tar").write_bytes(layer(*(entry(name, data=content) for name, content in blobs.items())))
    (only,) = unpack(tmp_path / "o.tar", tmp_path / "store").layers
    assert (only / "a").read_bytes() == b"x"


def test_the_same_layers_are_unpacked_once_and_shared(tmp_path):
    base, store = layer(entry("a")), tmp_path / "store"
    one = unpack(saved(tmp_path / "1.tar", base, layer(entry("b"))), store)
    two = unpack(saved(tmp_path / "2.tar", base, layer(entry("c"))), store)
    assert one.layers[1] == two.layers[1]
    assert len(list(store.iterdir())) == 3


def test_whiteouts_and_opaque_folders_become_overlays(tmp_path):
    upper = layer(entry("d/.wh.gone"), entry("e/.wh..wh..opq"), entry("e/new"))
    (top,) = unpack(saved(tmp_path / "i.tar", upper), tmp_path / "store").layers
    about = (top / "d/gone").lstat()
    assert stat.S_ISCHR(about.st_mode)
    assert about.st_rdev == 0
    assert os.getxattr(top / "e", "trusted.overlay.opaque" if os.geteuid() == 0 else "user.overlay.opaque") == b"y"


def test_hard_links_hold_within_a_layer_and_are_copied_across(tmp_path):
    low = layer(entry("d/file", data=b"low", mode=0o640))
    top = layer(
        entry("own", data=b"own"),
        entry("same", tarfile.LNKTYPE, linkname="own"),
        entry("far", tarfile.LNKTYPE, linkname="d/file"),
    )
    first, second = unpack(saved(tmp_path / "i.tar", low, top), tmp_path / "store").layers
    assert (first / "same").stat().st_ino == (first / "own").stat().st_ino
    assert (first / "far").read_bytes() == b"low"
    assert (first / "far").stat().st_mode & 0o777 == 0o640
    assert not (first / "d").exists()
    assert (second / "d/file").stat().st_nlink == 1


HOSTILE = {
    "a path upwards": [entry("../outside", data=b"x")],
    "a path upwards in the middle": [entry("a/../../outside", data=b"x")],
    "an absolute path": [entry("/outside", data=b"x")],
    "a link and a file through it": [entry("d", tarfile.SYMTYPE, linkname="{out}"), entry("d/outside", data=b"x")],
    "a link replaced while written": [entry("f", tarfile.SYMTYPE, linkname="{out}/outside"), entry("f", data=b"x")],
    "a hard link outwards": [entry("h", tarfile.LNKTYPE, linkname="../../../../../../etc/passwd")],
    "a hard link to nothing": [entry("h", tarfile.LNKTYPE, linkname="etc/passwd")],
    "a hard link through a link": [
        entry("d", tarfile.SYMTYPE, linkname="/etc"),
        entry("h", tarfile.LNKTYPE, linkname="d/passwd"),
    ],
    "a device": [entry("disk", tarfile.BLKTYPE, devmajor=254, devminor=0), entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1)],
    "a whiteout upwards": [entry(".wh...", data=b"")],
    "a whiteout through a link": [entry("d", tarfile.SYMTYPE, linkname="{out}"), entry("d/.wh.keep")],
    "an opaque mark through a link": [entry("d", tarfile.SYMTYPE, linkname="{out}"), entry("d/.wh..wh..opq")],
    "a folder over a link": [entry("d", tarfile.SYMTYPE, linkname="{out}"), entry("d", tarfile.DIRTYPE, mode=0o777)],
    "a giant owner": [entry("f", uid=2**31, gid=2**31)],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_layer_stays_in_its_folder_or_is_refused(tmp_path, what):
    outside = tmp_path / "out"
    outside.mkdir(mode=0o755)
    (outside / "keep").write_text("keep")
    entries = [(info, data) for info, data in HOSTILE[what]]
    for info, _ in entries:
        info.linkname = info.linkname.format(out=outside) if "{out}" in info.linkname else info.linkname
    before = tree(tmp_path) | {"mode": oct(outside.stat().st_mode)}
    image = saved(tmp_path / "i.tar", layer(*entries))
    try:
        layers = unpack(image, tmp_path / "store").layers
        assert not any(stat.S_ISBLK(path.lstat().st_mode) or path.lstat().st_rdev for path in layers[0].rglob("*"))
        assert not any(path.is_file() and path.read_bytes() == Path("/etc/passwd").read_bytes() for path in layers[0].glob("h"))
    except ConfigError as error:
        assert "image archive" in str(error) or "entry" in str(error) or "link" in str(error) or "whiteout" in str(error)  # noqa: PT017
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    image.unlink()
    assert tree(tmp_path) | {"mode": oct(outside.stat().st_mode)} == before
    assert not Path("/outside").exists()


def test_a_bomb_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="unpacks to more than"):
        unpack(saved(tmp_path / "i.tar", gzip.compress(layer(entry("zeros", data=bytes(2000))))), tmp_path / "store")
    assert list((tmp_path / "store").iterdir()) == []


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_ENTRIES", 3)
    with pytest.raises(ConfigError, match="more than 3 entries"):
        unpack(saved(tmp_path / "i.tar", layer(*(entry(str(number)) for number in range(5)))), tmp_path / "store")


@pytest.mark.parametrize("count", [0, 101])
def test_no_layers_or_too_many_are_refused(tmp_path, count):
    with pytest.raises(ConfigError, match="layers"):
        unpack(saved(tmp_path / "i.tar", *[layer(entry("a"))] * count), tmp_path / "store")


def test_a_header_that_claims_gigabytes_is_refused(tmp_path):
    info, _ = entry("x", b"x")  # an extended header, which a reader takes whole
    info.size = 1 << 40
    with pytest.raises(ConfigError, match="claims"):
        unpack(saved(tmp_path / "i.tar", info.tobuf(tarfile.PAX_FORMAT) + bytes(4096)), tmp_path / "store")


@pytest.mark.parametrize(
    "data", [b"", b"not a tar", layer(), layer(entry("manifest.json", data=b"{}")), layer(entry("manifest.json", data=b"[]"))]
)
def test_what_is_no_archive_is_refused_by_name(tmp_path, data):
    (tmp_path / "i.tar").write_bytes(data)
    with pytest.raises(ConfigError, match=r"i\.tar"):
        unpack(tmp_path / "i.tar", tmp_path / "store")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_archive_is_unpacked_or_refused_and_nothing_else(tmp_path, data):
    whole = bytearray(
        saved(tmp_path / "i.tar", layer(entry("a/b", data=b"x" * 600), entry("l", tarfile.SYMTYPE, linkname="a"))).read_bytes()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "i.tar").write_bytes(whole)
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    with suppress(ConfigError):
        unpack(tmp_path / "i.tar", tmp_path / "store")
    assert {path.name for path in tmp_path.iterdir()} <= {"i.tar", "store"}


async def test_a_sandbox_runs_an_archive_with_its_deletions(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    low = layer(entry("etc/old", data=b"old"), entry("etc/kept", data=b"kept"), entry("d/inner", data=b"x"))
    top = layer(entry("etc/.wh.old"), entry("etc/new", data=b"new"), entry("d/.wh..wh..opq"), entry("d/fresh", data=b"y"))
    image = str(saved(tmp_path / "i.tar", low, top))
    assert image_digest(find_image(image)).startswith("sha256:")
    async with backend_of("root") as backend, backend.open(image) as sandbox:
        assert await sandbox.list("/etc") == ["/etc/kept", "/etc/new"]
        assert await sandbox.list("/d") == ["/d/fresh"]
        assert (await sh(sandbox, "true")).code == 127
        await sandbox.write("/out", b"1")
        assert await (await sandbox.freeze()).list() == {"/out": 1}
