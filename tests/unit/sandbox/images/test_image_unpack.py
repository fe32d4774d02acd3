"""Unpacking malicious layers: nothing outside the image changes."""

import contextlib
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.images import file, folder, hard_link, link, special, stretch_of, tar_of
from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.unpack import ImageCaps, Unpacking

IS_ROOT = os.geteuid() == 0


def unpack(where: Path, *layers: bytes, caps: ImageCaps | None = None, keep_owners: bool = IS_ROOT) -> Path:
    root = where / "root"
    root.mkdir()
    unpacking = Unpacking(root, caps, keep_owners=keep_owners)
    for layer in layers:
        with stretch_of(layer, where) as stretch:
            unpacking.add(stretch)
    unpacking.finish()
    return root


def tree(root: Path) -> dict[str, str]:
    """Every path below a folder and what is there."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = f"-> {path.readlink()}"
        else:
            found[str(path.relative_to(root))] = "/" if path.is_dir() else path.read_text()
    return found


@pytest.fixture
def outside(tmp_path):
    """What must not change, beside the image's root."""
    (tmp_path / "outside" / "inner").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_text("keep me")
    return tmp_path / "outside"


def test_a_leading_slash_means_the_root_of_the_image(tmp_path):
    root = unpack(tmp_path, tar_of(file("/etc/passwd", b"inside"), file("./a/./b", b"x")))
    assert tree(root) == {"etc": "/", "etc/passwd": "inside", "a": "/", "a/b": "x"}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/..", "a/..", "./../x"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    for entry in (file(name, b"x"), folder(name), link(name, "x"), hard_link("x", name)):
        with pytest.raises(ConfigError, match="leads out"):
            unpack(Path(tempfile.mkdtemp(dir=tmp_path)), tar_of(entry))


@pytest.mark.parametrize("far", ["/", "../outside", "/../../../..", "ABSOLUTE"])
def test_a_link_cannot_carry_a_file_out(tmp_path, outside, far):
    target = str(outside) if far == "ABSOLUTE" else far
    layers = tar_of(link("way", target), file("way/secret", b"changed"), folder("way/inner", mode=0o777), file("way/new", b"x"))
    root = unpack(tmp_path, layers)
    assert tree(outside) == {"inner": "/", "secret": "keep me"}
    assert stat.S_IMODE((outside / "inner").stat().st_mode) != 0o777
    inside = root if far in {"/", "/../../../.."} else root / target.lstrip("./")
    assert (inside / "new").read_text() == "x"


def test_a_link_of_an_earlier_layer_is_followed_inside_the_image_only(tmp_path, outside):
    first = tar_of(folder("usr/bin"), link("bin", "usr/bin"), link("abs", "/usr"), link("evil", str(outside)))
    root = unpack(tmp_path, first, tar_of(file("bin/tool", b"1"), file("abs/bin/other", b"2"), file("evil/secret", b"3")))
    assert (root / "usr/bin/tool").read_text() == "1"
    assert (root / "usr/bin/other").read_text() == "2"
    assert (outside / "secret").read_text() == "keep me"


def test_a_file_takes_a_links_place_and_does_not_go_through_it(tmp_path, outside):
    root = unpack(tmp_path, tar_of(link("f", str(outside / "secret"))), tar_of(file("f", b"mine")))
    assert tree(root) == {"f": "mine"}
    assert (outside / "secret").read_text() == "keep me"


def test_modes_of_folders_are_not_set_through_links_that_came_later(tmp_path, outside):
    before = (outside / "inner").stat()
    root = unpack(tmp_path, tar_of(folder("a"), folder("a/inner", mode=0o777, mtime=1)), tar_of(link("a", str(outside))))
    assert (root / "a").is_symlink()
    assert (outside / "inner").stat() == before


def test_a_whiteout_does_not_reach_through_a_link(tmp_path, outside):
    for first, second in (
        (link("a", str(outside)), file("a/.wh.secret")),
        (link("a", str(outside)), file("a/.wh..wh..opq")),
        (link("a", "../outside"), file("a/.wh.inner")),
        (link("a", str(outside)), file(".wh.a")),
    ):
        unpack(Path(tempfile.mkdtemp(dir=tmp_path)), tar_of(first), tar_of(second))
        assert tree(outside) == {"inner": "/", "secret": "keep me"}


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh.x/y"])
def test_a_whiteout_of_nothing_or_of_the_folder_above_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="whiteout"):
        unpack(tmp_path, tar_of(folder("a")), tar_of(file(name)))


def test_a_hard_link_cannot_reach_out(tmp_path, outside):
    for entries in (
        [hard_link("x", str(outside / "secret"))],
        [link("way", str(outside)), hard_link("x", "way/secret")],
        [link("way", "/../../outside"), hard_link("x", "way/secret")],
        [hard_link("x", "/etc/hostname")],
        [hard_link("x", "missing")],
        [folder("d"), hard_link("x", "d")],
        [hard_link("x", "/")],
    ):
        with pytest.raises(ConfigError, match="not in the image"):
            unpack(Path(tempfile.mkdtemp(dir=tmp_path)), tar_of(*entries))
    assert (outside / "secret").stat().st_nlink == 1


def test_a_hard_link_to_a_link_is_that_link_and_not_what_it_leads_to(tmp_path, outside):
    root = unpack(tmp_path, tar_of(link("a", str(outside / "secret")), hard_link("b", "a")), tar_of(file("b", b"mine")))
    assert tree(root) == {"a": f"-> {outside / 'secret'}", "b": "mine"}
    assert (outside / "secret").read_text() == "keep me"


def test_hard_links_reach_files_of_lower_layers_and_writing_one_name_leaves_the_other(tmp_path):
    root = unpack(tmp_path, tar_of(file("a", b"1")), tar_of(hard_link("b", "a"), hard_link("b", "b")), tar_of(file("a", b"2")))
    assert tree(root) == {"a": "2", "b": "1"}


def test_links_in_a_circle_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="more than 40 links"):
        unpack(tmp_path, tar_of(link("a", "b"), link("b", "a"), file("a/x", b"")))


def test_a_whiteout_removes_and_an_opaque_folder_empties_what_is_below_and_nothing_of_its_own_layer(tmp_path):
    low = tar_of(file("gone", b"1"), file("d/old", b"1"), file("d/sub/old", b"1"), file("e/old", b"1"), file("e/kept", b"1"))
    # The marks stand last: where in a layer they stand must not matter.
    high = tar_of(file("gone", b"again"), file("d/new", b"2"), file("e/new", b"2"), file(".wh.gone"), file("d/.wh..wh..opq"),
                  file("e/.wh.old"), file("e/.wh.never-was"), file("f/.wh.x"), file(".wh..wh.plnk"))  # fmt: skip
    root = unpack(tmp_path, low, high)
    assert tree(root) == {"gone": "again", "d": "/", "d/new": "2", "e": "/", "e/kept": "1", "e/new": "2"}


def test_a_whiteout_removes_a_whole_folder_and_a_file_may_take_its_place(tmp_path):
    low = tar_of(file("a/b/c", b"1"), file("x/y", b"1"))
    assert tree(unpack(tmp_path, low, tar_of(file(".wh.a"), file("x", b"now a file")))) == {"x": "now a file"}


def test_of_two_entries_with_one_name_the_last_counts_and_folders_are_joined(tmp_path):
    root = unpack(
        tmp_path, tar_of(file("a", b"1"), file("a", b"2"), file("d/x", b"1"), folder("d", mode=0o700), file("d/y", b"2"))
    )
    assert tree(root) == {"a": "2", "d": "/", "d/x": "1", "d/y": "2"}
    assert stat.S_IMODE((root / "d").stat().st_mode) == 0o700


def test_devices_and_pipes_stay_out_and_are_counted(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    unpacking = Unpacking(root, keep_owners=IS_ROOT)
    nodes = [special(str(number), kind) for number, kind in enumerate((tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE))]
    with stretch_of(tar_of(*nodes, file("a")), tmp_path) as stretch:
        unpacking.add(stretch)
    assert (tree(root), unpacking.num_left_out) == ({"a": ""}, 3)


def test_no_file_of_an_image_is_setuid_on_the_host(tmp_path):
    root = unpack(tmp_path, tar_of(file("su", b"", mode=0o6755), folder("mail", mode=0o2775), folder("tmp", mode=0o1777)))
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("su", "mail", "tmp")] == [0o755, 0o2775, 0o1777]


def test_attributes_of_the_overlay_and_capabilities_are_not_taken_over(tmp_path):
    headers = {"SCHILY.xattr.trusted.overlay.redirect": "/etc", "SCHILY.xattr.user.overlay.opaque": "y"}
    root = unpack(tmp_path, tar_of(file("a", b"x", pax_headers=headers)))
    assert os.listxattr(root / "a") == []


def test_times_and_modes_are_the_archives_and_the_root_can_have_its_own(tmp_path):
    entries = [folder("./", mode=0o711, mtime=5), folder("d", mode=0o555, mtime=7), file("d/f", b"x", mode=0o400, mtime=9)]
    root = unpack(tmp_path, tar_of(*entries))
    about = [(stat.S_IMODE(path.stat().st_mode), path.stat().st_mtime) for path in (root, root / "d", root / "d/f")]
    assert about == [(0o711, 5), (0o555, 7), (0o400, 9)]
    with pytest.raises(ConfigError, match="the root of the image"):
        unpack(Path(tempfile.mkdtemp(dir=tmp_path)), tar_of(link(".", "/etc")))


def test_owners_are_kept_for_root_unknown_ones_are_nobody_and_an_ordinary_users_image_is_theirs(tmp_path):
    layer = tar_of(file("a", b"", uid=33, gid=34), file("b", b"", uid=500_000, gid=0), link("c", "a"))
    if IS_ROOT:
        root = unpack(tmp_path, layer)
        assert [((root / n).lstat().st_uid, (root / n).lstat().st_gid) for n in "abc"] == [(33, 34), (65534, 0), (0, 0)]
    mine = unpack(Path(tempfile.mkdtemp(dir=tmp_path)), layer, keep_owners=False)
    assert {(mine / name).lstat().st_uid for name in "abc"} == {os.geteuid()}


def test_names_that_are_not_text_arrive_unchanged(tmp_path):
    root = unpack(tmp_path, tar_of(file("caf\udce9/\udcff", b"x")))
    assert sorted(map(os.fsencode, root.rglob("*"))) == [os.fsencode(root) + tail for tail in (b"/caf\xe9", b"/caf\xe9/\xff")]


@pytest.mark.parametrize(
    ("entries", "caps"),
    [
        ([file(str(number)) for number in range(12)], ImageCaps(num_paths=10)),
        ([file("/".join("abcdefghijkl"))], ImageCaps(num_paths=10)),
        ([file("a", b"x" * 600), file("b", b"x" * 600)], ImageCaps(size_bytes=1000)),
        ([file("/".join(["d"] * 300))], ImageCaps()),
    ],
    ids=["many files", "many folders", "many bytes", "deep"],
)
def test_an_image_that_grows_beyond_its_caps_is_refused(tmp_path, entries, caps):
    with pytest.raises(ConfigError, match="more than"):
        unpack(tmp_path, tar_of(*entries), caps=caps)


def test_a_huge_hole_counts_as_the_bytes_it_reads_as(tmp_path):
    info, _ = file("hole", pax_headers={"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 50)})
    with pytest.raises(ConfigError, match="bytes in one image"):
        unpack(tmp_path, tar_of((info, b"")))


PIECES = st.sampled_from(["a", "b", "c", ".", "..", "", "outside", "way", ".wh.a", ".wh..wh..opq", "/"])
PATHS = st.lists(PIECES, min_size=1, max_size=5).map("/".join)
ENTRIES = st.one_of(
    st.builds(lambda name: file(name, b"changed", mode=0o777), PATHS),
    st.builds(lambda name: folder(name, mode=0o777), PATHS),
    st.builds(link, PATHS, st.one_of(PATHS, st.just("OUTSIDE"), st.just("../outside"), st.just("/"))),
    st.builds(hard_link, PATHS, PATHS),
)


@given(st.lists(st.lists(ENTRIES, max_size=8), min_size=1, max_size=3))
def test_whatever_layers_say_nothing_outside_the_image_changes(layers):
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        outside = where / "outside"
        (outside / "a").mkdir(parents=True)
        (outside / "b").write_text("keep me")
        for entries in layers:
            for info, _ in entries:
                info.linkname = info.linkname.replace("OUTSIDE", str(outside))
        before = {path: path.lstat() for path in (outside, outside / "a", outside / "b")}
        with contextlib.suppress(ConfigError, OSError):  # `archive.py` gives the plain ones a side
            unpack(where, *(tar_of(*entries) for entries in layers))
        assert sorted(path.name for path in where.iterdir()) == ["outside", "root"]
        for path, about in before.items():
            now = path.lstat()
            assert (now.st_mode, now.st_nlink, now.st_mtime_ns, now.st_ctime_ns) == (
                about.st_mode, about.st_nlink, about.st_mtime_ns, about.st_ctime_ns,
            )  # fmt: skip
