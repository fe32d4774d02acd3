"""The tools for issues: creating, changing, commenting, searching."""

from collections.abc import Mapping

from sandlot.apps.code.hosting import (
    API,
    CODE,
    WEB,
    actor_login,
    find_repository,
    github_tool,
    invalid,
    level_in,
    not_found,
    paged,
    user_shape,
    words_and_qualifiers,
)
from sandlot.apps.colleague import SentMessage
from sandlot.apps.live import LiveApp
from sandlot.apps.words import match_expression
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_TITLE, _MAX_BODY = 256, 65_536


def require_text(title: str | None, body: str | None) -> None:
    """`ToolError` if a title or a body cannot be."""
    if title is not None and (not title.strip() or len(title) > _MAX_TITLE):
        raise invalid(f"Validation Failed: title is missing or longer than {_MAX_TITLE} characters")
    if body is not None and len(body) > _MAX_BODY:
        raise invalid(f"Validation Failed: body is too long (maximum is {_MAX_BODY} characters)")


def next_number(app: LiveApp, repository: Json) -> int:
    """The number of the next issue or pull request."""
    number = app.value("SELECT next_number FROM repository WHERE id = ?", repository["id"])
    app.run("UPDATE repository SET next_number = ? WHERE id = ?", number + 1, repository["id"])
    return int(number)


def find_issue(app: LiveApp, repository: Json, number: float) -> Json:
    """An issue or a pull request; `ToolError` if there is none."""
    row = app.one("SELECT * FROM issue WHERE repository = ? AND number = ?", repository["id"], int(number))
    if row is None:
        raise not_found()
    return row


def labels_of(app: LiveApp, row: Json) -> list[Json]:
    """The labels of an issue."""
    rows = app.rows("SELECT rowid, name FROM label WHERE issue = ? ORDER BY name", row["id"])
    return [
        {
            "id": each["rowid"],
            "node_id": f"LA_{each['rowid']}",
            "url": f"{API}/labels/{each['name']}",
            "name": each["name"],
            "color": "ededed",
            "default": False,
            "description": None,
        }
        for each in rows
    ]


def people_of(app: LiveApp, row: Json) -> list[Json]:
    """Those to whom an issue is assigned."""
    return [
        user_shape(app, each["login"])
        for each in app.rows("SELECT login FROM assignee WHERE issue = ? ORDER BY rowid", row["id"])
    ]


def issue_shape(app: LiveApp, repository: Json, row: Json) -> Json:
    """An issue; a pull request looks like one here, with a mark."""
    full = f"{repository['owner']}/{repository['name']}"
    url, assigned = f"{API}/repos/{full}/issues/{row['number']}", people_of(app, row)
    kind = "pull" if row["head"] is not None else "issues"
    shown: Json = {
        "url": url,
        "repository_url": f"{API}/repos/{full}",
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"{WEB}/{full}/{kind}/{row['number']}",
        "id": row["id"],
        "node_id": f"I_{row['id']}",
        "number": row["number"],
        "title": row["title"],
        "user": user_shape(app, row["user"]),
        "labels": labels_of(app, row),
        "state": row["state"],
        "locked": False,
        "assignee": assigned[0] if assigned else None,
        "assignees": assigned,
        "milestone": None,
        "comments": app.value("SELECT count(*) FROM comment WHERE issue = ?", row["id"]),
        "created_at": row["created"],
        "updated_at": row["updated"],
        "closed_at": row["closed"],
        "body": row["body"],
    }
    return shown | ({"pull_request": {"url": f"{API}/repos/{full}/pulls/{row['number']}"}} if kind == "pull" else {})


def set_lists(app: LiveApp, issue: int, labels: list[str] | None, assignees: list[str] | None) -> None:
    """Replace labels and assignees, where given; `ToolError` for an unknown person."""
    if labels is not None:
        app.run("DELETE FROM label WHERE issue = ?", issue)
        for name in dict.fromkeys(labels[:100]):
            if not name.strip() or len(name) > 50:
                raise invalid(f"Validation Failed: label '{name[:60]}' is not valid")
            app.insert("label", issue=issue, name=name)
    if assignees is not None:
        app.run("DELETE FROM assignee WHERE issue = ?", issue)
        for login in dict.fromkeys(assignees[:10]):
            known = app.value("SELECT login FROM user WHERE login = ? COLLATE NOCASE", login)
            if known is None:
                raise invalid(f"Validation Failed: assignee '{login[:60]}' is not a user")
            app.insert("assignee", issue=issue, login=known)


@github_tool
def _create_issue(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    title: str,
    body: str | None = None,
    assignees: list[str] | None = None,
    milestone: float | None = None,
    labels: list[str] | None = None,
) -> Json:
    repository = find_repository(app, owner, repo)
    require_text(title, body)
    if milestone is not None:
        raise invalid("Validation Failed: there are no milestones here")
    times = {"created": app.at, "updated": app.at}
    number = next_number(app, repository)
    row = app.insert("issue", repository=repository["id"], number=number, title=title, body=body, user=actor_login(app), **times)
    if level_in(app, repository) >= 2:  # others may not set them, and GitHub drops them silently
        set_lists(app, row, labels, assignees)
    return issue_shape(app, repository, find_issue(app, repository, number))


@github_tool
def _update_issue(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    issue_number: float,
    title: str | None = None,
    body: str | None = None,
    assignees: list[str] | None = None,
    milestone: float | None = None,
    labels: list[str] | None = None,
    state: str | None = None,
) -> Json:
    repository = find_repository(app, owner, repo)
    row = find_issue(app, repository, issue_number)
    if level_in(app, repository) < 2 and row["user"] != actor_login(app):
        raise ToolError("Permission Denied: Must have admin rights to Repository.")
    if milestone is not None:
        raise invalid("Validation Failed: there are no milestones here")
    require_text(title, body)
    for column, value in (("title", title), ("body", body), ("state", state)):
        if value is not None:
            app.run(f"UPDATE issue SET {column} = ?, updated = ? WHERE id = ?", value, app.at, row["id"])
    if state is not None:
        app.run("UPDATE issue SET closed = ? WHERE id = ?", app.at if state == "closed" else None, row["id"])
    set_lists(app, row["id"], labels, assignees)
    return issue_shape(app, repository, find_issue(app, repository, issue_number))


@github_tool
def _get_issue(app: LiveApp, *, owner: str, repo: str, issue_number: float) -> Json:
    repository = find_repository(app, owner, repo)
    return issue_shape(app, repository, find_issue(app, repository, issue_number))


@github_tool
def _add_issue_comment(app: LiveApp, *, owner: str, repo: str, issue_number: float, body: str) -> Json:
    repository = find_repository(app, owner, repo)
    row = find_issue(app, repository, issue_number)
    require_text(None, body)
    if not body.strip():
        raise invalid("Validation Failed: body cannot be blank")
    login = actor_login(app)
    number = app.insert("comment", issue=row["id"], user=login, body=body, created=app.at)
    app.run("UPDATE issue SET updated = ? WHERE id = ?", app.at, row["id"])
    concerned = {row["user"], *(each["login"] for each in people_of(app, row))}
    concerned |= {each["login"] for each in app.rows("SELECT login FROM user") if f"@{each['login'].lower()}" in body.lower()}
    emails = tuple(sorted(str(app.value("SELECT email FROM user WHERE login = ?", each) or "") for each in concerned - {login}))
    about = {"owner": repository["owner"], "repo": repository["name"], "number": row["number"]}
    app.tell_colleagues(SentMessage(sender=app.actor, to=emails, text=body, about=about), "colleague_comments")
    full = f"{repository['owner']}/{repository['name']}"
    links = {
        "url": f"{API}/repos/{full}/issues/comments/{number}",
        "html_url": f"{WEB}/{full}/issues/{row['number']}#issuecomment-{number}",
    }
    return {
        "id": number,
        "node_id": f"IC_{number}",
        **links,
        "body": body,
        "user": user_shape(app, login),
        "created_at": app.at,
        "updated_at": app.at,
    }


@CODE.event
def colleague_comments(app: LiveApp, sender: str, text: str, about: Json) -> None:
    """A colleague answers on an issue or a pull request."""
    repository = find_repository(app, about["owner"], about["repo"])
    login = app.value("SELECT login FROM user WHERE email = ?", sender)
    app.insert(
        "comment", issue=find_issue(app, repository, about["number"])["id"], user=login or "ghost", body=text, created=app.at
    )


@github_tool
def _list_issues(
    app: LiveApp,
    *,
    owner: str,
    repo: str,
    direction: str | None = None,
    labels: list[str] | None = None,
    page: float | None = None,
    per_page: float | None = None,
    since: str | None = None,
    sort: str | None = None,
    state: str | None = None,
) -> list[Json]:
    repository = find_repository(app, owner, repo)
    column = {"updated": "updated", "comments": "(SELECT count(*) FROM comment c WHERE c.issue = issue.id)"}.get(
        sort or "", "created"
    )
    rows = app.rows(
        "SELECT * FROM issue WHERE repository = ?1 AND (?2 = 'all' OR state = ?2) AND updated >= ?3"
        f" ORDER BY {column} {'ASC' if direction == 'asc' else 'DESC'}, number DESC",
        repository["id"],
        state or "open",
        since or "",
    )
    found = [row for row in rows if set(labels or ()) <= {each["name"] for each in labels_of(app, row)}]
    return [issue_shape(app, repository, row) for row in paged(found, page, per_page)]


@github_tool
def _search_issues(
    app: LiveApp,
    *,
    q: str,
    order: str | None = None,
    page: float | None = None,
    per_page: float | None = None,
    sort: str | None = None,
) -> Json:
    _ = sort
    words, pairs = words_and_qualifiers(q)
    expression = match_expression(" ".join(words))
    ids = (
        {row["rowid"] for row in app.rows("SELECT rowid FROM issue_words WHERE issue_words MATCH ?", expression)}
        if expression
        else None
    )
    found: list[Json] = []
    for row in app.rows("SELECT * FROM issue ORDER BY created DESC, id DESC"):
        repository = app.one("SELECT * FROM repository WHERE id = ?", row["repository"])
        if (
            repository is not None
            and level_in(app, repository)
            and (ids is None or row["id"] in ids)
            and _fits(app, repository, row, pairs)
        ):
            found.append(issue_shape(app, repository, row))
    if order == "asc":
        found.reverse()
    return {"total_count": len(found), "incomplete_results": False, "items": paged(found, page, per_page)}


def _fits(app: LiveApp, repository: Json, row: Json, pairs: Mapping[str, list[str]]) -> bool:
    """True if an issue has every quality that the search names."""
    kinds = {"pr", "pull-request"} if row["head"] is not None else {"issue"}
    facts = {
        "repo": {f"{repository['owner']}/{repository['name']}".lower()},
        "user": {repository["owner"].lower()},
        "org": {repository["owner"].lower()},
        "is": {row["state"], *kinds, *({"merged"} if row["merged"] else ())},
        "type": kinds,
        "state": {row["state"]},
        "author": {row["user"].lower()},
        "assignee": {each["login"].lower() for each in people_of(app, row)},
        "label": {each["name"].lower() for each in labels_of(app, row)},
    }
    return all(value in facts[name] for name, values in pairs.items() if name in facts for value in values)
