"""The pages of code hosting, for agents that use a browser: repositories, files, commits, branches. No JavaScript."""

from typing import Any, cast
from urllib.parse import quote

from sandlot.apps.code import work_pages
from sandlot.apps.code.hosting import CODE, commit_at, find_repository
from sandlot.apps.code.objects import read_object
from sandlot.apps.code.page_parts import CODE_TOOLS, PAGE_SIZE, code_page, repository_page
from sandlot.apps.code.tools import files_at
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import Listed, lines, markdown_html, page_number
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["work_pages"]
_SHOWN = 200_000


@CODE.page("GET", "/")
def _home(app: LiveApp, request: PageRequest) -> PageResponse:
    query, page = request.query.get("q", ""), page_number(request)
    found = CODE_TOOLS.do(app, "search_repositories", query=query, page=page, perPage=PAGE_SIZE)
    rows = Listed(found["items"], page, page * PAGE_SIZE < found["total_count"])
    return code_page(app, "home.html", query=query, found=rows)


@CODE.page("GET", "/new")
def _new_form(app: LiveApp, _request: PageRequest) -> PageResponse:
    return code_page(app, "repository_new.html")


@CODE.page("POST", "/new")
def _new(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    made = CODE_TOOLS.do(
        app,
        "create_repository",
        name=form.get("name", "").strip(),
        description=form.get("description") or None,
        private=form.get("private") == "on",
        autoInit=True,
    )
    return PageResponse.redirect(f"/{made['full_name']}")


@CODE.page("GET", "/search")
def _search(app: LiveApp, request: PageRequest) -> PageResponse:
    query, kind, page = request.query.get("q", ""), request.query.get("kind", "issues"), page_number(request)
    tool = "search_code" if kind == "code" else "search_issues"
    found: Json = {"total_count": 0, "items": []}
    if query.strip():
        sized: Json = {"page": page, "per_page": PAGE_SIZE}
        found = CODE_TOOLS.do(app, tool, q=query, **sized)
    rows = Listed(found["items"], page, page * PAGE_SIZE < found["total_count"])
    return code_page(app, "search.html", query=query, kind=kind, found=rows, total=found["total_count"])


# -- files --------------------------------------------------------------------------------------------------------------


def _branches(app: LiveApp, repository: Json) -> list[str]:
    return [row["name"] for row in app.rows("SELECT name FROM branch WHERE repository = ? ORDER BY name", repository["id"])]


def _place(request: PageRequest, repository: Json) -> tuple[str, str]:
    """The branch or commit and the path that a request names."""
    return request.query.get("ref") or repository["default_branch"], request.query.get("path", "").strip("/")


@CODE.page("GET", "/{owner}/{repo}")
def _tree(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository = find_repository(app, owner, repo)
    ref, path = _place(request, repository)
    branches, entries, readme = _branches(app, repository), list[Json](), ""
    if branches:
        found: Any = CODE_TOOLS.do(app, "get_file_contents", owner=owner, repo=repo, path=path, branch=ref)
        if isinstance(found, dict):
            return PageResponse.redirect(f"/{owner}/{repo}/blob?ref={quote(ref)}&path={quote(path)}")
        entries = sorted(cast("list[Json]", found), key=lambda each: (each["type"] != "dir", each["name"]))
        readme = next((_text(app, repository, ref, each["path"]) for each in entries if each["name"].lower() == "readme.md"), "")
    values = {"ref": ref, "path": path, "above": _above(path), "entries": entries, "branches": branches}
    return repository_page(app, "tree.html", repository, tab="code", readme=markdown_html(readme), **values)


def _above(path: str) -> list[tuple[str, str]]:
    """The folders down to a path, each with its name."""
    names = path.split("/") if path else []
    return [("/".join(names[: place + 1]), name) for place, name in enumerate(names)]


def _text(app: LiveApp, repository: Json, ref: str, path: str) -> str:
    files = files_at(app, commit_at(app, repository, ref))
    if path not in files:
        raise ToolError(f"There is no file {path[:200]} on {ref[:100]}.")
    data = read_object(app, files[path].sha)[1]
    return "" if b"\0" in data else data.decode(errors="replace")


@CODE.page("GET", "/{owner}/{repo}/blob")
def _blob(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository = find_repository(app, owner, repo)
    ref, path = _place(request, repository)
    text = _text(app, repository, ref, path)
    on_branch = ref in _branches(app, repository)
    values = {"ref": ref, "path": path, "above": _above(path), "on_branch": on_branch}
    return repository_page(
        app, "blob.html", repository, tab="code", text=text[:_SHOWN].split("\n"), cut=len(text) > _SHOWN, **values
    )


@CODE.page("GET", "/{owner}/{repo}/edit")
def _edit_form(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository = find_repository(app, owner, repo, write=True)
    ref, path = _place(request, repository)
    new = request.query.get("new") == "1"
    text = "" if new else _text(app, repository, ref, path)
    sha = "" if new else files_at(app, commit_at(app, repository, ref))[path].sha
    values = {"ref": ref, "path": f"{path}/" if new and path else path, "text": text, "sha": sha, "new": new}
    return repository_page(app, "edit.html", repository, tab="code", **values)


@CODE.page("POST", "/{owner}/{repo}/edit")
def _edit(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    """Commit the file on its branch, or on a new branch that starts there."""
    form = request.form
    branch, made = form.get("ref", ""), form.get("branch", "").strip()
    if made and made != branch:
        CODE_TOOLS.do(app, "create_branch", owner=owner, repo=repo, branch=made, from_branch=branch)
        branch = made
    path = form.get("path", "").strip().strip("/")
    CODE_TOOLS.do(
        app,
        "create_or_update_file",
        owner=owner,
        repo=repo,
        path=path,
        content=lines(request, "text"),
        message=form.get("message") or f"Update {path}",
        branch=branch,
        sha=form.get("sha") or None,
    )
    return PageResponse.redirect(f"/{owner}/{repo}/blob?ref={quote(branch)}&path={quote(path)}")


@CODE.page("GET", "/{owner}/{repo}/commits")
def _commits(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository, page = find_repository(app, owner, repo), page_number(request)
    ref, _ = _place(request, repository)
    found = CODE_TOOLS.do(app, "list_commits", owner=owner, repo=repo, sha=ref, page=page, perPage=PAGE_SIZE)
    rows = Listed(found, page, len(found) == PAGE_SIZE)
    return repository_page(
        app, "commits.html", repository, tab="commits", ref=ref, found=rows, branches=_branches(app, repository)
    )


@CODE.page("GET", "/{owner}/{repo}/branches")
def _branch_list(app: LiveApp, _request: PageRequest, owner: str, repo: str) -> PageResponse:
    repository = find_repository(app, owner, repo)
    protected = {row["branch"] for row in app.rows("SELECT branch FROM protection WHERE repository = ?", repository["id"])}
    branches = [{"name": name, "protected": name in protected} for name in _branches(app, repository)]
    return repository_page(app, "branches.html", repository, tab="branches", branches=branches)


@CODE.page("POST", "/{owner}/{repo}/branches")
def _new_branch(app: LiveApp, request: PageRequest, owner: str, repo: str) -> PageResponse:
    name, start = request.form.get("name", ""), request.form.get("from") or None
    CODE_TOOLS.do(app, "create_branch", owner=owner, repo=repo, branch=name, from_branch=start)
    return PageResponse.redirect(f"/{owner}/{repo}/branches")


@CODE.page("POST", "/{owner}/{repo}/fork")
def _fork(app: LiveApp, _request: PageRequest, owner: str, repo: str) -> PageResponse:
    made = CODE_TOOLS.do(app, "fork_repository", owner=owner, repo=repo)
    return PageResponse.redirect(f"/{made['full_name']}")
