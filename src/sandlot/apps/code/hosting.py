"""Code hosting: its tables and declaration, repositories and branches, who may do what, and GitHub's shapes."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.code.objects import Commit, history
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.apps.refusals import zod3_json_text
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

SCHEMA = """
CREATE TABLE user (id INTEGER PRIMARY KEY, login TEXT NOT NULL UNIQUE, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE repository (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, description TEXT, private INTEGER NOT
  NULL DEFAULT 0,
  default_branch TEXT NOT NULL DEFAULT 'main', fork INTEGER NOT NULL DEFAULT 0, next_number INTEGER NOT NULL DEFAULT 1,
  created TEXT NOT NULL, updated TEXT NOT NULL, UNIQUE (owner, name));
-- level: read, write or admin. A public repository without rows is open to all users for writing; a private one only to its rows.
CREATE TABLE collaborator (repository INTEGER NOT NULL, login TEXT NOT NULL, level TEXT NOT NULL, UNIQUE (repository, login));
CREATE TABLE branch (repository INTEGER NOT NULL, name TEXT NOT NULL, sha TEXT NOT NULL, UNIQUE (repository, name));
-- a protected branch changes only by pull requests with this many approvals, and with these checks successful (comma-separated)
CREATE TABLE protection (repository INTEGER NOT NULL, branch TEXT NOT NULL, approvals INTEGER NOT NULL DEFAULT 1,
  checks TEXT NOT NULL DEFAULT '', UNIQUE (repository, branch));
CREATE TABLE object (sha TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE status (repository INTEGER NOT NULL, sha TEXT NOT NULL, context TEXT NOT NULL, state TEXT NOT NULL, description TEXT
  NOT NULL,
  at TEXT NOT NULL, UNIQUE (repository, sha, context));
-- issues and pull requests share their numbers; head is NULL for an issue
CREATE TABLE issue (id INTEGER PRIMARY KEY, repository INTEGER NOT NULL, number INTEGER NOT NULL, title TEXT NOT NULL, body TEXT,
  user TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', milestone INTEGER, created TEXT NOT NULL, updated TEXT NOT NULL, closed
  TEXT,
  head TEXT, head_repository INTEGER, head_sha TEXT, base TEXT, base_sha TEXT, draft INTEGER NOT NULL DEFAULT 0, merged TEXT,
  merged_by TEXT, merge_sha TEXT, UNIQUE (repository, number));
CREATE TABLE label (issue INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE (issue, name));
CREATE TABLE assignee (issue INTEGER NOT NULL, login TEXT NOT NULL, UNIQUE (issue, login));
CREATE TABLE comment (id INTEGER PRIMARY KEY, issue INTEGER NOT NULL, user TEXT NOT NULL, body TEXT NOT NULL, created TEXT NOT
  NULL);
-- state: APPROVED, CHANGES_REQUESTED or COMMENTED
CREATE TABLE review (id INTEGER PRIMARY KEY, issue INTEGER NOT NULL, user TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL,
  sha TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE review_comment (id INTEGER PRIMARY KEY, review INTEGER NOT NULL, issue INTEGER NOT NULL, user TEXT NOT NULL, path
  TEXT NOT NULL,
  line INTEGER, body TEXT NOT NULL, sha TEXT NOT NULL, created TEXT NOT NULL);
CREATE VIRTUAL TABLE issue_words USING fts5(title, body, tokenize = 'porter unicode61');
CREATE TRIGGER words_insert AFTER INSERT ON issue BEGIN
  INSERT INTO issue_words (rowid, title, body) VALUES (new.id, new.title, coalesce(new.body, '')); END;
CREATE TRIGGER words_update AFTER UPDATE OF title, body ON issue BEGIN
  UPDATE issue_words SET title = new.title, body = coalesce(new.body, '') WHERE rowid = new.id; END;
CREATE TRIGGER words_delete AFTER DELETE ON issue BEGIN DELETE FROM issue_words WHERE rowid = old.id; END;
"""
CODE = App("code", schema=SCHEMA, server=RecordedServer.read("github"), word_issues=zod3_json_text)
"""Repositories, issues and pull requests, as on GitHub."""
API, WEB = "https://api.github.com", "https://github.com"
_LEVELS = ("read", "write", "admin")
_Function = Callable[..., Any]


def not_found() -> ToolError:
    """What GitHub says of what is not there, or may not be seen."""
    return ToolError("Not Found: Resource not found: Not Found")


def invalid(message: str) -> ToolError:
    """A request that GitHub refuses as not valid."""
    return ToolError(f"Validation Error: {message}\nDetails: {json.dumps({'message': message, 'status': '422'})}")


def github_tool(function: _Function) -> _Function:
    """Register a tool by its function's name; its result becomes indented JSON."""

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> str:
        return json.dumps(function(*arguments, **keywords), indent=2, ensure_ascii=False)

    CODE.tool(name=function.__name__.lstrip("_"))(called)
    return function


# -- who and where ------------------------------------------------------------------------------------------------------


def actor_login(app: LiveApp) -> str:
    """The login of the one who acts; without an identity, `ghost`."""
    return str(app.value("SELECT login FROM user WHERE email = ?1 COLLATE NOCASE OR login = ?1", app.actor) or "ghost")


def level_in(app: LiveApp, repository: Json) -> int:
    """What the actor may do in a repository: 0 nothing, 1 read, 2 write, 3 admin."""
    login = actor_login(app)
    if not app.actor or repository["owner"].lower() == login.lower():
        return 3
    rows = {
        row["login"].lower(): row["level"]
        for row in app.rows("SELECT * FROM collaborator WHERE repository = ?", repository["id"])
    }
    if login.lower() in rows:
        return _LEVELS.index(rows[login.lower()]) + 1
    return 0 if repository["private"] else 1 if rows else 2


def find_repository(app: LiveApp, owner: str, repo: str, *, write: bool = False) -> Json:
    """A repository; `ToolError` if there is none that the actor may read, or write to."""
    row = app.one("SELECT * FROM repository WHERE owner = ? COLLATE NOCASE AND name = ? COLLATE NOCASE", owner, repo)
    if row is None or not level_in(app, row):
        raise not_found()
    if write and level_in(app, row) < 2:
        raise ToolError("Permission Denied: Resource not accessible by personal access token")
    return row


def branch_sha(app: LiveApp, repository: Json, name: str) -> str:
    """The commit at which a branch is; `ToolError` if there is no such branch."""
    found = app.value("SELECT sha FROM branch WHERE repository = ? AND name = ?", repository["id"], name)
    if found is None:
        raise not_found()
    return str(found)


def commit_at(app: LiveApp, repository: Json, name: str | None) -> str:
    """The commit that a branch or the beginning of a commit's id means; the default branch without a name."""
    wanted = name or repository["default_branch"]
    found = app.value("SELECT sha FROM branch WHERE repository = ? AND name = ?", repository["id"], wanted)
    if found is None and re.fullmatch(r"[0-9a-f]{7,40}", wanted):
        tips = app.rows("SELECT sha FROM branch WHERE repository = ? ORDER BY name", repository["id"])
        commits = (commit.sha for row in tips for commit in history(app, row["sha"]))  # of this repository, not of others
        found = next((sha for sha in commits if sha.startswith(wanted)), None)
    if found is None:
        raise ToolError(f"Not Found: Resource not found: No commit found for the ref {wanted[:60]}")
    return str(found)


def require_branch_name(name: str) -> str:
    """A name for a branch; `ToolError` for one that git does not allow."""
    plain = name.strip()
    wrong = (
        not plain
        or len(plain.encode(errors="replace")) > 200
        or plain == "@"
        or plain.startswith(("-", "/"))
        or plain.endswith(("/", "."))
    )
    parts = plain.split("/")
    wrong = wrong or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    if wrong or ".." in plain or "@{" in plain or re.search(r"[\s~^:?*\[\\\0-\x20\x7f]", plain) or not plain.isprintable():
        raise invalid(f"refs/heads/{plain[:60]} is not a valid ref name.")
    return plain


def move_branch(app: LiveApp, repository: Json, name: str, sha: str, *, by_merge: bool = False) -> None:
    """Set a branch; `ToolError` if it is protected and the change is not a merge."""
    protected = app.one("SELECT 1 FROM protection WHERE repository = ? AND branch = ?", repository["id"], name)
    if protected is not None and not by_merge and app.actor:
        raise ToolError(
            "Conflict: Repository rule violations found. Changes must be made through a pull request:"
            f" refs/heads/{name} is protected."
        )
    if app.run("UPDATE branch SET sha = ? WHERE repository = ? AND name = ?", sha, repository["id"], name) == 0:
        app.insert("branch", repository=repository["id"], name=name, sha=sha)
    app.run("UPDATE repository SET updated = ? WHERE id = ?", app.at, repository["id"])
    app.run(
        "UPDATE issue SET head_sha = ?, updated = ? WHERE head = ? AND head_repository = ? AND state = 'open'",
        sha,
        app.at,
        name,
        repository["id"],
    )


def author_of(app: LiveApp) -> tuple[str, str]:
    """Name and address for commits of the one who acts."""
    row = app.one("SELECT name, email FROM user WHERE login = ?", actor_login(app))
    return (row["name"], row["email"]) if row else ("ghost", "ghost@users.noreply.example")


# -- shapes -------------------------------------------------------------------------------------------------------------


def user_shape(app: LiveApp, login: str) -> Json:
    """A user inside other things."""
    number = app.value("SELECT id FROM user WHERE login = ?", login) or 0
    links = {"avatar_url": f"{WEB}/{login}.png", "url": f"{API}/users/{login}", "html_url": f"{WEB}/{login}"}
    return {"login": login, "id": number, "node_id": f"U_{number}", **links, "type": "User"}


def repository_shape(app: LiveApp, row: Json) -> Json:
    """A repository."""
    full = f"{row['owner']}/{row['name']}"
    times = {"created_at": row["created"], "updated_at": row["updated"], "pushed_at": row["updated"]}
    return {
        "id": row["id"],
        "node_id": f"R_{row['id']}",
        "name": row["name"],
        "full_name": full,
        "private": bool(row["private"]),
        "owner": user_shape(app, row["owner"]),
        "html_url": f"{WEB}/{full}",
        "description": row["description"],
        "fork": bool(row["fork"]),
        "url": f"{API}/repos/{full}",
        **times,
        "git_url": f"git://github.com/{full}.git",
        "ssh_url": f"git@github.com:{full}.git",
        "clone_url": f"{WEB}/{full}.git",
        "default_branch": row["default_branch"],
    }


def commit_shape(repository: Json, commit: Commit) -> Json:
    """A commit in a list."""
    full = f"{repository['owner']}/{repository['name']}"
    at = datetime.fromtimestamp(commit.seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    author = {"name": commit.author, "email": commit.email, "date": at}
    tree = {"sha": commit.tree, "url": f"{API}/repos/{full}/git/trees/{commit.tree}"}
    url = f"{API}/repos/{full}/commits/{commit.sha}"
    inner = {"author": author, "committer": author, "message": commit.message, "tree": tree, "url": url, "comment_count": 0}
    links = {"url": url, "html_url": f"{WEB}/{full}/commit/{commit.sha}", "comments_url": f"{url}/comments"}
    parents = [{"sha": parent, "url": f"{API}/repos/{full}/commits/{parent}"} for parent in commit.parents]
    return {"sha": commit.sha, "node_id": f"C_{commit.sha[:12]}", "commit": inner, **links, "parents": parents}


def reference_shape(repository: Json, name: str, sha: str) -> Json:
    """A branch."""
    full = f"{repository['owner']}/{repository['name']}"
    target = {"sha": sha, "type": "commit", "url": f"{API}/repos/{full}/git/commits/{sha}"}
    return {
        "ref": f"refs/heads/{name}",
        "node_id": f"REF_{sha[:12]}",
        "url": f"{API}/repos/{full}/git/refs/heads/{name}",
        "object": target,
    }


def paged(items: list[Any], page: float | None, size: float | None, usual: int = 30) -> list[Any]:
    """One page of a list, at most 100 items."""
    count = max(1, min(int(size or usual), 100))
    start = (max(1, min(int(page or 1), 10**6)) - 1) * count
    return items[start : start + count]


def words_and_qualifiers(query: str) -> tuple[list[str], Mapping[str, list[str]]]:
    """A search of GitHub's: words, and `name:value` pairs."""
    words: list[str] = []
    pairs: dict[str, list[str]] = {}
    for name, value, quoted, word in re.findall(r'(?:([a-z]+):("[^"]*"|\S+))|"([^"]*)"|(\S+)', query[:1000]):
        if name:
            pairs.setdefault(name, []).append(value.strip('"').lower())
        elif quoted or word:
            words.append((quoted or word).lower())
    return words, pairs
