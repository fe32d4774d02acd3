"""The pages of the wiki, for agents that use a browser: spaces, page trees, pages with history and comments. No JavaScript.

A page's Markdown is shown as HTML. What others wrote in it stays text: see `markdown_html`.
"""

from itertools import islice
from pathlib import Path
from typing import Any, cast

from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import PageTools, lines, listed, markdown_html, number_of, words
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.apps.wiki.declared import WIKI, find_page, find_space, level_in, may
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_TOOLS = PageTools(WIKI, r"\A(Error calling tool '\w+': |Error searching content: )+")
_PAGE = 20
_TREE = 500


def _do(app: LiveApp, tool: str, **arguments: Any) -> Any:
    """What a tool returns; `ToolError` where it returns an error as an ordinary result, as the public server does."""
    found: Any = _TOOLS.do(app, f"confluence_{tool}", **arguments)
    failed = cast("Json", found).get("error") if isinstance(found, dict) else None
    if failed is not None:
        raise ToolError(str(failed))
    return cast("Any", found)


def _page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    return render(_HERE, template, actor=app.actor, **values)


def _spaces(app: LiveApp) -> list[Json]:
    return [row for row in app.rows("SELECT * FROM space ORDER BY name, key") if level_in(app, row["key"])]


@WIKI.page("GET", "/")
def _home(app: LiveApp, _request: PageRequest) -> PageResponse:
    rows = (row for row in app.rows("SELECT * FROM page ORDER BY updated DESC, id DESC") if may(app, row, "read"))
    names = dict(_names(app))
    recent = [{**row, "author": names.get(row["author"], "")} for row in islice(rows, _PAGE)]
    return _page(app, "home.html", spaces=_spaces(app), recent=recent)


def _names(app: LiveApp) -> list[tuple[str, str]]:
    return [(row["account_id"], row["display_name"]) for row in app.rows("SELECT * FROM person ORDER BY display_name")]


@WIKI.page("GET", "/search")
def _search(app: LiveApp, request: PageRequest) -> PageResponse:
    query, space = request.query.get("q", ""), request.query.get("space", "")
    found: list[Json] = _do(app, "search", query=query, limit=50, spaces_filter=space or None) if query.strip() else []
    return _page(
        app, "search.html", query=query, space=space, spaces=_spaces(app), found=listed(found, request, _PAGE), total=len(found)
    )


@WIKI.page("GET", "/space/{key}")
def _space(app: LiveApp, _request: PageRequest, key: str) -> PageResponse:
    space = find_space(app, key)
    tree = _do(app, "get_space_page_tree", space_key=key, limit=_TREE)
    ordered = _in_order(tree["pages"])
    return _page(app, "space.html", space=space, tree=ordered, more=tree["has_more"], may_write=level_in(app, key) > 1)


def _in_order(pages: list[Json]) -> list[Json]:
    """Each page before those below it, with its depth. Without recursion: an agent may nest pages as deep as it likes."""
    below: dict[str | None, list[Json]] = {}
    known = {each["id"] for each in pages}
    for each in pages:
        below.setdefault(each["parent_id"] if each["parent_id"] in known else None, []).append(each)
    left = [(each, 0) for each in reversed(below.get(None, []))]
    found: list[Json] = []
    while left:
        page, depth = left.pop()
        found.append(page | {"depth": depth})
        left += [(each, depth + 1) for each in reversed(below.get(page["id"], []))]
    return found


# -- one page -----------------------------------------------------------------------------------------------------------


@WIKI.page("GET", "/page/{number}")
def _show(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    shown = _do(app, "get_page", page_id=number)["metadata"]
    row = find_page(app, number)
    return _page(
        app,
        "page.html",
        page={"author": "", "ancestors": []} | shown,
        text=markdown_html(row["content"]),
        children=_do(app, "get_page_children", parent_id=number, limit=50)["results"],
        labels=_do(app, "get_labels", page_id=number),
        comments=[{"author": "", "parent_comment_id": ""} | each for each in _do(app, "get_comments", page_id=number)],
        restricted=any(each["users"] for each in _do(app, "get_page_restrictions", page_id=number).values()),
        may_write=may(app, row, "update"),
    )


@WIKI.page("GET", "/page/{number}/history")
def _history(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    page, names = find_page(app, number), dict(_names(app))
    rows = app.rows("SELECT number, title, at, author, message FROM page_version WHERE page = ? ORDER BY number DESC", page["id"])
    return _page(app, "history.html", page=page, versions=[{**row, "author": names.get(row["author"], "")} for row in rows])


@WIKI.page("GET", "/page/{number}/version/{version}")
def _version(app: LiveApp, _request: PageRequest, number: str, version: str) -> PageResponse:
    place = number_of(version)
    shown = _do(app, "get_page_history", page_id=number, version=place)
    text = markdown_html(shown["content"]["value"])
    diff = _do(app, "get_page_diff", page_id=number, from_version=place - 1, to_version=place)["diff"] if place > 1 else ""
    return _page(
        app, "version.html", page={"author": ""} | shown, number=number, version=place, text=text, diff=diff.splitlines()
    )


@WIKI.page("GET", "/new")
def _new_form(app: LiveApp, request: PageRequest) -> PageResponse:
    spaces = [row for row in _spaces(app) if level_in(app, row["key"]) > 1]
    space, parent = request.query.get("space", ""), request.query.get("parent", "")
    return _page(app, "edit.html", page=None, spaces=spaces, space=space, parent=parent)


@WIKI.page("POST", "/new")
def _new(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    made = _do(
        app,
        "create_page",
        space_key=form.get("space", ""),
        title=form.get("title", ""),
        content=lines(request, "content"),
        parent_id=form.get("parent") or None,
    )
    return PageResponse.redirect(f"/page/{made['page']['id']}")


@WIKI.page("GET", "/page/{number}/edit")
def _edit_form(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    return _page(app, "edit.html", page=find_page(app, number, write=True), spaces=[], space="", parent="")


@WIKI.page("POST", "/page/{number}/edit")
def _edit(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    form, before = request.form, find_page(app, number, write=True)
    if form.get("version") != str(before["version"]):
        raise ToolError("The page was changed meanwhile. Open it again, and make your change to the new version.")
    message = form.get("message") or None
    _do(
        app,
        "update_page",
        page_id=number,
        title=form.get("title", ""),
        content=lines(request, "content"),
        version_comment=message,
    )
    return PageResponse.redirect(f"/page/{number}")


@WIKI.page("POST", "/page/{number}/comment")
def _comment(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    parent, body = request.form.get("parent"), lines(request, "body")
    if parent:
        _do(app, "reply_to_comment", comment_id=parent, body=body)
    else:
        _do(app, "add_comment", page_id=number, body=body)
    return PageResponse.redirect(f"/page/{number}")


@WIKI.page("POST", "/page/{number}/label")
def _label(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    for name in words(request.form.get("labels", "").replace(" ", ",")):
        _do(app, "add_label", page_id=number, name=name)
    return PageResponse.redirect(f"/page/{number}")


@WIKI.page("GET", "/page/{number}/settings")
def _settings_form(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    page, names = find_page(app, number, write=True), dict(_names(app))
    rights = _do(app, "get_page_restrictions", page_id=number)
    emails = {row["account_id"]: row["email"] for row in app.rows("SELECT account_id, email FROM person")}
    shown = {each: ", ".join(emails.get(who, who) for who in rights[each]["users"]) for each in rights}
    return _page(app, "settings.html", page=page, rights=shown, names=names, spaces=_spaces(app))


@WIKI.page("POST", "/page/{number}/restrict")
def _restrict(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    readers, editors = (words(request.form.get(each, "")) for each in ("read", "update"))
    _do(app, "set_page_restrictions", page_id=number, read_users=readers, edit_users=editors)
    return PageResponse.redirect(f"/page/{number}")


@WIKI.page("POST", "/page/{number}/move")
def _move(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    parent, space = request.form.get("parent", "").strip() or None, request.form.get("space") or None
    _do(app, "move_page", page_id=number, target_parent_id=parent, target_space_key=None if parent else space)
    return PageResponse.redirect(f"/page/{number}")


@WIKI.page("POST", "/page/{number}/delete")
def _delete(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    space = find_page(app, number)["space"]
    _do(app, "delete_page", page_id=number)
    return PageResponse.redirect(f"/space/{space}")
