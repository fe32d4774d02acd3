"""Image archives: what `docker save` and OCI builders write is read alike, and what is damaged or a bomb is refused."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import subprocess
import tarfile

import pytest

from builders.images import config_of, docker_archive, file, hard_link, hexes, link, oci_blobs, special, tar_of
from sandlot.core.errors import ConfigError
from sandlot.sandbox.images import archive
from sandlot.sandbox.images.archive import archive_digest, archive_image
from sandlot.sandbox.images.spec import build_image
from sandlot.sandbox.images.store import list_images
from sandlot.sandbox.images.unpack import ImageCaps

LOW = tar_of(file("etc/motd", b"low"), file("etc/gone", b"x"))
HIGH = tar_of(file("etc/motd", b"high"), file("etc/.wh.gone"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def saved(folder, data: bytes, name: str = "box.tar"):
    (folder / name).write_bytes(data)
    return folder / name


def files_of(image) -> dict[str, bytes]:
    root = image.trees[0][1][0]
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refuses(path, match: str, **fields) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        archive_image(path, **fields)
    assert str(path) in str(caught.value)
    assert [item for item in list_images() if item.about.kind == "archive"] == []
    assert not list(path.parent.rglob(".draft-*"))


def test_a_built_image_is_returned_as_it_is_in_the_store(tmp_path):
    saved(tmp_path, docker_archive(LOW, HIGH))
    (built,) = build_image("archive:box.tar", tmp_path)
    assert built.key in {each.key for each in list_images()}
    assert (built.about.kind, built.about.digest) == ("archive", archive_digest(tmp_path / "box.tar"))
    (again,) = build_image(f"archive:{tmp_path / 'box.tar'}")
    assert (again.key, again.about) == (built.key, built.about)
    (tmp_path / "root").mkdir()
    assert build_image("folder:root", tmp_path) == []  # a folder is used where it is


def test_one_image_is_one_image_however_it_was_saved(tmp_path):
    layout = tmp_path / "layout"
    for name, data in oci_blobs(LOW, HIGH).items():
        (layout / name).parent.mkdir(parents=True, exist_ok=True)
        (layout / name).write_bytes(data)
    plain = [file(name, data) for name, data in oci_blobs(LOW, HIGH, packed=False).items()]
    ways = [
        saved(tmp_path, docker_archive(LOW, HIGH), "plain.tar"),
        saved(tmp_path, docker_archive(LOW, HIGH, packed=True), "layers-packed.tar"),
        saved(tmp_path, gzip.compress(docker_archive(LOW, HIGH)), "all-packed.tar.gz"),
        saved(tmp_path, tar_of(*(file(f"./{name}", data) for name, data in oci_blobs(LOW, HIGH).items())), "oci.tar"),
        saved(tmp_path, tar_of(*plain), "oci-plain.tar"),
        layout,
    ]
    images = [archive_image(path) for path in ways]
    assert {archive_digest(path) for path in ways} == {f"sha256:{hexes(config_of([LOW, HIGH]))}"}
    assert len({image.trees for image in images}) == 1
    assert files_of(images[0]) == {"etc/motd": b"high"}
    assert all(image.portable for image in images)


def test_a_layer_that_comes_twice_may_be_a_link_as_old_docker_writes_it(tmp_path):
    config = config_of([LOW, LOW, LOW])
    names = ["a/layer.tar", "b/layer.tar", "c/layer.tar"]
    manifest = json.dumps([{"Config": "config.json", "Layers": names}]).encode()
    pieces = [file(names[0], LOW), link(names[1], "../a/layer.tar"), hard_link(names[2], names[0]), file("config.json", config)]
    image = archive_image(saved(tmp_path, tar_of(*pieces, file("manifest.json", manifest))))
    assert files_of(image) == {"etc/motd": b"low", "etc/gone": b"x"}


def test_gzip_in_several_pieces_is_read_to_its_end(tmp_path):
    pieces = gzip.compress(docker_archive(LOW)[:3000]) + gzip.compress(docker_archive(LOW)[3000:])
    assert files_of(archive_image(saved(tmp_path, pieces)))["etc/motd"] == b"low"


def test_of_several_images_one_must_be_named(tmp_path):
    one, two = config_of([LOW]), config_of([HIGH])
    manifest = [
        {"Config": "one.json", "RepoTags": ["box:1"], "Layers": ["low.tar"]},
        {"Config": "two.json", "RepoTags": ["box:2"], "Layers": ["high.tar"]},
    ]
    pieces = [file("one.json", one), file("two.json", two), file("low.tar", LOW), file("high.tar", HIGH)]
    path = saved(tmp_path, tar_of(*pieces, file("manifest.json", json.dumps(manifest).encode())))
    refuses(path, r"has 2 images .* `archive:PATH#NAME`: `box:1`, `box:2`")
    refuses(path, "no image `box:3` in the archive; there are: `box:1`, `box:2`", tag="box:3")
    assert files_of(archive_image(path, "box:2")) == {"etc/motd": b"high"}


def changed(blobs: dict[str, bytes], old: bytes, new: bytes) -> bytes:
    return tar_of(*(file(name, new if data == old else data) for name, data in blobs.items()))


def test_bytes_that_are_not_what_the_manifest_says_are_refused(tmp_path):
    packed = gzip.compress(LOW, 1, mtime=0)
    blobs = oci_blobs(LOW)
    refuses(saved(tmp_path, changed(blobs, packed, gzip.compress(HIGH))), "a layer is damaged")
    refuses(saved(tmp_path, changed(blobs, config_of([LOW]), config_of([HIGH]))), "not match the hash")
    refuses(saved(tmp_path, docker_archive(LOW, config=config_of([HIGH]))), "a layer is damaged: its uncompressed bytes")
    wrong = json.dumps([{"Config": f"{'0' * 64}.json", "Layers": []}]).encode()
    refuses(saved(tmp_path, tar_of(file("manifest.json", wrong), file(f"{'0' * 64}.json", config_of([])))), "not match the hash")


def test_what_is_not_whole_is_refused_by_name(tmp_path):
    manifest = json.dumps([{"Config": "c.json", "Layers": ["missing.tar"]}]).encode()
    refuses(saved(tmp_path, tar_of(file("manifest.json", manifest), file("c.json", config_of([LOW])))), "no `missing.tar`")
    refuses(saved(tmp_path, docker_archive(LOW, config=config_of([LOW, HIGH]))), "names 2 layers by sha256, the archive has 1")
    refuses(saved(tmp_path, tar_of(file("hello"))), "neither `manifest.json`")
    refuses(saved(tmp_path, b"not a tar" * 200), "no tar header")
    refuses(saved(tmp_path, docker_archive(LOW)[:2000]), "archive")
    refuses(saved(tmp_path, gzip.compress(docker_archive(LOW))[:-30]), "compressed data is damaged")
    refuses(saved(tmp_path, tar_of(file("manifest.json", b"[{"))), "reading it: DecodeError")
    refuses(tmp_path / "never-was.tar", "no file at")


def test_an_image_for_another_machine_is_refused(tmp_path):
    path = saved(tmp_path, docker_archive(LOW, config=config_of([LOW], architecture="s390x")))
    refuses(path, "for s390x, this machine is")


def zstd(data: bytes) -> bytes:
    program = shutil.which("zstd")
    return subprocess.run([program, "-c"], input=data, capture_output=True, check=True).stdout if program else b"\x28\xb5\x2f\xfd"


def two_streams(data: bytes) -> bytes:
    return lzma.compress(data[:700]) + bytes(8) + lzma.compress(data[700:])


@pytest.mark.parametrize("pack", [lzma.compress, two_streams, bz2.compress])
def test_every_packing_of_a_layer_is_the_same_image(tmp_path, pack):
    path = saved(tmp_path, docker_archive(LOW, HIGH, packed=True, pack=pack))
    assert files_of(archive_image(path)) == {"etc/motd": b"high"}
    assert archive_digest(path) == f"sha256:{hexes(config_of([LOW, HIGH]))}"


def test_zstd_is_read_where_its_program_is(tmp_path):
    path = saved(tmp_path, docker_archive(LOW, HIGH, packed=True, pack=zstd))
    if shutil.which("zstd"):
        assert files_of(archive_image(path)) == {"etc/motd": b"high"}


def test_zstd_without_its_program_is_refused_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    packed = docker_archive(LOW, packed=True, pack=lambda _: b"\x28\xb5\x2f\xfd" + bytes(600))
    refuses(saved(tmp_path, packed), "apt-get install zstd")


@pytest.mark.parametrize("start", [b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh9", b"\x28\xb5\x2f\xfd"])
def test_a_damaged_packing_is_refused(tmp_path, start):
    path = saved(tmp_path, docker_archive(LOW, packed=True, pack=lambda _: start + bytes(600)))
    refuses(path, "damaged|apt-get install zstd")
    path = saved(tmp_path, docker_archive(LOW, packed=True, pack=lambda layer: lzma.compress(layer)[:-20]))
    refuses(path, "damaged")


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress])
def test_a_bomb_in_any_compression_is_refused(tmp_path, pack):
    caps = ImageCaps(free_bytes=100_000, ratio=10)
    refuses(saved(tmp_path, docker_archive(tar_of(file("big", bytes(3_000_000))), packed=True, pack=pack)), "bomb", caps=caps)


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path):
    caps = ImageCaps(free_bytes=100_000, ratio=20)
    bomb = tar_of(file("zeros", bytes(3_000_000)))
    refuses(saved(tmp_path, docker_archive(bomb, packed=True)), "a decompression bomb", caps=caps)
    refuses(saved(tmp_path, gzip.compress(docker_archive(bomb))), "a decompression bomb", caps=caps)
    refuses(saved(tmp_path, gzip.compress(gzip.compress(docker_archive(bomb)))), "no tar header|neither", caps=ImageCaps())


def test_names_inside_an_archive_lead_nowhere_else(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(LOW)
    for name in (str(secret), "../secret", "link"):
        manifest = json.dumps([{"Config": "c.json", "Layers": [name]}]).encode()
        pieces = [file("manifest.json", manifest), file("c.json", config_of([LOW])), link("link", str(secret))]
        refuses(saved(tmp_path, tar_of(*pieces)), "the archive has no")


def test_a_layout_folder_is_read_by_hash_and_only_plain_files(tmp_path):
    layout = tmp_path / "layout"
    layout.mkdir()
    os.mkfifo(layout / "index.json")
    refuses(layout, "not a regular file")
    (layout / "index.json").unlink()
    (layout / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:../../etc/passwd", "size": 1}]}))
    refuses(layout, "only sha256 is supported")
    (layout / "index.json").unlink()
    (layout / "manifest.json").write_text(json.dumps([{"Config": "/etc/passwd", "Layers": ["/etc/passwd"]}]))
    refuses(layout, "no `/etc/passwd`")


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
def test_an_image_whose_mount_points_lead_elsewhere_is_refused(tmp_path, name):
    path = saved(tmp_path, docker_archive(tar_of(link(name, "/etc"))))
    with pytest.raises(ConfigError, match=f"`/{name}` of .* is not a folder"):
        archive_image(path)


def test_devices_that_were_left_out_are_in_the_notes(tmp_path):
    archive_image(saved(tmp_path, docker_archive(tar_of(special("dev/null", tarfile.CHRTYPE)))))
    (item,) = [item for item in list_images() if item.about.kind == archive.KIND]
    assert item.about.notes == ("1 devices and pipes left out",)
