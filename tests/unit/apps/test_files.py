import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps import FILES, FinalApps, LiveApps, load_files, read_folder
from sandlot.apps.files.tree import ROOT, resolve
from sandlot.apps.final import encode_journal
from sandlot.apps.words import fits_glob, fits_wildcard
from sandlot.core.errors import ConfigError, ToolError
from worlds.apps import AppWorld, dump

ADA, BOB = "ada@corp.example", "bob@corp.example"
CONTENTS = {
    "/files/a.txt": "one\ntwo\n",
    "/files/finance/budget.csv": "month,amount\nJan,10\n",
    "/files/finance/2025/old.csv": "x",
    "/files/secret/keys.txt": "key",
    "/files/policies/travel.md": "At most 100.",
    "/files/logo.png": b"\x89PNG\r\n\x1a\n",
}


def fill(apps: LiveApps) -> None:
    load_files(apps.files, CONTENTS, access={"/files/secret": {BOB: "write"}, "/files/policies": {"*": "read"}})


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([FILES], fill, actor=ADA)


async def test_results_and_errors_are_those_of_the_server(world: AppWorld):
    """The expected texts were returned by the real server for the same calls."""
    assert (
        await world.call("read_text_file", path="/etc/passwd")
        == "Access denied - path outside allowed directories: /etc/passwd not in /files"
    )
    assert await world.call("read_text_file", path="/files/no") == "ENOENT: no such file or directory, open '/files/no'"
    assert await world.call("read_text_file", path="/files/finance") == "EISDIR: illegal operation on a directory, read"
    assert await world.call("list_directory", path="/files/a.txt") == "ENOTDIR: not a directory, scandir '/files/a.txt'"
    assert await world.call("list_directory", path="/files/finance") == "[DIR] 2025\n[FILE] budget.csv"
    both = await world.call("read_text_file", path="/files/a.txt", head=1, tail=1)
    assert both == "Cannot specify both head and tail parameters simultaneously"
    edit = await world.call("edit_file", path="/files/a.txt", edits=[{"oldText": "two", "newText": "three"}])
    assert edit == (
        f"```diff\nIndex: /files/a.txt\n{'=' * 67}\n--- /files/a.txt\toriginal\n+++ /files/a.txt\tmodified\n"
        "@@ -1,3 +1,3 @@\n one\n-two\n+three\n \n```\n\n"
    )
    missing = await world.call("edit_file", path="/files/a.txt", edits=[{"oldText": "nope", "newText": "x"}])
    assert missing == "Could not find exact match for edit:\nnope"
    assert (
        await world.call("write_file", path="/files/qq/b.txt", content="x")
        == "ENOENT: no such file or directory, open '/files/qq/b.txt'"
    )
    moved = await world.call("move_file", source="/files/a.txt", destination="/files/finance/budget.csv")
    assert moved == "Destination already exists: /files/finance/budget.csv"
    assert (
        await world.call("search_files", path="/files", pattern="**/*.csv")
        == "/files/finance/2025/old.csv\n/files/finance/budget.csv"
    )
    assert await world.call("search_files", path="/files", pattern="*.doc") == "No matches found"
    sizes = await world.call("list_directory_with_sizes", path="/files/finance")
    assert sizes.startswith("[DIR] 2025                           \n[FILE] budget.csv                           20 B\n")
    tree = json.loads(await world.call("directory_tree", path="/files/finance", excludePatterns=["2025"]))
    assert tree == [{"name": "budget.csv", "type": "file"}]
    wrong = await world.call("read_text_file")
    assert wrong.endswith("Invalid arguments for tool read_text_file: Invalid input: expected string, received undefined at path")


@pytest.mark.parametrize(
    "path",
    [
        "/files/../etc/passwd", "../etc/passwd", "/files/a/../../etc", "//files/../x", "/filesystem", "~/x", "/", "",
        "/files\0/x",
        "/files/" + "a/" * 3000, "/files/" + "b" * 300, "/FILES/a.txt", "/files/./../files/../root",
    ],
)  # fmt: skip
async def test_no_path_leads_out_of_the_tree(world: AppWorld, path: str):
    for tool, more in (
        ("read_text_file", {}),
        ("write_file", {"content": "x"}),
        ("create_directory", {}),
        ("list_directory", {}),
    ):
        result = await world.result(tool, path=path, **more)
        outside = result.error or path in {"", "~/x"}  # a relative path is one below the tree
        assert outside, (tool, result.text)
    assert world.apps.files.rows("SELECT path FROM entry WHERE path <> '/files' AND path NOT LIKE '/files/%'") == []


@given(st.text(alphabet="/.~afiles\\ %", max_size=40))
def test_a_resolved_path_is_plain_and_inside(path: str):
    try:
        plain = resolve(path)
    except ToolError:
        return
    assert plain == ROOT or plain.startswith(f"{ROOT}/")
    assert ".." not in plain.split("/")
    assert resolve(plain) == plain


async def test_rights_hold_for_reading_writing_listing_and_moving(world: AppWorld):
    assert "EACCES" in await world.call("read_text_file", path="/files/secret/keys.txt")
    assert "EACCES" in await world.call("write_file", path="/files/policies/new.md", content="x")
    assert "EACCES" in await world.call("move_file", source="/files/secret/keys.txt", destination="/files/mine.txt")
    assert "keys.txt" not in await world.call("search_files", path="/files", pattern="**")
    assert await world.call("read_text_file", path="/files/policies/travel.md") == "At most 100."
    assert not world.apps.journal
    world.apps.actor = BOB
    assert await world.call("read_text_file", path="/files/secret/keys.txt") == "key"


async def test_a_folder_moves_with_all_that_is_in_it_and_never_into_itself(world: AppWorld):
    assert "EINVAL" in await world.call("move_file", source="/files/finance", destination="/files/finance/2025/x")
    await world.call("move_file", source="/files/finance", destination="/files/money")
    assert await world.call("read_text_file", path="/files/money/2025/old.csv") == "x"
    assert world.apps.files.rows("SELECT path FROM entry WHERE path LIKE '/files/finance%'") == []


async def test_moving_a_folder_does_not_lift_the_restriction_of_one_below_it(world: AppWorld):
    """The attack: move the writable parent, and read what was restricted at its old path."""
    await world.call("create_directory", path="/files/shared")
    world.apps.actor = BOB
    await world.call("move_file", source="/files/secret", destination="/files/shared/secret")
    assert world.apps.files.rows("SELECT * FROM access WHERE email = ?", BOB) == [
        {"folder": "/files/shared/secret", "email": BOB, "level": "write"}
    ]
    world.apps.actor = ADA
    assert "EACCES" in await world.call("read_text_file", path="/files/shared/secret/keys.txt")
    assert "EACCES" in await world.call("move_file", source="/files/shared", destination="/files/mine")
    assert "EACCES" in await world.call("read_text_file", path="/files/shared/secret/keys.txt")
    world.apps.actor = BOB
    await world.call("move_file", source="/files/shared", destination="/files/mine")
    assert await world.call("read_text_file", path="/files/mine/secret/keys.txt") == "key"
    world.apps.actor = ADA
    assert "EACCES" in await world.call("read_text_file", path="/files/mine/secret/keys.txt")


async def test_a_folder_in_the_way_of_a_file_stops_only_that_file(world: AppWorld):
    """The attack: make the environment fail by taking the path of a file that will arrive."""
    for name in ("scan.txt", "letter.txt"):
        world.apps.files.schedule("file_arrives", 60, path=f"/files/in/{name}", text="x")
    await world.call("create_directory", path="/files/in/scan.txt")
    world.apps.pass_time(120)
    assert await world.call("list_directory", path="/files/in") == "[FILE] letter.txt\n[DIR] scan.txt"
    assert [dict(event.data)["path"] for event in world.apps.freeze().undelivered] == ["/files/in/scan.txt"]


async def test_folders_are_at_most_a_hundred_deep(world: AppWorld):
    """Thousands of folders inside each other would pass Python's limit of recursion in a listing."""
    deep = "/files/" + "/".join("a" * 99)
    assert not (await world.result("create_directory", path=deep)).error
    assert "ENAMETOOLONG" in await world.call("create_directory", path=f"{deep}/b")
    assert "ENAMETOOLONG" in await world.call("create_directory", path="/files/" + "a/" * 1900)
    await world.call("create_directory", path="/files/top")
    assert "ENAMETOOLONG" in await world.call("move_file", source="/files/a", destination="/files/top/a")
    assert world.apps.files.value("SELECT count(*) FROM entry WHERE path LIKE '/files/top/%'") == 0
    assert (await world.call("directory_tree", path="/files")).count('"name": "a"') == 99


async def test_binary_files_stay_as_they_are(world: AppWorld):
    shown = json.loads(await world.call("read_media_file", path="/files/logo.png"))
    assert (shown["type"], shown["mimeType"], shown["data"]) == ("image", "image/png", "iVBORw0KGgo=")
    other = json.loads(await world.call("read_media_file", path="/files/finance/budget.csv"))
    assert (other["type"], other["resource"]["uri"]) == ("resource", "file:///files/finance/budget.csv")
    assert b64decode(other["resource"]["blob"]) == b"month,amount\nJan,10\n"


async def test_a_huge_file_is_refused(world: AppWorld):
    assert "send less at once" in await world.call("write_file", path="/files/big", content="x" * (4 * 2**20 + 1))
    with pytest.raises(ConfigError, match="EFBIG"):
        load_files(world.apps.files, {"/files/big": b"x" * (4 * 2**20 + 1)})


def test_wildcards_are_exact_and_fast():
    assert fits_wildcard("abc", "a*c")
    assert not fits_wildcard("abcd", "a*c")
    assert not fits_wildcard("a" * 20_000, "*a" * 30 + "b")
    assert fits_glob("a/b/c.txt", "**/*.txt")
    assert fits_glob("c.txt", "**/*.txt")
    assert not fits_glob("a/c.txt", "*.txt")
    assert not fits_glob("/".join("a" * 500), "**/a/" * 50 + "b")


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([FILES], fill, actor=ADA)
        await world.call("write_file", path="/files/new.txt", content="x")
        await world.call("move_file", source="/files/finance", destination="/files/money")
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).files
    assert dump(final.rows) == dump(one.apps.files.rows)


def test_a_folder_of_this_machine_is_read_without_its_links(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.bin").write_bytes(b"\0\1")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert read_folder(tmp_path) == {"/files/a/x.bin": b"\0\1"}


@pytest.mark.parametrize(
    ("old", "after"),
    [
        ("a\nb", "\n  new\nx\n\tb\n"),
        ("x\nb", "\n  a\n b \nnew\n"),
        ("a\nb\nx\nb\n", "\n  new"),
        (" x ", "\n  a\n b \nnew\n\tb\n"),
    ],
)
async def test_an_edit_finds_lines_that_differ_only_in_the_white_space_around_them(world: AppWorld, old: str, after: str):
    await world.call("write_file", path="/files/e.txt", content="\n  a\n b \nx\n\tb\n")
    assert not (await world.result("edit_file", path="/files/e.txt", edits=[{"oldText": old, "newText": "new"}])).error
    assert await world.call("read_text_file", path="/files/e.txt") == after


async def test_an_edit_of_a_file_with_very_many_equal_lines_ends(world: AppWorld):
    """Comparing the lines at every start took minutes for such a file; the time limit of the tests would end it."""
    await world.call("write_file", path="/files/e.txt", content=" \n" * 400_000)
    edit = {"oldText": "\n" * 200_000 + "x", "newText": "y"}
    assert "Could not find exact match" in await world.call("edit_file", path="/files/e.txt", edits=[edit])
    edits = [{"oldText": "a", "newText": "b"}] * 501
    assert "Too many edits: 501" in await world.call("edit_file", path="/files/a.txt", edits=edits)


@pytest.mark.parametrize(("place", "new"), [(0, "y"), (1500, "y\nz"), (2999, ""), (2997, "y")])
async def test_the_diff_of_a_long_file_leads_to_the_file_after_it(world: AppWorld, place: int, new: str):
    before = "".join(f"line {number:04}\n" for number in range(3000))
    await world.call("write_file", path="/files/e.txt", content=before)
    shown = await world.call("edit_file", path="/files/e.txt", edits=[{"oldText": f"line {place:04}\n", "newText": new}])
    hunk = shown[shown.index("@@") : shown.rindex("```")]
    changed = apply_hunk(before.split("\n"), hunk.removesuffix("\n").split("\n"))
    assert "\n".join(changed) == await world.call("read_text_file", path="/files/e.txt")
    assert len(hunk) < 300


def apply_hunk(lines: list[str], hunk: list[str]) -> list[str]:
    """The lines after one hunk of a diff, whose numbers and unchanged lines must be right."""
    match = re.fullmatch(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", hunk[0])
    assert match is not None
    start, size = int(match[1]) - 1, int(match[2])
    assert lines[start : start + size] == [line[1:] for line in hunk[1:] if line[0] in " -"]
    added = [line[1:] for line in hunk[1:] if line[0] in " +"]
    assert (int(match[3]) - 1, int(match[4])) == (start, len(added))
    return [*lines[:start], *added, *lines[start + size :]]


async def test_several_files_are_read_up_to_a_total(world: AppWorld):
    load_files(world.apps.files, {"/files/big": "x" * 2**20})
    text = await world.call("read_multiple_files", paths=["/files/big"] * 200)
    assert text.count("read fewer at once") == 196
    assert len(text) < 5 * 2**20


async def test_patterns_that_are_too_much_work_are_refused(world: AppWorld):
    for number in range(30):
        load_files(world.apps.files, {f"/files/{'x' * 200}{number}": ""})
    long = "*" + "a" * 200_000
    for tool, more in (("search_files", {"pattern": "**"}), ("directory_tree", {})):
        assert "too long for this many files" in await world.call(tool, path="/files", excludePatterns=[long] * 3, **more)
    assert "too long" in await world.call("search_files", path="/files", pattern="**/*/" * 150_000)
