import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandlot.apps import CODE, FinalApps, LiveApps, checkout, load_code
from sandlot.apps.code.objects import QUIET_GIT, put_files, require_path, write_repository
from sandlot.apps.final import encode_journal
from sandlot.core.errors import ConfigError, ToolError
from worlds.apps import AppWorld, dump

ADA, BOB = "ada@corp.example", "bob@corp.example"
LINES = "".join(f"line {number}\n" for number in range(20))
SEED: dict[str, Any] = {
    "users": [{"login": "ada", "name": "Ada Hale", "email": ADA}, {"login": "bob", "name": "Bob Ward", "email": BOB}],
    "repositories": [
        {
            "owner": "corp",
            "name": "shop",
            "commits": [
                {
                    "message": "Begin",
                    "author": "bob",
                    "at": "2025-11-01T09:00:00Z",
                    "files": {"a.txt": LINES, "src/shop.py": "PRICE = 1\n", "old": "x"},
                },
                {
                    "message": "Tidy",
                    "author": "ada",
                    "at": "2025-12-01T09:00:00Z",
                    "files": {"old": None, "src/lib/x.py": "pass\n"},
                },
            ],
        },
        {
            "owner": "corp",
            "name": "core",
            "protected": {"main": {"approvals": 1, "checks": "ci"}},
            "commits": [{"message": "Begin", "author": "bob", "files": {"core.py": "x = 1\n"}}],
        },
        {"owner": "corp", "name": "secret", "private": True, "collaborators": {"bob": "admin"}, "commits": []},
        {
            "owner": "corp",
            "name": "read",
            "collaborators": {"ada": "read", "bob": "write"},
            "commits": [{"message": "Begin", "author": "bob", "files": {"r": "1"}}],
        },
    ],
    "issues": [
        {
            "repository": "corp/shop",
            "title": "Price is wrong",
            "body": "It should be 2",
            "user": "bob",
            "labels": ["bug"],
            "assignees": ["ada"],
        }
    ],
}
SHOP, CORE = {"owner": "corp", "repo": "shop"}, {"owner": "corp", "repo": "core"}


def fill(apps: LiveApps) -> None:
    load_code(apps.code, SEED)


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([CODE], fill, actor=ADA)


def git(folder: Path, *arguments: str, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=QUIET_GIT | (more or {}),
        check=True,
        timeout=30,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def bare(app: Any, folder: Path, name: str = "shop") -> Path:
    refs = app.rows("SELECT b.name, b.sha FROM branch b JOIN repository r ON r.id = b.repository WHERE r.name = ?", name)
    write_repository(app.rows("SELECT * FROM object"), {row["name"]: row["sha"] for row in refs}, folder / "bare.git")
    return folder / "bare.git"


async def change(world: AppWorld, branch: str, path: str, content: str, repo: dict[str, str] = SHOP) -> str:
    return await world.call("create_or_update_file", **repo, path=path, content=content, message=f"Change {path}", branch=branch)


async def test_commits_are_those_that_git_would_make(world: AppWorld, tmp_path: Path):
    await world.call("create_branch", **SHOP, branch="feature/x")
    await change(world, "feature/x", "src/shop.py", "PRICE = 2\n")
    files = [{"path": "docs/ä ö.md", "content": "é"}, {"path": "src.py", "content": "x"}, {"path": "src-a/b", "content": "y"}]
    await world.call("push_files", **SHOP, branch="feature/x", files=files, message="Two\n\nwith a body")
    real = bare(world.apps.code, tmp_path)
    assert git(real, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert git(real, "log", "-1", "--format=%an <%ae> %aI %s", "feature/x") == f"Ada Hale <{ADA}> 2026-01-05T09:01:00+00:00 Two"
    assert git(real, "show", "feature/x:docs/ä ö.md") == "é"
    listed = json.loads(await world.call("list_commits", **SHOP, sha="feature/x"))
    assert [each["sha"] for each in listed] == git(real, "rev-list", "feature/x").split()


async def test_a_file_is_read_and_a_folder_is_listed(world: AppWorld):
    file = json.loads(await world.call("get_file_contents", **SHOP, path="src/shop.py"))
    assert (file["content"], file["type"], file["size"]) == ("PRICE = 1\n", "file", 10)
    listed = json.loads(await world.call("get_file_contents", **SHOP, path="src"))
    assert [(each["name"], each["type"]) for each in listed] == [("lib", "dir"), ("shop.py", "file")]
    assert "Not Found" in await world.call("get_file_contents", **SHOP, path="old")
    stale = await world.call("create_or_update_file", **SHOP, path="a.txt", content="x", message="m", branch="main", sha="0" * 40)
    assert "Conflict: a.txt does not match" in stale


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_a_merge_is_the_one_that_git_makes(world: AppWorld, tmp_path: Path, method: str):
    await world.call("create_branch", **SHOP, branch="feature")
    await change(world, "feature", "a.txt", LINES.replace("line 18\n", "line eighteen\n"))
    await change(world, "main", "a.txt", LINES.replace("line 1\n", "line one\n"))
    real = bare(world.apps.code, tmp_path)
    wanted = git(real, "merge-tree", "--write-tree", "main", "feature")
    made = json.loads(await world.call("create_pull_request", **SHOP, title="Words", head="feature", base="main"))
    files = json.loads(await world.call("get_pull_request_files", **SHOP, pull_number=made["number"]))
    assert [(each["filename"], each["additions"], each["deletions"]) for each in files] == [("a.txt", 1, 1)]
    merged = json.loads(await world.call("merge_pull_request", **SHOP, pull_number=made["number"], merge_method=method))
    (tmp_path / "after").mkdir()
    after = bare(world.apps.code, tmp_path / "after")
    assert git(after, "rev-parse", f"{merged['sha']}^{{tree}}") == wanted
    assert len(git(after, "log", "-1", "--format=%P", "main").split()) == (2 if method == "merge" else 1)
    assert git(after, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert "not mergeable" in await world.call("merge_pull_request", **SHOP, pull_number=made["number"])


async def test_a_conflict_is_refused_and_changes_nothing(world: AppWorld):
    await world.call("create_branch", **SHOP, branch="feature")
    await change(world, "feature", "src/shop.py", "PRICE = 2\n")
    await change(world, "main", "src/shop.py", "PRICE = 3\n")
    await world.call("create_pull_request", **SHOP, title="Two", head="feature", base="main")
    before = world.apps.code.rows("SELECT * FROM branch")
    assert "merge conflict in src/shop.py" in await world.call("merge_pull_request", **SHOP, pull_number=2)
    assert world.apps.code.rows("SELECT * FROM branch") == before


async def test_a_protected_branch_needs_a_review_and_its_checks(world: AppWorld):
    assert "is protected" in await change(world, "main", "core.py", "x = 2\n", CORE)
    await world.call("create_branch", **CORE, branch="fix")
    await change(world, "fix", "core.py", "x = 2\n", CORE)
    await world.call("create_pull_request", **CORE, title="Fix", head="fix", base="main")
    pull = {**CORE, "pull_number": 1}
    assert "approving review is required" in await world.call("merge_pull_request", **pull)
    assert "own pull request" in await world.call("create_pull_request_review", **pull, body="Good", event="APPROVE")
    with world.apps.acting("ci", cause="event"):  # pyright: ignore[reportArgumentType]
        CODE.parts.events["review_arrives"](world.apps.code, owner="corp", repo="core", number=1, login="bob", state="APPROVED")
    assert 'check "ci" is expected' in await world.call("merge_pull_request", **pull)
    for state in ("failure", "success"):
        CODE.parts.events["status_arrives"](world.apps.code, owner="corp", repo="core", branch="fix", context="ci", state=state)
        assert json.loads(await world.call("get_pull_request_status", **pull))["state"] == state
    await change(world, "fix", "core.py", "x = 3\n", CORE)  # the approval was for the commit before
    assert "approving review is required" in await world.call("merge_pull_request", **pull)
    CODE.parts.events["review_arrives"](world.apps.code, owner="corp", repo="core", number=1, login="bob", state="APPROVED")
    CODE.parts.events["status_arrives"](world.apps.code, owner="corp", repo="core", branch="fix", context="ci", state="success")
    assert '"merged": true' in await world.call("merge_pull_request", **pull)


@pytest.mark.parametrize(
    "path",
    [
        "../x", "a/../b", ".git/config", ".GIT/hooks/pre-commit", "a/.git/x", "git~1/x", ".git ", ".git.", ".g\u200cit/config",
        "a//b", "", "/", "a\nb", "a\0b", "c:\\x", "x" * 300, "a/" * 3000, "\u202eevil",
    ],
)  # fmt: skip
async def test_paths_that_mislead_git_are_refused(world: AppWorld, path: str):
    with pytest.raises(ToolError, match="malformed path component"):
        require_path(path)
    assert "malformed" in await change(world, "main", path, "x")
    assert "malformed" in await world.call(
        "push_files", **SHOP, branch="main", files=[{"path": path, "content": "x"}], message="m"
    )
    assert not world.apps.journal


@pytest.mark.parametrize(
    "name", ["-d", "--upload-pack=x", "a..b", "a b", "/a", "a/", ".a", "a.lock", "a@{1}", "@", "a~1", "x:y", "a\nb", "", "main"]
)
async def test_branch_names_that_git_refuses_are_refused(world: AppWorld, name: str):
    assert "Validation Error" in await world.call("create_branch", **SHOP, branch=name)
    assert not world.apps.journal


async def test_a_file_cannot_be_where_a_folder_is(world: AppWorld):
    assert "both a file and a folder" in await change(world, "main", "src", "x")
    assert "both a file and a folder" in await change(world, "main", "a.txt/b", "x")


async def test_a_file_and_a_folder_of_one_push_cannot_have_one_name(world: AppWorld):
    for paths in (["new", "new/x"], ["new/x", "new"]):
        files = [{"path": path, "content": "x"} for path in paths]
        assert "both a file and a folder" in await world.call("push_files", **SHOP, branch="main", files=files, message="m")


def test_the_work_of_writing_files_grows_with_their_number_and_not_its_square(world: AppWorld):
    def num_calls(count: int) -> int:
        contents = {f"docs/{count}/{number}.md": b"x" for number in range(count)}
        calls = 0

        def tally(frame, event, argument) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(tally)
        try:
            put_files(world.apps.code, {}, contents)
        finally:
            sys.setprofile(None)
        return calls

    assert num_calls(400) < 2.5 * num_calls(200)


async def test_who_may_not_see_finds_nothing_and_who_may_read_writes_nothing(world: AppWorld):
    assert "Not Found" in await world.call("get_file_contents", owner="corp", repo="secret", path="x")
    other = world.apps.code.value("SELECT b.sha FROM branch b JOIN repository r ON r.id = b.repository WHERE r.name = 'core'")
    assert "No commit found" in await world.call("list_commits", **SHOP, sha=other)  # a commit of another repository
    assert "secret" not in await world.call("search_repositories", query="corp")
    read = {"owner": "corp", "repo": "read"}
    assert "Permission Denied" in await change(world, "main", "r", "2", read)
    assert "Permission Denied" in await world.call("create_branch", **read, branch="x")
    fork = json.loads(await world.call("fork_repository", **read))
    assert fork["full_name"] == "ada/read"
    await change(world, "main", "r", "2", {"owner": "ada", "repo": "read"})
    made = json.loads(await world.call("create_pull_request", **read, title="From a fork", head="ada:main", base="main"))
    assert made["head"]["label"] == "ada:main"


async def test_issues_are_worked_and_found(world: AppWorld):
    made = json.loads(await world.call("create_issue", **SHOP, title="Slow page", labels=["perf"], assignees=["bob"]))
    await world.call("add_issue_comment", **SHOP, issue_number=made["number"], body="Looking")
    await world.call("update_issue", **SHOP, issue_number=1, state="closed", labels=["bug", "done"])
    for query, numbers in (
        ("price", [1]),
        ("is:open is:issue", [2]),
        ("label:done repo:corp/shop", [1]),
        ("assignee:bob slow", [2]),
    ):
        items = json.loads(await world.call("search_issues", q=query))["items"]
        assert [each["number"] for each in items] == numbers, query
    assert [each["number"] for each in json.loads(await world.call("list_issues", **SHOP))] == [2]
    code = json.loads(await world.call("search_code", q="PRICE extension:py"))
    assert [each["path"] for each in code["items"]] == ["src/shop.py"]
    assert "not a user" in await world.call("create_issue", **SHOP, title="x", assignees=["eve"])


async def test_a_real_repository_is_read_and_handed_back(world: AppWorld, tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    who = {"GIT_AUTHOR_NAME": "X", "GIT_AUTHOR_EMAIL": "x@x", "GIT_COMMITTER_NAME": "X", "GIT_COMMITTER_EMAIL": "x@x"}
    (real / "run.sh").write_text("echo hi\n")
    (real / "run.sh").chmod(0o755)
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "One"]):
        git(real, *arguments, more=who)
    fresh = AppWorld(
        [CODE],
        lambda apps: load_code(
            apps.code, {"users": SEED["users"], "repositories": [{"owner": "o", "name": "r", "git": str(real)}]}
        ),
        actor=ADA,
    )
    await fresh.call("create_or_update_file", owner="o", repo="r", path="run.sh", content="echo ho\n", message="m", branch="main")
    checkout(fresh.apps.code, "o/r", "main", tmp_path / "out")
    assert (tmp_path / "out" / "run.sh").read_text() == "echo ho\n"
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o100  # the mode stays
    assert git(tmp_path / "out", "rev-list", "--count", "HEAD") == "2"
    with pytest.raises(ConfigError, match="no branch `x`"):
        checkout(fresh.apps.code, "o/r", "x", tmp_path / "none")


async def test_the_same_acts_leave_the_same_bytes_and_the_journal_replays_them():
    async def play() -> AppWorld:
        world = AppWorld([CODE], fill, actor=ADA)
        await world.call("create_branch", **SHOP, branch="b")
        await change(world, "b", "a.txt", "x")
        await world.call("create_pull_request", **SHOP, title="B", head="b", base="main")
        await world.call("merge_pull_request", **SHOP, pull_number=2)
        return world

    one, two = await play(), await play()
    assert one.apps.freeze().states == two.apps.freeze().states
    final = FinalApps(one.base.states, encode_journal(one.apps.journal), one.apps.clock.text).code
    assert dump(final.rows) == dump(one.apps.code.rows)


async def test_paths_are_at_most_a_hundred_names_deep(world: AppWorld):
    """Trees inside each other by the thousand would pass Python's limit of recursion."""
    deep = "/".join("a" * 100)
    written = await world.result("push_files", **SHOP, branch="main", files=[{"path": deep, "content": "x"}], message="m")
    assert not written.error, written.text
    for path in (f"a/{deep}", "a/" * 1500 + "f"):
        refused = await world.call("push_files", **SHOP, branch="main", files=[{"path": path, "content": "x"}], message="m")
        assert "malformed path component" in refused
    assert not (await world.result("get_file_contents", **SHOP, path=deep)).error


@pytest.mark.parametrize(
    ("more", "why"), [({"branch": "a..b"}, "code: .*a\\.\\.b"), ({"files": {"../x": "1"}}, "code: .*malformed path component")]
)
def test_a_seed_that_the_hosting_would_refuse_is_refused(more: dict[str, Any], why: str):
    commit = {"message": "Begin", "author": "ada", "files": {"a": "1"}} | more
    seed = {"users": SEED["users"], "repositories": [{"owner": "corp", "name": "shop", "commits": [commit]}]}
    with pytest.raises(ConfigError, match=why):
        AppWorld([CODE], lambda apps: load_code(apps.code, seed))
