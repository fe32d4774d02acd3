"""Seed data for code hosting: plain records, or real repositories of this machine."""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandlot.apps.code.hosting import require_branch_name
from sandlot.apps.code.issues import next_number, set_lists
from sandlot.apps.code.objects import (
    QUIET_GIT,
    Tree,
    put_files,
    require_path,
    store_commit,
    store_object,
    store_tree,
    write_repository,
)
from sandlot.apps.code.tools import files_at, new_repository
from sandlot.apps.final import FinalApp
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.types import Json

_GIT_S = 120


def load_code(app: LiveApp, seed: Mapping[str, Iterable[Json]]) -> None:
    """Fill the hosting.

    - users: `login`, `name`, `email`.
    - repositories: `owner`, `name`, optional `description`, `private`, `collaborators` (`{"ada": "write"}`), `protected`
      (`{"main": {"approvals": 1, "checks": "ci"}}`), and its contents: either `git` (the path of a real repository, whose
        branches
      are read) or `commits`, oldest first: dicts with `branch`, `message`, `author` (a login), `at`, `files` (contents by path;
      None
      deletes one), and `from` (the branch that a new branch starts at).
    - issues: `repository` (`owner/name`), `title`, `body`, `user`, optional `labels`, `assignees`, `state`, `created`, `comments`
      (dicts with `user`, `body`, `created`).
    """
    for row in seed.get("users", ()):
        app.insert("user", login=row["login"], name=row["name"], email=row["email"])
    try:
        for row in seed.get("repositories", ()):
            _load_repository(app, row)
        for row in seed.get("issues", ()):
            _load_issue(app, row)
    except ToolError as error:
        raise ConfigError(f"code: {error}") from error


def _load_repository(app: LiveApp, row: Json) -> None:
    repository = new_repository(
        app, row["owner"], row["name"], description=row.get("description"), private=bool(row.get("private", False))
    )
    if "git" in row:
        _read_git(app, repository, Path(row["git"]))
    for commit in row.get("commits", ()):
        _load_commit(app, repository, commit)
    for login, level in row.get("collaborators", {}).items():
        if level not in {"read", "write", "admin"}:
            raise ConfigError(f"code: {login} has the level `{level}` in {row['name']}; use read, write or admin")
        app.insert("collaborator", repository=repository["id"], login=login, level=level)
    for branch, rule in row.get("protected", {}).items():
        checks = rule.get("checks", "")
        app.insert("protection", repository=repository["id"], branch=branch, approvals=rule.get("approvals", 1), checks=checks)


def _load_commit(app: LiveApp, repository: Json, commit: Json) -> None:
    branch = require_branch_name(commit.get("branch", "main"))
    tip = app.value("SELECT sha FROM branch WHERE repository = ? AND name = ?", repository["id"], branch)
    start = tip or app.value(
        "SELECT sha FROM branch WHERE repository = ? AND name = ?", repository["id"], commit.get("from", "main")
    )
    files: Tree = files_at(app, start) if start else {}
    given: dict[str, Any] = commit["files"]
    files = {path: entry for path, entry in files.items() if given.get(path, "") is not None}
    contents = {
        require_path(path): text.encode() if isinstance(text, str) else text for path, text in given.items() if text is not None
    }
    author = app.one("SELECT name, email FROM user WHERE login = ?", commit.get("author", ""))
    if author is None:
        raise ConfigError(f"code: commit `{commit['message']}` is by `{commit.get('author')}`, who is not listed under `users`")
    at = datetime.fromisoformat(commit["at"]).replace(tzinfo=UTC) if commit.get("at") else app.now
    tree = store_tree(app, put_files(app, files, contents))
    parents = (start,) if start else ()
    sha = store_commit(app, tree, parents, commit["message"], (author["name"], author["email"]), int(at.timestamp()))
    if tip is None:
        app.insert("branch", repository=repository["id"], name=branch, sha=sha)
    else:
        app.run("UPDATE branch SET sha = ? WHERE repository = ? AND name = ?", sha, repository["id"], branch)


def _load_issue(app: LiveApp, row: Json) -> None:
    owner, _, name = row["repository"].partition("/")
    repository = app.one("SELECT * FROM repository WHERE owner = ? AND name = ?", owner, name)
    if repository is None:
        raise ConfigError(f"code: issue `{row['title']}` belongs to `{row['repository']}`, which is not listed")
    created = row.get("created") or app.at
    closed = created if row.get("state") == "closed" else None
    texts = {"title": row["title"], "body": row.get("body"), "user": row["user"], "state": row.get("state", "open")}
    number = next_number(app, repository)
    issue = app.insert(
        "issue", repository=repository["id"], number=number, created=created, updated=created, closed=closed, **texts
    )
    set_lists(app, issue, row.get("labels"), row.get("assignees"))
    for comment in row.get("comments", ()):
        app.insert("comment", issue=issue, user=comment["user"], body=comment["body"], created=comment.get("created") or created)


def _read_git(app: LiveApp, repository: Json, path: Path) -> None:
    """Read all branches of a real repository, with everything they reach."""
    if not path.is_dir():
        raise ConfigError(f"code: `{path}` is not a repository")

    def git(*arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-c", "safe.directory=*", "-C", str(path), *arguments]
        done = subprocess.run(command, env=QUIET_GIT, input=given, capture_output=True, timeout=_GIT_S, check=False)
        if done.returncode:
            raise ConfigError(f"code: git {arguments[0]} failed in `{path}`: {done.stderr.decode(errors='replace')[:300]}")
        return done.stdout

    branches = [
        line.split(" ", 1)
        for line in git("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads").decode().splitlines()
    ]
    if not branches:
        raise ConfigError(f"code: `{path}` has no branches")
    names = git("rev-list", "--objects", "--no-object-names", *(sha for sha, _ in branches)).split()
    data = git("cat-file", "--batch", given=b"\n".join(names) + b"\n")
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        sha, kind, size = data[place:end].decode().split()
        body = data[end + 1 : end + 1 + int(size)]
        if store_object(app, kind, body) != sha:
            raise ConfigError(f"code: `{path}` does not use SHA-1, or object {sha} is damaged")
        place = end + 2 + int(size)
    for sha, name in branches:
        app.insert("branch", repository=repository["id"], name=require_branch_name(name), sha=sha)
    first = "main" if any(name == "main" for _, name in branches) else branches[0][1]
    app.run("UPDATE repository SET default_branch = ? WHERE id = ?", first, repository["id"])


def checkout(app: LiveApp | FinalApp, full_name: str, branch: str, folder: Path) -> None:
    """Check out a branch into a new folder with the real git, so that a check can run what is there.

    `ConfigError` if there is no such branch. Nothing of the repository is run: it has no hooks, and links become plain files.
    """
    owner, _, name = full_name.partition("/")
    refs = app.rows(
        "SELECT b.name, b.sha FROM branch b JOIN repository r ON r.id = b.repository WHERE r.owner = ? AND r.name = ?",
        owner,
        name,
    )
    if branch not in {row["name"] for row in refs}:
        raise ConfigError(
            f"code: `{full_name}` has no branch `{branch}`; it has: {', '.join(row['name'] for row in refs) or 'none'}"
        )
    with tempfile.TemporaryDirectory() as bare:
        write_repository(app.rows("SELECT * FROM object"), {row["name"]: row["sha"] for row in refs}, Path(bare) / "r.git")
        command = [
            "git",
            "-c",
            "core.symlinks=false",
            "clone",
            "-q",
            "--template=",
            "--branch",
            branch,
            f"{bare}/r.git",
            str(folder),
        ]
        subprocess.run(command, env=QUIET_GIT, check=True, timeout=_GIT_S, capture_output=True)
