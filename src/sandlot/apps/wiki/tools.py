"""The tools of the wiki: names, arguments, results and errors of the Confluence half of `mcp-atlassian`."""

import difflib
import re
from datetime import datetime

from sandlot.apps.live import LiveApp
from sandlot.apps.wiki.cql import CqlError, CqlReader
from sandlot.apps.wiki.declared import MAX_CONTENT, WIKI, actor_id, find_page, find_person, find_space, level_in, may, wiki_tool
from sandlot.apps.wiki.storage import markdown_of
from sandlot.apps.words import excerpt
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_FORMATS = ("markdown", "wiki", "storage", "xhtml")
_QUERY_SIGNS = ("=", "~", ">", "<", " AND ", " OR ", "currentUser()")
_MOST = 50


def _moment(text: str) -> str:
    return str(datetime.fromisoformat(text))


def page_shape(app: LiveApp, row: Json, *, content: str | None = None) -> Json:
    """A page as the server returns it; with its content, if given."""
    space = app.value("SELECT name FROM space WHERE key = ?", row["space"])
    shown: Json = {"id": str(row["id"]), "title": row["title"], "type": "page", "created": _moment(row["created"])}
    shown |= {
        "updated": _moment(row["updated"]),
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


# -- reading ------------------------------------------------------------------------------------------------------------


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


# -- writing ------------------------------------------------------------------------------------------------------------


def _markdown(content: str | None, content_format: str, content_file: str | None) -> str:
    if content_format not in _FORMATS:
        raise ToolError(f"Invalid content_format: {content_format[:40]}. Must be 'markdown', 'wiki', 'storage', or 'xhtml'")
    if content_file:
        raise ToolError("content_file cannot be read from here; give the text as content")
    if content is None:
        raise ToolError("Either 'content' or 'content_file' must be provided.")
    if len(content) > MAX_CONTENT:
        raise ToolError(f"The page has {len(content)} characters; at most {MAX_CONTENT} are allowed")
    return markdown_of(content) if content_format in {"storage", "xhtml"} else content


def _require_title(app: LiveApp, space: str, title: str, own: int | None = None) -> None:
    if not title.strip() or len(title) > 255:
        raise ToolError("A page needs a title of at most 255 characters")
    other = app.value("SELECT id FROM page WHERE space = ? AND title = ?", space, title)
    if other is not None and other != own:
        raise ToolError("A page with this title already exists: A page already exists with the same TITLE in this space")


def write_page(app: LiveApp, space: str, title: str, content: str, parent: int | None, emoji: str | None = None) -> int:
    """Create a page and return its id."""
    _require_title(app, space, title)
    position = app.value("SELECT coalesce(max(position), -1) + 1 FROM page WHERE space = ? AND parent IS ?", space, parent)
    author = actor_id(app)
    number = max(65_537, (app.value("SELECT max(id) FROM page") or 0) + 1)
    times = {"created": app.at, "updated": app.at, "creator": author, "author": author}
    app.insert(
        "page", id=number, space=space, title=title, parent=parent, position=position, content=content, emoji=emoji, **times
    )
    app.insert("page_version", page=number, number=1, title=title, content=content, at=app.at, author=author)
    return number


def change_page(app: LiveApp, page: Json, title: str, content: str, message: str = "", *, minor: bool = False) -> None:
    """Write a new version of a page."""
    _require_title(app, page["space"], title, page["id"])
    number, author = page["version"] + 1, actor_id(app)
    app.run(
        "UPDATE page SET title = ?, content = ?, version = ?, updated = ?, author = ? WHERE id = ?",
        title,
        content,
        number,
        app.at,
        author,
        page["id"],
    )
    values = {"title": title, "content": content, "at": app.at, "author": author, "message": message, "minor": int(minor)}
    app.insert("page_version", page=page["id"], number=number, **values)


@wiki_tool
def _create_page(
    app: LiveApp,
    *,
    space_key: str,
    title: str,
    content: str | None = None,
    parent_id: str | None = None,
    content_format: str = "markdown",
    enable_heading_anchors: bool = False,
    include_content: bool = False,
    emoji: str | None = None,
    content_file: str | None = None,
    page_width: str | None = None,
    table_layout: str | None = None,
    subtype: str | None = None,
) -> Json:
    _ = (enable_heading_anchors, page_width, table_layout, subtype)
    find_space(app, space_key, write=True)
    text = _markdown(content, content_format, content_file)
    parent = find_page(app, parent_id)["id"] if parent_id else None
    number = write_page(app, space_key, title, text, parent, emoji)
    shown = page_shape(app, find_page(app, str(number)), content=text if include_content else None)
    return {"message": "Page created successfully", "page": shown}


@wiki_tool
def _update_page(
    app: LiveApp,
    *,
    page_id: str,
    title: str,
    content: str | None = None,
    is_minor_edit: bool = False,
    version_comment: str | None = None,
    parent_id: str | None = None,
    content_format: str = "markdown",
    enable_heading_anchors: bool = False,
    include_content: bool = False,
    emoji: str | None = None,
    content_file: str | None = None,
    page_width: str | None = None,
    table_layout: str | None = None,
) -> Json:
    _ = (enable_heading_anchors, page_width, table_layout)
    page = find_page(app, page_id, write=True)
    text = _markdown(content, content_format, content_file)
    if parent_id:
        _put_under(app, page, find_page(app, parent_id))
    if emoji is not None:
        app.run("UPDATE page SET emoji = ? WHERE id = ?", emoji or None, page["id"])
    change_page(app, page, title, text, version_comment or "", minor=is_minor_edit)
    shown = page_shape(app, find_page(app, page_id), content=text if include_content else None)
    return {"message": "Page updated successfully", "page": shown}


@wiki_tool
def _update_page_section(
    app: LiveApp,
    *,
    page_id: str,
    heading_text: str,
    new_content: str,
    content_format: str = "markdown",
    is_minor_edit: bool = False,
    version_comment: str | None = None,
) -> Json:
    if content_format not in {"markdown", "storage"}:
        raise ToolError(f"Invalid content_format '{content_format[:40]}'. Must be 'markdown' or 'storage'.")
    page = find_page(app, page_id, write=True)
    text = _markdown(new_content, content_format, None)
    lines = page["content"].split("\n")
    heads = [(place, match) for place, line in enumerate(lines) if (match := re.match(r"(#{1,6})\s+(.*?)\s*#*\s*$", line))]
    found = [(place, len(match[1])) for place, match in heads if match[2].strip().lower() == heading_text.strip().lower()]
    if not found:
        known = ", ".join(f"'{match[2].strip()}'" for _, match in heads)
        raise ToolError(
            f"Heading '{heading_text.strip()[:200]}' not found in page {page_id}. Available headings: {known or 'none'}"
        )
    start, depth = found[0]
    end = next((place for place, match in heads if place > start and len(match[1]) <= depth), len(lines))
    whole = "\n".join([*lines[: start + 1], "", text.strip("\n"), "", *lines[end:]]).rstrip("\n") + "\n"
    change_page(app, page, page["title"], whole, version_comment or "", minor=is_minor_edit)
    return {"message": f"Section '{heading_text}' updated successfully", "page": page_shape(app, find_page(app, page_id))}


@wiki_tool
def _delete_page(app: LiveApp, *, page_id: str) -> Json:
    try:
        page = find_page(app, page_id, write=True)
    except ToolError as error:
        return {"success": False, "message": f"Error deleting page {page_id[:60]}", "error": str(error)}
    app.run("UPDATE page SET parent = ? WHERE parent = ?", page["parent"], page["id"])
    for table in ("page_version", "label", "comment", "restriction"):
        app.run(f"DELETE FROM {table} WHERE page = ?", page["id"])
    app.run("DELETE FROM page WHERE id = ?", page["id"])
    return {"success": True, "message": f"Page {page_id} deleted successfully"}


def _put_under(app: LiveApp, page: Json, parent: Json | None) -> None:
    """Move a page, with those below it, under another; `ToolError` if that one is below it."""
    if parent is not None and (parent["id"] == page["id"] or page["id"] in {each["id"] for each in ancestors_of(app, parent)}):
        raise ToolError("A page cannot be moved under itself or a page below it")
    space = parent["space"] if parent is not None else page["space"]
    number = parent["id"] if parent is not None else None
    if space != page["space"]:
        _require_title(app, space, page["title"])
    position = app.value("SELECT coalesce(max(position), -1) + 1 FROM page WHERE space = ? AND parent IS ?", space, number)
    app.run("UPDATE page SET parent = ?, space = ?, position = ? WHERE id = ?", number, space, position, page["id"])
    if space != page["space"]:
        for child in app.rows("SELECT * FROM page WHERE parent = ? ORDER BY position", page["id"]):
            _put_under(app, child, app.one("SELECT * FROM page WHERE id = ?", page["id"]))


@wiki_tool
def _move_page(
    app: LiveApp,
    *,
    page_id: str,
    target_parent_id: str | None = None,
    target_space_key: str | None = None,
    position: str = "append",
) -> Json:
    if position not in {"append", "above", "below"}:
        raise ToolError(f"Invalid position '{position[:40]}'. Must be 'append', 'above' or 'below'.")
    if not target_parent_id and not target_space_key:
        raise ToolError("At least one of target_parent_id or target_space_key must be provided.")
    page = find_page(app, page_id, write=True)
    target = find_page(app, target_parent_id, write=True) if target_parent_id else None
    if target is None:
        find_space(app, target_space_key or "", write=True)
        app.run("UPDATE page SET parent = NULL WHERE id = ?", page["id"])
        if target_space_key != page["space"]:
            _require_title(app, target_space_key or "", page["title"])
            app.run("UPDATE page SET space = ? WHERE id = ?", target_space_key, page["id"])
            for child in app.rows("SELECT * FROM page WHERE parent = ? ORDER BY position", page["id"]):
                _put_under(app, child, find_page(app, page_id))
    elif position == "append":
        _put_under(app, page, target)
    else:
        _put_under(app, page, app.one("SELECT * FROM page WHERE id = ?", target["parent"]))
        _place_beside(app, page["id"], target["id"], after=position == "below")
    return {"message": "Page moved successfully", "page": page_shape(app, find_page(app, page_id))}


def _place_beside(app: LiveApp, page: int, target: int, *, after: bool) -> None:
    row = app.one("SELECT space, parent FROM page WHERE id = ?", target) or {}
    siblings = app.rows("SELECT id FROM page WHERE space = ? AND parent IS ? ORDER BY position, id", row["space"], row["parent"])
    ids = [each["id"] for each in siblings if each["id"] != page]
    ids.insert(ids.index(target) + after, page)
    for position, number in enumerate(ids):
        app.run("UPDATE page SET position = ? WHERE id = ? AND position <> ?", position, number, position)


@wiki_tool
def _copy_page(
    app: LiveApp,
    *,
    source_page_id: str,
    destination_space_key: str,
    new_title: str,
    destination_parent_id: str | None = None,
    copy_attachments: bool = True,
) -> Json:
    _ = copy_attachments
    source = find_page(app, source_page_id)
    find_space(app, destination_space_key, write=True)
    parent = find_page(app, destination_parent_id)["id"] if destination_parent_id else None
    number = write_page(app, destination_space_key, new_title, source["content"], parent, source["emoji"])
    return {"message": "Page copied successfully", "page": page_shape(app, find_page(app, str(number)))}


# -- labels, comments, restrictions -------------------------------------------------------------------------------------


def _labels(app: LiveApp, page: Json) -> list[Json]:
    rows = app.rows("SELECT rowid, name FROM label WHERE page = ? ORDER BY rowid", page["id"])
    return [{"id": str(row["rowid"]), "name": row["name"], "prefix": "global", "label": row["name"]} for row in rows]


@wiki_tool
def _get_labels(app: LiveApp, *, page_id: str) -> list[Json]:
    return _labels(app, find_page(app, page_id))


@wiki_tool
def _add_label(app: LiveApp, *, page_id: str, name: str) -> list[Json]:
    page = find_page(app, page_id, write=True)
    label = name.strip().lower()
    if not label or len(label) > 255 or re.search(r"[\s:;,.?&\[\]()#^*!@]", label):
        raise ToolError(f"Label '{name[:60]}' is not valid: no spaces or special characters")
    if app.one("SELECT 1 FROM label WHERE page = ? AND name = ?", page["id"], label) is None:
        app.insert("label", page=page["id"], name=label)
    return _labels(app, page)


def _comment_shape(app: LiveApp, row: Json) -> Json:
    shown: Json = {
        "id": str(row["id"]),
        "body": row["body"],
        "created": _moment(row["created"]),
        "updated": _moment(row["updated"]),
    }
    author = app.value("SELECT display_name FROM person WHERE account_id = ?", row["author"])
    shown |= {"author": author} if author else {}
    return shown | ({"parent_comment_id": str(row["parent"])} if row["parent"] else {}) | {"location": "footer"}


@wiki_tool
def _get_comments(app: LiveApp, *, page_id: str) -> list[Json]:
    page = find_page(app, page_id)
    return [_comment_shape(app, row) for row in app.rows("SELECT * FROM comment WHERE page = ? ORDER BY id", page["id"])]


def _comment(app: LiveApp, page: Json, body: str, parent: int | None) -> Json:
    if not body.strip() or len(body) > MAX_CONTENT:
        raise ToolError("A comment needs a text")
    row = app.insert("comment", page=page["id"], author=actor_id(app), body=body, created=app.at, updated=app.at, parent=parent)
    return _comment_shape(app, app.one("SELECT * FROM comment WHERE id = ?", row) or {})


@wiki_tool
def _add_comment(app: LiveApp, *, page_id: str, body: str) -> Json:
    try:
        shown = _comment(app, find_page(app, page_id), body, None)
    except ToolError as error:
        return {"success": False, "message": f"Error adding comment to page {page_id[:60]}", "error": str(error)}
    return {"success": True, "message": "Comment added successfully", "comment": shown}


@wiki_tool
def _reply_to_comment(app: LiveApp, *, comment_id: str, body: str) -> Json:
    row = app.one("SELECT * FROM comment WHERE CAST(id AS TEXT) = ?", comment_id)
    try:
        if row is None:
            return {"success": False, "message": f"Error replying to comment {comment_id[:60]}", "error": "No such comment"}
        shown = _comment(app, find_page(app, str(row["page"])), body, row["id"])
    except ToolError as error:
        return {"success": False, "message": f"Error replying to comment {comment_id[:60]}", "error": str(error)}
    return {"success": True, "message": "Reply added successfully", "comment": shown}


def _restrictions(app: LiveApp, page: Json) -> Json:
    def users(operation: str) -> list[str]:
        rows = app.rows(
            "SELECT account_id FROM restriction WHERE page = ? AND operation = ? ORDER BY rowid", page["id"], operation
        )
        return [row["account_id"] for row in rows]

    return {each: {"users": users(each), "groups": []} for each in ("read", "update")}


@wiki_tool
def _get_page_restrictions(app: LiveApp, *, page_id: str) -> Json:
    return _restrictions(app, find_page(app, page_id))


@wiki_tool
def _set_page_restrictions(
    app: LiveApp,
    *,
    page_id: str,
    read_users: list[str] | None = None,
    read_groups: list[str] | None = None,
    edit_users: list[str] | None = None,
    edit_groups: list[str] | None = None,
) -> Json:
    page = find_page(app, page_id, write=True)
    if read_groups or edit_groups:
        raise ToolError("There are no groups here; restrict the page to users")
    if app.actor and level_in(app, page["space"]) < 2:
        raise ToolError("You do not have permission to restrict this page.")
    for operation, given in (("read", read_users), ("update", edit_users)):
        if given is not None:
            accounts = [find_person(app, name) for name in given]
            app.run("DELETE FROM restriction WHERE page = ? AND operation = ?", page["id"], operation)
            for account in dict.fromkeys(accounts):
                app.insert("restriction", page=page["id"], operation=operation, account_id=account)
    return {"message": "Page restrictions updated successfully", "restrictions": _restrictions(app, page)}


@WIKI.event
def page_changes(app: LiveApp, page_id: str, title: str, content: str, message: str = "") -> None:
    """A colleague edits a page."""
    change_page(app, find_page(app, page_id), title, content, message)
