"""The tools for files, branches, commits, repositories and searches: those of `@modelcontextprotocol/server-github`."""

import posixpath
from collections.abc import Mapping

from sandlot.apps.code.hosting import (
    API,
    CODE,
    WEB,
    actor_login,
    author_of,
    branch_sha,
    commit_at,
    commit_shape,
    find_repository,
    github_tool,
    invalid,
    level_in,
    move_branch,
    not_found,
    paged,
    reference_shape,
    repository_shape,
    require_branch_name,
    user_shape,
    words_and_qualifiers,
)
from sandlot.apps.code.objects import (
    Tree,
    history,
    put_files,
    read_commit,
    read_object,
    read_tree,
    require_path,
    store_commit,
    store_tree,
)
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_FILES, _MAX_BYTES, _MAX_SEARCHED = 300, 2**20, 2000


def files_at(app: LiveApp, sha: str) -> Tree:
    """The files of a commit."""
    return read_tree(app, read_commit(app, sha).tree)


def _file_shape(repository: Json, path: str, sha: str, size: int, ref: str) -> Json:
    full = f"{repository['owner']}/{repository['name']}"
    url, html = f"{API}/repos/{full}/contents/{path}?ref={ref}", f"{WEB}/{full}/blob/{ref}/{path}"
    git = f"{API}/repos/{full}/git/blobs/{sha}"
    shown = {
        "name": posixpath.basename(path),
        "path": path,
        "sha": sha,
        "size": size,
        "url": url,
        "html_url": html,
        "git_url": git,
    }
    return shown | {
        "download_url": f"https://raw.githubusercontent.com/{full}/{ref}/{path}",
        "type": "file",
        "_links": {"self": url, "git": git, "html": html},
    }


@github_tool
def _get_file_contents(app: LiveApp, *, owner: str, repo: str, path: str, branch: str | None = None) -> Json | list[Json]:
    repository = find_repository(app, owner, repo)
    files = files_at(app, commit_at(app, repository, branch))
    plain, ref = path.strip("/"), branch or repository["default_branch"]
    if plain in files:
        data = read_object(app, files[plain].sha)[1]
        shown = _file_shape(repository, plain, files[plain].sha, len(data), ref)
        return shown | {"content": data.decode(errors="replace"), "encoding": "base64"}
    below = {
        each[len(plain) + bool(plain) :]: entry for each, entry in files.items() if not plain or each.startswith(f"{plain}/")
    }
    if not below:
        raise not_found()
    listed: dict[str, Json] = {}
    for name, entry in sorted(below.items()):
        first, slash, _ = name.partition("/")
        whole = posixpath.join(plain, first)
        if not slash:
            listed[first] = _file_shape(repository, whole, entry.sha, len(read_object(app, entry.sha)[1]), ref)
        elif first not in listed:
            inside = {each[len(first) + 1 :]: found for each, found in below.items() if each.startswith(f"{first}/")}
            listed[first] = _file_shape(repository, whole, store_tree(app, inside), 0, ref) | {
                "type": "dir",
                "download_url": None,
            }
    return list(listed.values())


def commit_files(app: LiveApp, repository: Json, branch: str, contents: Mapping[str, bytes], message: str) -> str:
    """Write files in one commit on a branch and return the commit's id."""
    if len(contents) > _MAX_FILES or sum(map(len, contents.values())) > _MAX_BYTES:
        raise invalid(f"at most {_MAX_FILES} files with {_MAX_BYTES} bytes in all can be committed at once")
    if not message.strip():
        raise invalid("a commit message is required")
    parent = branch_sha(app, repository, branch)
    tree = store_tree(app, put_files(app, files_at(app, parent), contents))
    sha = store_commit(app, tree, (parent,), message, author_of(app))
    move_branch(app, repository, branch, sha)
    return sha


@github_tool
def _create_or_update_file(
    app: LiveApp, *, owner: str, repo: str, path: str, content: str, message: str, branch: str, sha: str | None = None
) -> Json:
    repository = find_repository(app, owner, repo, write=True)
    plain = require_path(path)
    now = files_at(app, branch_sha(app, repository, branch)).get(plain)
    if sha and (now is None or now.sha != sha):
        raise ToolError(f"Conflict: {plain} does not match {sha[:40]}")
    made = commit_files(app, repository, branch, {plain: content.encode(errors="replace")}, message)
    after = files_at(app, made)[plain]
    shown = _file_shape(repository, plain, after.sha, len(content.encode(errors="replace")), branch)
    commit = commit_shape(repository, read_commit(app, made))
    return {
        "content": shown,
        "commit": {**commit["commit"], "sha": made, "node_id": commit["node_id"], "parents": commit["parents"]},
    }


@github_tool
def _push_files(app: LiveApp, *, owner: str, repo: str, branch: str, files: list[Json], message: str) -> Json:
    repository = find_repository(app, owner, repo, write=True)
    contents = {require_path(each["path"]): each["content"].encode(errors="replace") for each in files}
    sha = commit_files(app, repository, branch, contents, message)
    return reference_shape(repository, branch, sha)


@github_tool
def _create_branch(app: LiveApp, *, owner: str, repo: str, branch: str, from_branch: str | None = None) -> Json:
    repository = find_repository(app, owner, repo, write=True)
    name = require_branch_name(branch)
    sha = branch_sha(app, repository, from_branch or repository["default_branch"])
    rows = app.rows("SELECT name FROM branch WHERE repository = ?", repository["id"])
    if any(row["name"] == name for row in rows):
        raise invalid("Reference already exists")
    if any(row["name"].startswith(f"{name}/") or name.startswith(f"{row['name']}/") for row in rows):
        raise invalid(f"refs/heads/{name} conflicts with a branch of a similar name")
    app.insert("branch", repository=repository["id"], name=name, sha=sha)
    return reference_shape(repository, name, sha)


@github_tool
def _list_commits(
    app: LiveApp, *, owner: str, repo: str, sha: str | None = None, page: float | None = None, per_page: float | None = None
) -> list[Json]:
    repository = find_repository(app, owner, repo)
    commits = list(history(app, commit_at(app, repository, sha)))
    return [commit_shape(repository, commit) for commit in paged(commits, page, per_page)]


# -- repositories -------------------------------------------------------------------------------------------------------


def new_repository(app: LiveApp, owner: str, name: str, *, description: str | None = None, private: bool = False) -> Json:
    """An empty repository."""
    if (
        not name
        or len(name) > 100
        or not all(each.isascii() and (each.isalnum() or each in "-_.") for each in name)
        or name in {".", ".."}
    ):
        raise invalid("Repository creation failed: name is not valid")
    if app.one("SELECT 1 FROM repository WHERE owner = ? COLLATE NOCASE AND name = ? COLLATE NOCASE", owner, name):
        raise invalid("Repository creation failed: name already exists on this account")
    times = {"created": app.at, "updated": app.at}
    row = app.insert("repository", owner=owner, name=name, description=description, private=int(private), **times)
    return app.one("SELECT * FROM repository WHERE id = ?", row) or {}


@github_tool
def _create_repository(
    app: LiveApp, *, name: str, description: str | None = None, private: bool = False, auto_init: bool = False
) -> Json:
    repository = new_repository(app, actor_login(app), name, description=description, private=private)
    if auto_init:
        tree = store_tree(app, put_files(app, {}, {"README.md": f"# {name}\n".encode()}))
        sha = store_commit(app, tree, (), "Initial commit", author_of(app))
        app.insert("branch", repository=repository["id"], name="main", sha=sha)
    return repository_shape(app, repository)


@github_tool
def _fork_repository(app: LiveApp, *, owner: str, repo: str, organization: str | None = None) -> Json:
    source = find_repository(app, owner, repo)
    if organization:
        raise not_found()
    made = new_repository(
        app, actor_login(app), source["name"], description=source["description"], private=bool(source["private"])
    )
    app.run("UPDATE repository SET fork = 1, default_branch = ? WHERE id = ?", source["default_branch"], made["id"])
    for row in app.rows("SELECT * FROM branch WHERE repository = ? ORDER BY name", source["id"]):
        app.insert("branch", repository=made["id"], name=row["name"], sha=row["sha"])
    return repository_shape(app, app.one("SELECT * FROM repository WHERE id = ?", made["id"]) or {})


@github_tool
def _search_repositories(app: LiveApp, *, query: str, page: float | None = None, per_page: float | None = None) -> Json:
    words, pairs = words_and_qualifiers(query)
    owners = {*pairs.get("user", ()), *pairs.get("org", ())}
    found = [
        row
        for row in app.rows("SELECT * FROM repository ORDER BY owner, name")
        if level_in(app, row)
        and all(word in f"{row['owner']}/{row['name']} {row['description'] or ''}".lower() for word in words)
        and (not owners or row["owner"].lower() in owners)
    ]
    return {
        "total_count": len(found),
        "incomplete_results": False,
        "items": [repository_shape(app, row) for row in paged(found, page, per_page)],
    }


# -- searches -----------------------------------------------------------------------------------------------------------


@github_tool
def _search_code(
    app: LiveApp, *, q: str, order: str | None = None, page: float | None = None, per_page: float | None = None
) -> Json:
    _ = order
    words, pairs = words_and_qualifiers(q)
    if not words and not {"filename", "path", "extension"} & pairs.keys():
        raise invalid("Validation Failed: the search needs at least one word")
    found: list[Json] = []
    for repository in app.rows("SELECT * FROM repository ORDER BY owner, name"):
        full = f"{repository['owner']}/{repository['name']}".lower()
        owners = {*pairs.get("user", ()), *pairs.get("org", ())}
        if not level_in(app, repository) or (pairs.get("repo") and full not in pairs["repo"]):
            continue
        head = app.value(
            "SELECT sha FROM branch WHERE repository = ? AND name = ?", repository["id"], repository["default_branch"]
        )
        if head is None or (owners and repository["owner"].lower() not in owners):
            continue
        found += _matching_files(app, repository, str(head), words, pairs)
    return {"total_count": len(found), "incomplete_results": False, "items": paged(found, page, per_page)}


def _matching_files(app: LiveApp, repository: Json, head: str, words: list[str], pairs: Mapping[str, list[str]]) -> list[Json]:
    found: list[Json] = []
    for path, entry in sorted(files_at(app, head).items())[:_MAX_SEARCHED]:
        lower = path.lower()
        if any(each not in posixpath.basename(lower) for each in pairs.get("filename", ())):
            continue
        if any(not lower.startswith(each.strip("/")) for each in pairs.get("path", ())):
            continue
        if any(not lower.endswith(f".{each.lstrip('.')}") for each in pairs.get("extension", ())):
            continue
        data = read_object(app, entry.sha)[1]
        text = data.decode(errors="replace").lower()
        if all(word in text or word in lower for word in words):
            shown = _file_shape(repository, path, entry.sha, len(data), repository["default_branch"])
            found.append(
                {name: shown[name] for name in ("name", "path", "sha", "url", "git_url", "html_url")}
                | {"repository": repository_shape(app, repository), "score": 1}
            )
    return found


@github_tool
def _search_users(
    app: LiveApp,
    *,
    q: str,
    order: str | None = None,
    page: float | None = None,
    per_page: float | None = None,
    sort: str | None = None,
) -> Json:
    _ = (order, sort)
    words, _ = words_and_qualifiers(q)
    rows = app.rows("SELECT * FROM user ORDER BY login")
    found = [row for row in rows if all(word in f"{row['login']} {row['name']} {row['email']}".lower() for word in words)]
    items = [user_shape(app, row["login"]) | {"score": 1} for row in paged(found, page, per_page)]
    return {"total_count": len(found), "incomplete_results": False, "items": items}


@CODE.event
def status_arrives(app: LiveApp, owner: str, repo: str, branch: str, context: str, state: str, description: str = "") -> None:
    """A check reports on the last commit of a branch: `success`, `failure`, `error` or `pending`."""
    repository = find_repository(app, owner, repo)
    sha = branch_sha(app, repository, branch)
    app.run("DELETE FROM status WHERE repository = ? AND sha = ? AND context = ?", repository["id"], sha, context)
    app.insert("status", repository=repository["id"], sha=sha, context=context, state=state, description=description, at=app.at)
