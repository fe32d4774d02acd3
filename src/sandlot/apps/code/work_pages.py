"""The pages of issues and pull requests: lists, conversations, reviews, merges."""

from typing import Any

from sandlot.apps.code.hosting import CODE, actor_login, find_repository, level_in
from sandlot.apps.code.issues import find_issue
from sandlot.apps.code.page_parts import CODE_TOOLS, PAGE_SIZE, repository_page
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import Listed, lines, markdown_html, number_of, page_number, words
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import ToolError
from sandlot.core.types import Json


def _users(app: LiveApp) -> list[str]:
    return [row["login"] for row in app.rows("SELECT login FROM user ORDER BY login")]


def _comments(app: LiveApp, row: Json) -> list[Json]:
    found = app.rows("SELECT * FROM comment WHERE issue = ? ORDER BY id", row["id"])
    return [{**each, "text": markdown_html(each["body"]), "at": each["created"]} for each in found]


def _is_pull(app: LiveApp, owner: str, repo: str, number: str) -> bool:
    return find_issue(app, find_repository(app, owner, repo), number_of(number))["head"] is not None


# -- issues -------------------------------------------------------------------------------------------------------------


@CODE.page("GET", "/{owner}/{repo}/issues")
def _issues(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository, page, query = find_repository(app, owner, repo), page_number(request), request.query.get("q", "")
    state = request.query.get("state", "open")
    chosen = f" state:{state}" if state in {"open", "closed"} else ""
    whole = f"{query} repo:{repository['owner']}/{repository['name']} is:issue{chosen}"
    found = CODE_TOOLS.do(app, "search_issues", q=whole, page=page, per_page=PAGE_SIZE)
    rows = Listed(found["items"], page, page * PAGE_SIZE < found["total_count"])
    values = {"query": query, "state": state, "found": rows, "kind": "issues"}
    return repository_page(app, "issues.html", repository, tab="issues", **values)


@CODE.page("GET", "/{owner}/{repo}/issues/new")
def _new_issue_form(app: LiveApp, _request: PageRequest, owner: str, repo: str) -> PageResponse:
    return repository_page(app, "issue_new.html", find_repository(app, owner, repo), tab="issues", users=_users(app))


@CODE.page("POST", "/{owner}/{repo}/issues/new")
def _new_issue(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    form = request.form
    lists = {name: words(form[name]) for name in ("labels", "assignees") if form.get(name)}
    made = CODE_TOOLS.do(
        app, "create_issue", owner=owner, repo=repo, title=form.get("title", ""), body=lines(request, "body") or None, **lists
    )
    return PageResponse.redirect(f"/{owner}/{repo}/issues/{made['number']}")


@CODE.page("GET", "/{owner}/{repo}/issues/{number}")
def _issue(app: LiveApp, _request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    if _is_pull(app, owner, repo, number):
        return PageResponse.redirect(f"/{owner}/{repo}/pull/{number}")
    repository = find_repository(app, owner, repo)
    shown = CODE_TOOLS.do(app, "get_issue", owner=owner, repo=repo, issue_number=number_of(number))
    row = find_issue(app, repository, number_of(number))
    may_change = level_in(app, repository) > 1 or row["user"] == actor_login(app)
    values = {"issue": shown, "text": markdown_html(row["body"] or ""), "comments": _comments(app, row), "may_change": may_change}
    return repository_page(app, "issue.html", repository, tab="issues", **values)


@CODE.page("POST", "/{owner}/{repo}/issues/{number}/comment")
def _comment(app: LiveApp, request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    """Comment, and close or reopen where that button was pressed."""
    act, body = request.form.get("act", "comment"), lines(request, "body")
    if body.strip() or act == "comment":
        CODE_TOOLS.do(app, "add_issue_comment", owner=owner, repo=repo, issue_number=number_of(number), body=body)
    if act in {"close", "reopen"}:
        state = "closed" if act == "close" else "open"
        CODE_TOOLS.do(app, "update_issue", owner=owner, repo=repo, issue_number=number_of(number), state=state)
    return PageResponse.redirect(f"/{owner}/{repo}/issues/{number}")


@CODE.page("POST", "/{owner}/{repo}/issues/{number}/edit")
def _edit_issue(app: LiveApp, request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    form = request.form
    lists = {name: words(form.get(name, "")) for name in ("labels", "assignees")}
    texts = {"title": form.get("title", ""), "body": lines(request, "body")}
    CODE_TOOLS.do(app, "update_issue", owner=owner, repo=repo, issue_number=number_of(number), **texts, **lists)
    return PageResponse.redirect(f"/{owner}/{repo}/issues/{number}")


# -- pull requests ------------------------------------------------------------------------------------------------------


@CODE.page("GET", "/{owner}/{repo}/pulls")
def _pulls(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository, page, state = find_repository(app, owner, repo), page_number(request), request.query.get("state", "open")
    state = state if state in {"open", "closed", "all"} else "open"
    found = CODE_TOOLS.do(app, "list_pull_requests", owner=owner, repo=repo, state=state, page=page, per_page=PAGE_SIZE)
    values = {"query": "", "state": state, "found": Listed(found, page, len(found) == PAGE_SIZE), "kind": "pulls"}
    return repository_page(app, "issues.html", repository, tab="pulls", **values)


@CODE.page("GET", "/{owner}/{repo}/pulls/new")
def _new_pull_form(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository = find_repository(app, owner, repo)
    rows = app.rows("SELECT name FROM branch WHERE repository = ? ORDER BY name", repository["id"])
    branches, head = [row["name"] for row in rows], request.query.get("head", "")
    return repository_page(app, "pull_new.html", repository, tab="pulls", branches=branches, head=head)


@CODE.page("POST", "/{owner}/{repo}/pulls/new")
def _new_pull(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    form = request.form
    made = CODE_TOOLS.do(
        app,
        "create_pull_request",
        owner=owner,
        repo=repo,
        title=form.get("title", ""),
        head=form.get("head", ""),
        base=form.get("base", ""),
        body=lines(request, "body") or None,
        draft=form.get("draft") == "on",
    )
    return PageResponse.redirect(f"/{owner}/{repo}/pull/{made['number']}")


@CODE.page("GET", "/{owner}/{repo}/pull/{number}")
def _pull(app: LiveApp, _request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    if not _is_pull(app, owner, repo, number):
        raise ToolError("There is no such pull request.")
    repository, place = find_repository(app, owner, repo), number_of(number)

    def read(what: str) -> Any:
        return CODE_TOOLS.do(app, what, owner=owner, repo=repo, pull_number=place)

    row = find_issue(app, repository, place)
    files = [{**each, "lines": each["patch"].splitlines()} for each in read("get_pull_request_files")]
    reviews = [{**each, "text": markdown_html(each["body"])} for each in read("get_pull_request_reviews")]
    return repository_page(
        app,
        "pull.html",
        repository,
        tab="pulls",
        pull=read("get_pull_request"),
        text=markdown_html(row["body"] or ""),
        comments=_comments(app, row),
        reviews=reviews,
        remarks=read("get_pull_request_comments"),
        checks=read("get_pull_request_status"),
        files=files,
        own=row["user"] == actor_login(app),
        may_change=level_in(app, repository) > 1 or row["user"] == actor_login(app),
    )


@CODE.page("POST", "/{owner}/{repo}/pull/{number}/review")
def _review(app: LiveApp, request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    event, body = request.form.get("event", ""), lines(request, "body")
    if event not in {"APPROVE", "REQUEST_CHANGES", "COMMENT"}:
        raise ToolError("Choose Comment, Approve or Request changes.")
    given = {"owner": owner, "repo": repo, "pull_number": number_of(number)}
    CODE_TOOLS.do(app, "create_pull_request_review", **given, body=body, event=event)
    return PageResponse.redirect(f"/{owner}/{repo}/pull/{number}")


@CODE.page("POST", "/{owner}/{repo}/pull/{number}/merge")
def _merge(app: LiveApp, request: PageRequest, owner: str, repo: str, number: str) -> PageResponse:
    given = {"owner": owner, "repo": repo, "pull_number": number_of(number)}
    CODE_TOOLS.do(app, "merge_pull_request", **given, merge_method=request.form.get("method") or None)
    return PageResponse.redirect(f"/{owner}/{repo}/pull/{number}")
