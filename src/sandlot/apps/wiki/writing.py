"""The tools that create, change, move and delete pages, and the event by which colleagues do."""

import re

from sandlot.apps.live import LiveApp
from sandlot.apps.wiki.declared import MAX_CONTENT, WIKI, actor_id, find_page, find_space, wiki_tool
from sandlot.apps.wiki.reading import ancestors_of, page_shape
from sandlot.apps.wiki.storage import markdown_of
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_FORMATS = ("markdown", "wiki", "storage", "xhtml")


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


@WIKI.event
def page_changes(app: LiveApp, page_id: str, title: str, content: str, message: str = "") -> None:
    """A colleague edits a page."""
    change_page(app, find_page(app, page_id), title, content, message)
