"""The tools for what is attached to a page: labels, comments, restrictions."""

import re

from sandlot.apps.live import LiveApp
from sandlot.apps.wiki.declared import MAX_CONTENT, actor_id, find_page, find_person, level_in, wiki_tool
from sandlot.apps.wiki.reading import moment_text
from sandlot.core.errors import ToolError
from sandlot.core.types import Json


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
        "created": moment_text(row["created"]),
        "updated": moment_text(row["updated"]),
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
