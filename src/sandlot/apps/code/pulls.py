"""The tools for pull requests: opening, reviewing, merging. A merge is what git would make of the two sides, or a conflict."""

import difflib

from sandlot.apps.code.hosting import (
    API,
    CODE,
    WEB,
    actor_login,
    author_of,
    branch_sha,
    find_repository,
    github_tool,
    invalid,
    level_in,
    move_branch,
    not_found,
    paged,
    repository_shape,
    user_shape,
)
from sandlot.apps.code.issues import find_issue, labels_of, next_number, people_of, require_text
from sandlot.apps.code.objects import history, merge_base, merge_trees, read_object, store_commit, store_tree
from sandlot.apps.code.tools import files_at
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_PATCH = 20_000


def _find_pull(app: LiveApp, repository: Json, number: float) -> Json:
    row = find_issue(app, repository, number)
    if row["head"] is None:
        raise not_found()
    return row


def _side(app: LiveApp, row: Json, side: str) -> Json:
    repository = (
        app.one("SELECT * FROM repository WHERE id = ?", row["head_repository" if side == "head" else "repository"]) or {}
    )
    named = {"label": f"{repository['owner']}:{row[side]}", "ref": row[side], "sha": row[f"{side}_sha"]}
    return named | {"user": user_shape(app, repository["owner"]), "repo": repository_shape(app, repository)}


def pull_shape(app: LiveApp, repository: Json, row: Json) -> Json:
    """A pull request."""
    full = f"{repository['owner']}/{repository['name']}"
    url, html, assigned = f"{API}/repos/{full}/pulls/{row['number']}", f"{WEB}/{full}/pull/{row['number']}", people_of(app, row)
    links = {
        "url": url,
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": f"{API}/repos/{full}/issues/{row['number']}",
    }
    times = {"created_at": row["created"], "updated_at": row["updated"], "closed_at": row["closed"], "merged_at": row["merged"]}
    return {
        **links,
        "id": row["id"],
        "node_id": f"PR_{row['id']}",
        "number": row["number"],
        "state": row["state"],
        "locked": False,
        "title": row["title"],
        "user": user_shape(app, row["user"]),
        "body": row["body"],
        **times,
        "merge_commit_sha": row["merge_sha"],
        "assignee": assigned[0] if assigned else None,
        "assignees": assigned,
        "requested_reviewers": [],
        "labels": labels_of(app, row),
        "draft": bool(row["draft"]),
        "head": _side(app, row, "head"),
        "base": _side(app, row, "base"),
    }


@github_tool
def _create_pull_request(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    title: str,
    head: str,
    base: str,
    body: str | None = None,
    draft: bool | None = None,
    maintainer_can_modify: bool | None = None,
) -> Json:
    _ = maintainer_can_modify
    repository = find_repository(app, owner, repo)
    require_text(title, body)
    from_owner, colon, name = head.rpartition(":")
    source = find_repository(app, from_owner, repo) if colon else repository
    if source["id"] == repository["id"] and level_in(app, repository) < 2:
        raise ToolError("Permission Denied: Resource not accessible by personal access token")
    try:
        tips = (branch_sha(app, source, name), branch_sha(app, repository, base))
    except ToolError as error:
        raise invalid("Validation Failed: head or base is not a branch") from error
    if merge_base(app, *tips) == tips[0]:
        raise invalid(f"Validation Failed: No commits between {base} and {head}")
    same = "SELECT 1 FROM issue WHERE repository = ? AND head = ? AND head_repository = ? AND base = ? AND state = 'open'"
    if app.one(same, repository["id"], name, source["id"], base):
        raise invalid(f"Validation Failed: A pull request already exists for {source['owner']}:{name}.")
    number = next_number(app, repository)
    sides = {"head": name, "head_repository": source["id"], "head_sha": tips[0], "base": base, "base_sha": tips[1]}
    texts = {"title": title, "body": body, "user": actor_login(app), "created": app.at, "updated": app.at}
    app.insert("issue", repository=repository["id"], number=number, draft=int(bool(draft)), **texts, **sides)
    return pull_shape(app, repository, _find_pull(app, repository, number))


@github_tool
def _get_pull_request(app: LiveApp, *, owner: str, repo: str, pull_number: float) -> Json:
    repository = find_repository(app, owner, repo)
    return pull_shape(app, repository, _find_pull(app, repository, pull_number))


@github_tool
def _list_pull_requests(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    state: str | None = None,
    head: str | None = None,
    base: str | None = None,
    sort: str | None = None,
    direction: str | None = None,
    per_page: float | None = None,
    page: float | None = None,
) -> list[Json]:
    repository = find_repository(app, owner, repo)
    column = "updated" if sort == "updated" else "created"
    order = "ASC" if direction == "asc" else "DESC"
    rows = app.rows(
        "SELECT * FROM issue WHERE repository = ?1 AND head IS NOT NULL AND (?2 = 'all' OR state = ?2)"
        f" ORDER BY {column} {order}, number DESC",
        repository["id"],
        state or "open",
    )
    wanted = [row for row in rows if (not base or row["base"] == base) and (not head or row["head"] == head.rpartition(":")[2])]
    return [pull_shape(app, repository, row) for row in paged(wanted, page, per_page)]


@github_tool
def _get_pull_request_files(app: LiveApp, *, owner: str, repo: str, pull_number: float) -> list[Json]:
    repository = find_repository(app, owner, repo)
    row = _find_pull(app, repository, pull_number)
    start = merge_base(app, row["base_sha"], row["head_sha"])
    before, after = files_at(app, start) if start else {}, files_at(app, row["head_sha"])
    full = f"{repository['owner']}/{repository['name']}"
    found: list[Json] = []
    for path in sorted(path for path in {*before, *after} if before.get(path) != after.get(path)):
        old, new = (read_object(app, side[path].sha)[1] if path in side else b"" for side in (before, after))
        lines = list(difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=3))[2:]
        added, gone = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        status = "added" if path not in before else "removed" if path not in after else "modified"
        sha = (after.get(path) or before[path]).sha
        shown: Json = {
            "sha": sha,
            "filename": path,
            "status": status,
            "additions": added,
            "deletions": gone,
            "changes": added + gone,
        }
        shown |= {
            "blob_url": f"{WEB}/{full}/blob/{row['head_sha']}/{path}",
            "raw_url": f"{WEB}/{full}/raw/{row['head_sha']}/{path}",
        }
        found.append(
            shown
            | {
                "contents_url": f"{API}/repos/{full}/contents/{path}?ref={row['head_sha']}",
                "patch": "\n".join(lines)[:_MAX_PATCH],
            }
        )
    return found[:300]


def _lines(data: bytes) -> list[str]:
    return [] if b"\0" in data else data.decode(errors="replace").splitlines()


# -- reviews and checks -------------------------------------------------------------------------------------------------


def _review_shape(app: LiveApp, repository: Json, row: Json, pull: Json) -> Json:
    html = f"{WEB}/{repository['owner']}/{repository['name']}/pull/{pull['number']}#pullrequestreview-{row['id']}"
    named = {
        "id": row["id"],
        "node_id": f"PRR_{row['id']}",
        "user": user_shape(app, row["user"]),
        "body": row["body"],
        "state": row["state"],
    }
    url = f"{API}/repos/{repository['owner']}/{repository['name']}/pulls/{pull['number']}"
    return named | {
        "html_url": html,
        "pull_request_url": url,
        "commit_id": row["sha"],
        "submitted_at": row["at"],
        "author_association": "MEMBER",
    }


def write_review(app: LiveApp, repository: Json, pull: Json, state: str, body: str) -> int:
    """Store a review of a pull request's last commit and return its id; `ToolError` for an approval of one's own."""
    login = actor_login(app)
    if state != "COMMENTED" and login == pull["user"]:
        raise invalid("Unprocessable Entity: Can not approve or request changes on your own pull request")
    if pull["state"] != "open":
        raise invalid("Unprocessable Entity: the pull request is closed")
    _ = repository
    return app.insert("review", issue=pull["id"], user=login, state=state, body=body, sha=pull["head_sha"], at=app.at)


@github_tool
def _create_pull_request_review(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    pull_number: float,
    body: str,
    event: str,
    commit_id: str | None = None,
    comments: list[Json] | None = None,
) -> Json:
    repository = find_repository(app, owner, repo)
    pull = _find_pull(app, repository, pull_number)
    require_text(None, body)
    if commit_id and commit_id not in {commit.sha for commit in history(app, pull["head_sha"])}:
        raise invalid("Unprocessable Entity: commit_id is not part of the pull request")
    states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
    number = write_review(app, repository, pull, states[event], body)
    files = files_at(app, pull["head_sha"])
    for each in (comments or [])[:100]:
        if each["path"] not in files:
            raise invalid(f"Unprocessable Entity: Path could not be resolved: {each['path'][:100]}")
        place = {"path": each["path"], "line": int(each.get("line") or each.get("position") or 1), "body": each["body"]}
        app.insert(
            "review_comment",
            review=number,
            issue=pull["id"],
            user=actor_login(app),
            sha=pull["head_sha"],
            created=app.at,
            **place,
        )
    return _review_shape(app, repository, app.one("SELECT * FROM review WHERE id = ?", number) or {}, pull)


@github_tool
def _get_pull_request_reviews(app: LiveApp, *, owner: str, repo: str, pull_number: float) -> list[Json]:
    repository = find_repository(app, owner, repo)
    pull = _find_pull(app, repository, pull_number)
    return [
        _review_shape(app, repository, row, pull)
        for row in app.rows("SELECT * FROM review WHERE issue = ? ORDER BY id", pull["id"])
    ]


@github_tool
def _get_pull_request_comments(app: LiveApp, *, owner: str, repo: str, pull_number: float) -> list[Json]:
    repository = find_repository(app, owner, repo)
    pull = _find_pull(app, repository, pull_number)
    full = f"{repository['owner']}/{repository['name']}"
    return [
        {
            "url": f"{API}/repos/{full}/pulls/comments/{row['id']}",
            "id": row["id"],
            "node_id": f"PRRC_{row['id']}",
            "pull_request_review_id": row["review"],
            "path": row["path"],
            "line": row["line"],
            "body": row["body"],
            "commit_id": row["sha"],
            "user": user_shape(app, row["user"]),
            "created_at": row["created"],
            "updated_at": row["created"],
        }
        for row in app.rows("SELECT * FROM review_comment WHERE issue = ? ORDER BY id", pull["id"])
    ]


@github_tool
def _get_pull_request_status(app: LiveApp, *, owner: str, repo: str, pull_number: float) -> Json:
    repository = find_repository(app, owner, repo)
    pull = _find_pull(app, repository, pull_number)
    rows = app.rows("SELECT * FROM status WHERE repository = ? AND sha = ? ORDER BY context", repository["id"], pull["head_sha"])
    states = {row["state"] for row in rows}
    whole = "failure" if states & {"failure", "error"} else "pending" if not rows or "pending" in states else "success"
    full = f"{repository['owner']}/{repository['name']}"
    url = f"{API}/repos/{full}/commits/{pull['head_sha']}/status"
    shown = [
        {
            "url": url,
            "state": row["state"],
            "description": row["description"],
            "target_url": None,
            "context": row["context"],
            "created_at": row["at"],
            "updated_at": row["at"],
        }
        for row in rows
    ]
    return {"state": whole, "statuses": shown, "sha": pull["head_sha"], "total_count": len(shown)}


# -- merging ------------------------------------------------------------------------------------------------------------


def _require_mergeable(app: LiveApp, repository: Json, pull: Json) -> None:
    """`ToolError` unless the pull request is open, and what protects the branch is satisfied."""
    if pull["state"] != "open" or pull["draft"]:
        raise ToolError(f"GitHub API Error: Pull Request is not mergeable: it is {'a draft' if pull['draft'] else pull['state']}")
    rule = app.one("SELECT * FROM protection WHERE repository = ? AND branch = ?", repository["id"], pull["base"])
    if rule is None:
        return
    last: dict[str, str] = {}
    for row in app.rows("SELECT * FROM review WHERE issue = ? AND state <> 'COMMENTED' ORDER BY id", pull["id"]):
        last[row["user"]] = row["state"] if row["sha"] == pull["head_sha"] or row["state"] == "CHANGES_REQUESTED" else ""
    if "CHANGES_REQUESTED" in last.values():
        raise ToolError("GitHub API Error: Changes requested by a reviewer must be addressed before merging.")
    approved = sum(state == "APPROVED" for state in last.values())
    if approved < rule["approvals"]:
        raise ToolError(
            f"GitHub API Error: At least {rule['approvals']} approving review is required by reviewers with write access."
        )
    for check in filter(None, rule["checks"].split(",")):
        state = app.value(
            "SELECT state FROM status WHERE repository = ? AND sha = ? AND context = ?",
            repository["id"],
            pull["head_sha"],
            check.strip(),
        )
        if state != "success":
            raise ToolError(f'GitHub API Error: Required status check "{check.strip()}" is {state or "expected"}.')


def merged_tree(app: LiveApp, ours: str, theirs: str) -> str:
    """The tree of both sides' changes; `ToolError` if they conflict."""
    start = merge_base(app, ours, theirs)
    tree, conflicts = merge_trees(app, files_at(app, start) if start else {}, files_at(app, ours), files_at(app, theirs))
    if conflicts:
        raise ToolError(f"GitHub API Error: Pull Request is not mergeable: merge conflict in {', '.join(conflicts[:20])}")
    return store_tree(app, tree)


@github_tool
def _merge_pull_request(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    pull_number: float,
    commit_title: str | None = None,
    commit_message: str | None = None,
    merge_method: str | None = None,
) -> Json:
    repository = find_repository(app, owner, repo, write=True)
    pull = _find_pull(app, repository, pull_number)
    _require_mergeable(app, repository, pull)
    ours, theirs = branch_sha(app, repository, pull["base"]), pull["head_sha"]
    tree = merged_tree(app, ours, theirs)
    sha = _merge_commits(app, pull, (ours, theirs), tree, (commit_title, commit_message), merge_method or "merge")
    move_branch(app, repository, pull["base"], sha, by_merge=True)
    app.run(
        "UPDATE issue SET state = 'closed', closed = ?1, merged = ?1, updated = ?1, merged_by = ?2, merge_sha = ?3, base_sha = ?4"
        " WHERE id = ?5",
        app.at,
        actor_login(app),
        sha,
        ours,
        pull["id"],
    )
    return {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}


def _merge_commits(
    app: LiveApp, pull: Json, tips: tuple[str, str], tree: str, words: tuple[str | None, str | None], method: str
) -> str:
    """The commit that a method of merging makes of two tips."""
    title, message = words
    if method == "rebase":
        known = {commit.sha for commit in history(app, tips[0])}
        new = [commit for commit in history(app, tips[1]) if commit.sha not in known and len(commit.parents) == 1]
        at = tips[0]
        for commit in reversed(new):
            start = files_at(app, commit.parents[0])
            files, conflicts = merge_trees(app, start, files_at(app, at), files_at(app, commit.sha))
            if conflicts:
                raise ToolError(f"GitHub API Error: This branch can't be rebased: conflict in {', '.join(conflicts[:20])}")
            at = store_commit(app, store_tree(app, files), (at,), commit.message, (commit.author, commit.email))
        return at
    if method == "squash":
        text = "\n\n".join(part for part in (title or f"{pull['title']} (#{pull['number']})", message) if part)
        return store_commit(app, tree, (tips[0],), text, author_of(app))
    head = title or f"Merge pull request #{pull['number']} from {pull['head']}"
    return store_commit(app, tree, tips, f"{head}\n\n{message or pull['title']}", author_of(app))


@github_tool
def _update_pull_request_branch(
    app: LiveApp, *, owner: str, repo: str, pull_number: float, expected_head_sha: str | None = None
) -> Json:
    repository = find_repository(app, owner, repo, write=True)
    pull = _find_pull(app, repository, pull_number)
    if expected_head_sha and expected_head_sha != pull["head_sha"]:
        raise invalid("expected head sha didn't match current head ref.")
    source = app.one("SELECT * FROM repository WHERE id = ?", pull["head_repository"]) or {}
    base = branch_sha(app, repository, pull["base"])
    if merge_base(app, pull["head_sha"], base) == base:
        raise invalid("There are no new commits on the base branch.")
    tree = merged_tree(app, pull["head_sha"], base)
    words = f"Merge branch '{pull['base']}' into {pull['head']}"
    move_branch(app, source, pull["head"], store_commit(app, tree, (pull["head_sha"], base), words, author_of(app)))
    app.run("UPDATE issue SET base_sha = ? WHERE id = ?", base, pull["id"])
    return {"success": True}


@CODE.event
def review_arrives(app: LiveApp, owner: str, repo: str, number: int, login: str, state: str, body: str = "") -> None:
    """A colleague reviews a pull request: `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`."""
    repository = find_repository(app, owner, repo)
    pull = _find_pull(app, repository, number)
    app.insert("review", issue=pull["id"], user=login, state=state, body=body, sha=pull["head_sha"], at=app.at)
