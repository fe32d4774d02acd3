"""The tools that read and search the wiki's pages, and how a page is shown."""

import difflib
import re
from datetime import datetime

from sandlot.apps.live import LiveApp
from sandlot.apps.wiki.cql import CqlError, CqlReader
from sandlot.apps.wiki.declared import actor_id, find_page, find_space, may, wiki_tool
from sandlot.apps.words import excerpt
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_QUERY_SIGNS = ("=", "~", ">", "<", " AND ", " OR ", "currentUser()")
_MOST = 50


def moment_text(text: str) -> str:
    """A time as the server writes it."""
    return str(datetime.fromisoformat(text))


def page_shape(app: LiveApp, row: Json, *, content: str | None = None) -> Json:
    """A page as the server returns it; with its content, if given."""
    space = app.value("SELECT name FROM space WHERE key = ?", row["space"])
    shown: Json = {"id": str(row["id"]), "title": row["title"], "type": "page", "created": moment_text(row["created"])}
    shown |= {
        "updated": moment_text(row["updated"]),
        "url": f"https://example.atlassian.net/wiki/spaces/{row['space']}/pages/{row['id']}",
    }
    shown |= {"space": {"key": row["space"], "name": space}}
    author = app.value("SELECT display_name FROM person WHERE account_id = ?", row["author"])
    shown |= ({"author": author} if author else {}) | {"version": row["version"], "attachments": []}
    if content is not None:
        shown["content"] = {"value": content, "format": "markdown"}
    above = ancestors_of(app, row)
    if above:
        shown["ancestors"] = [{"id": str(each["id"]), "title": each["title"]} for each in above]
    return shown | ({"emoji": row["emoji"]} if row["emoji"] else {})


def ancestors_of(app: LiveApp, page: Json) -> list[Json]:
    """The pages above a page, the highest first."""
    found: list[Json] = []
    above = app.one("SELECT * FROM page WHERE id = ?", page["parent"])
    while above is not None and len(found) < 100:
        found.insert(0, above)
        above = app.one("SELECT * FROM page WHERE id = ?", above["parent"])
    return found


@wiki_tool
def _search(app: LiveApp, *, query: str, limit: int = 10, spaces_filter: str | None = None) -> list[Json]:
    plain = not any(sign in query for sign in _QUERY_SIGNS)
    cql = 'siteSearch ~ "' + query.replace("\\", " ").replace('"', " ") + '"' if plain else query
    try:
        where, order, values = CqlReader(cql, app.now, actor_id(app) or "").read()
    except CqlError as error:
        raise ToolError(f"Error searching content: {error}") from error
    spaces = {part.strip() for part in (spaces_filter or "").split(",") if part.strip()}
    found: list[Json] = []
    for row in app.rows(f"SELECT * FROM page p WHERE {where} ORDER BY {order}", *values):
        if may(app, row, "read") and (not spaces or row["space"] in spaces):
            found.append(page_shape(app, row, content=excerpt(row["content"], query)))
            if len(found) >= min(limit, _MOST):
                break
    return found


@wiki_tool
def _get_page(
    app: LiveApp,
    *,
    page_id: str | None = None,
    title: str | None = None,
    space_key: str | None = None,
    include_metadata: bool = True,
    convert_to_markdown: bool = True,
) -> Json:
    _ = convert_to_markdown
    if page_id:
        number = re.search(r"/pages/(\d+)", page_id)
        try:
            row = find_page(app, number[1] if number else page_id)
        except ToolError as error:
            return {"error": f"Failed to retrieve page by ID '{page_id[:60]}': Error retrieving page content: {error}"}
    elif title and space_key:
        row = app.one("SELECT * FROM page WHERE space = ? AND title = ?", space_key, title)
        if row is None or not may(app, row, "read"):
            return {"error": f"Page with title '{title[:200]}' not found in space '{space_key[:60]}'."}
    else:
        raise ToolError("Either 'page_id' OR both 'title' and 'space_key' must be provided.")
    if include_metadata:
        return {"metadata": page_shape(app, row, content=row["content"])}
    return {"content": {"value": row["content"]}}


@wiki_tool
def _get_page_children(
    app: LiveApp,
    *,
    parent_id: str,
    expand: str = "version",
    limit: int = 25,
    include_content: bool = False,
    convert_to_markdown: bool = True,
    start: int = 0,
    include_folders: bool = True,
) -> Json:
    _ = (expand, convert_to_markdown, include_folders)
    try:
        find_page(app, parent_id)
    except ToolError as error:
        return {"error": f"Failed to get child pages: {error}"}
    rows = [
        row
        for row in app.rows("SELECT * FROM page WHERE CAST(parent AS TEXT) = ? ORDER BY position, id", parent_id)
        if may(app, row, "read")
    ]
    page = rows[max(0, start) : max(0, start) + max(0, min(limit, _MOST))]
    shown = [page_shape(app, row, content=row["content"] if include_content else None) for row in page]
    return {"parent_id": parent_id, "count": len(shown), "limit_requested": limit, "start_requested": start, "results": shown}


@wiki_tool
def _get_space_page_tree(app: LiveApp, *, space_key: str, limit: int = 100) -> Json:
    find_space(app, space_key)
    rows = [row for row in app.rows("SELECT * FROM page WHERE space = ?", space_key) if may(app, row, "read")]
    listed = [
        {
            "id": str(row["id"]),
            "title": row["title"],
            "parent_id": str(row["parent"]) if row["parent"] is not None else None,
            "position": row["position"],
            "depth": len(ancestors_of(app, row)),
        }
        for row in rows
    ]
    listed.sort(key=lambda each: (each["depth"], each["position"], each["title"]))
    shown = listed[: max(0, limit)]
    result: Json = {"space_key": space_key, "total_pages": len(shown), "has_more": len(listed) > len(shown), "pages": shown}
    hint = {"hint": f"Results truncated at {limit} pages. Increase limit to see more."}
    return result | (hint if result["has_more"] else {})


@wiki_tool
def _get_page_history(app: LiveApp, *, page_id: str, version: int, convert_to_markdown: bool = True) -> Json:
    _ = convert_to_markdown
    try:
        row = find_page(app, page_id)
        old = _version(app, row, version)
    except ToolError as error:
        return {"error": f"Failed to get page history: {error}", "page_id": page_id[:60], "version": version}
    as_it_was = {"title": old["title"], "version": version, "updated": old["at"], "author": old["author"]}
    return page_shape(app, row | as_it_was, content=old["content"])


def _version(app: LiveApp, page: Json, number: int) -> Json:
    row = app.one("SELECT * FROM page_version WHERE page = ? AND number = ?", page["id"], number)
    if row is None:
        raise ToolError(f"No version {number} of page {page['id']}; the last is {page['version']}")
    return row


@wiki_tool
def _get_page_diff(app: LiveApp, *, page_id: str, from_version: int, to_version: int) -> Json:
    try:
        page = find_page(app, page_id)
        old, new = _version(app, page, from_version), _version(app, page, to_version)
    except ToolError as error:
        return {
            "error": f"Failed to get page diff: {error}",
            "page_id": page_id[:60],
            "from_version": from_version,
            "to_version": to_version,
        }
    lines = difflib.unified_diff(
        old["content"].splitlines(),
        new["content"].splitlines(),
        fromfile=f"v{from_version}",
        tofile=f"v{to_version}",
        lineterm="",
    )
    return {
        "page_id": page_id,
        "title": new["title"],
        "from_version": from_version,
        "to_version": to_version,
        "diff": "\n".join(lines),
    }


@wiki_tool
def _search_user(app: LiveApp, *, query: str, limit: int = 10, group_name: str = "confluence-users") -> list[Json]:
    _ = group_name
    quoted = re.search(r"~\s*\"([^\"]*)\"", query)
    text = quoted[1] if quoted else query
    rows = app.rows(
        "SELECT * FROM person WHERE instr(lower(display_name), lower(?)) ORDER BY display_name LIMIT ?",
        text,
        max(0, min(limit, _MOST)),
    )
    return [
        {
            "entity_type": "user",
            "title": row["display_name"],
            "score": 0.0,
            "user": {name: row[name] for name in ("account_id", "display_name", "email")} | {"is_active": bool(row["active"])},
        }
        for row in rows
    ]
