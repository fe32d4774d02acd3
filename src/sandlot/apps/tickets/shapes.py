"""Rows of the tickets app as the public Jira server returns them: the same keys, the same words, indented JSON."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.moments import worked_text
from sandlot.core.types import Json

_ALL = "*all"
Fields = frozenset[str] | None
"""The fields that were asked for; None for all."""


def split_names(text: str | None) -> list[str]:
    """A comma-separated list, without empty entries."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def wanted_fields(text: str | None) -> Fields:
    """The argument `fields`: a comma-separated list, or `*all`."""
    return None if text is None or text == _ALL else frozenset(split_names(text))


def person_shape(app: LiveApp, account_id: str | None) -> Json | None:
    """A user; None if there is no such account."""
    row = app.one("SELECT * FROM person WHERE account_id = ?", account_id)
    if row is None:
        return None
    shown = {"account_id": row["account_id"], "display_name": row["display_name"], "name": row["display_name"]}
    return shown | {"email": row["email"], "avatar_url": None}


def status_shape(app: LiveApp, name: str) -> Json:
    """A status with its category."""
    row = app.one("SELECT * FROM status WHERE name = ?", name) or {"category": "To Do", "color": "blue-gray"}
    return {"name": name, "category": row["category"], "color": row["color"]}


def moment_shape(text: str | None) -> str | None:
    """A time as Jira's interface writes it: `2026-01-05 09:00:00+00:00`."""
    return str(datetime.fromisoformat(text)) if text else None


def comment_shape(app: LiveApp, row: Json) -> Json:
    """A comment inside an issue."""
    shown: Json = {"id": str(row["id"]), "body": row["body"], "author": person_shape(app, row["author"])}
    return shown | {"created": moment_shape(row["created"]), "updated": moment_shape(row["updated"])}


def link_shape(app: LiveApp, row: Json, key: str) -> Json:
    """A link, as seen from one of its two issues."""
    kind = app.one("SELECT * FROM link_type WHERE name = ?", row["type"]) or {}
    side, other = ("outward_issue", row["outward"]) if row["inward"] == key else ("inward_issue", row["inward"])
    linked = app.one("SELECT * FROM issue WHERE key = ?", other)
    shown: Json = {"id": str(row["id"]), "type": {name: kind.get(name) for name in ("id", "name", "inward", "outward")}}
    if linked is not None:
        shown[side] = {"id": str(linked["id"]), "key": other, "fields": _linked_fields(app, linked)}
    return shown


def _linked_fields(app: LiveApp, row: Json) -> Json:
    fields: Json = {"summary": row["summary"], "status": status_shape(app, row["status"]), "issuetype": {"name": row["type"]}}
    return fields | ({"priority": {"name": row["priority"]}} if row["priority"] else {})


def issue_shape(app: LiveApp, row: Json, fields: Fields, *, comments: int = 0) -> Json:
    """An issue with the fields that were asked for; those that are empty are left out, as the server does."""
    key = row["key"]

    def asked(name: str) -> bool:
        return fields is None or name in fields

    found: Json = {"id": str(row["id"]), "key": key}
    found |= {name: value for name, value in _own_fields(app, row).items() if asked(name)}
    found |= {_RENAMED[name]: found.pop(name) for name in list(found) if name in _RENAMED}
    if asked("comment") and comments:
        said = app.rows("SELECT * FROM comment WHERE issue = ? ORDER BY id DESC LIMIT ?", key, comments)
        found["comments"] = [comment_shape(app, each) for each in reversed(said)]
    if asked("issuelinks"):
        links = app.rows("SELECT * FROM issue_link WHERE inward = ? OR outward = ? ORDER BY id", key, key)
        found["issuelinks"] = [link_shape(app, each, key) for each in links]
    custom = app.rows(
        "SELECT f.id, f.name, f.type, i.value FROM issue_field i JOIN field f ON f.id = i.field WHERE i.issue = ? ORDER BY f.id",
        key,
    )
    for each in custom:
        if fields is None or each["id"] in fields or each["name"] in fields:
            value = float(each["value"]) if each["type"] == "number" and each["value"] is not None else each["value"]
            found[each["id"]] = {"value": value, "name": each["name"]}
    return {name: value for name, value in found.items() if value is not None and value != []}


_RENAMED = {"issuetype": "issue_type", "fixVersions": "fix_versions"}


def _own_fields(app: LiveApp, row: Json) -> Json:
    """The fields of an issue by Jira's name, in the server's order."""
    key = row["key"]

    def named(sql: str) -> list[str]:
        return [next(iter(each.values())) for each in app.rows(sql, key)]

    project = app.one("SELECT key, name FROM project WHERE key = ?", row["project"]) or {
        "key": row["project"],
        "name": row["project"],
    }
    return {
        "summary": row["summary"],
        "description": row["description"] or None,
        "status": status_shape(app, row["status"]),
        "issuetype": {"name": row["type"]},
        "priority": {"name": row["priority"]} if row["priority"] else None,
        "project": project,
        "resolution": {"name": row["resolution"]} if row["resolution"] else None,
        "duedate": row["duedate"],
        "resolutiondate": row["resolved"],
        "parent": _parent_shape(app, row["parent"]),
        "subtasks": [
            {"id": str(each["id"]), "key": each["key"], "fields": _linked_fields(app, each)}
            for each in app.rows("SELECT * FROM issue WHERE parent = ? ORDER BY number", key)
        ],
        "assignee": person_shape(app, row["assignee"]) or {"display_name": "Unassigned"},
        "reporter": person_shape(app, row["reporter"]),
        "labels": named("SELECT label FROM issue_label WHERE issue = ? ORDER BY label"),
        "components": named("SELECT component FROM issue_component WHERE issue = ? ORDER BY component"),
        "fixVersions": named("SELECT version FROM issue_version WHERE issue = ? AND kind = 'fix' ORDER BY version"),
        "versions": named("SELECT version FROM issue_version WHERE issue = ? AND kind = 'affects' ORDER BY version"),
        "timetracking": _tracking_shape(row),
        "created": moment_shape(row["created"]),
        "updated": moment_shape(row["updated"]),
    }


def _parent_shape(app: LiveApp, key: str | None) -> Json | None:
    row = app.one("SELECT * FROM issue WHERE key = ?", key)
    return {"id": str(row["id"]), "key": row["key"], "fields": _linked_fields(app, row)} if row else None


def _tracking_shape(row: Json) -> Json | None:
    names = {"original_estimate": "original_s", "remaining_estimate": "remaining_s", "time_spent": "time_spent_s"}
    return {name: worked_text(row[column]) for name, column in names.items() if row[column]} or None


def change_shapes(app: LiveApp, key: str, fields: Iterable[str] = ()) -> list[Json]:
    """The changelog of an issue, oldest first: what one person changed at one time is one entry."""
    only = set(fields)
    found: list[Json] = []
    last: tuple[Any, Any] | None = None
    for row in app.rows("SELECT * FROM change WHERE issue = ? ORDER BY id", key):
        if only and row["field"] not in only:
            continue
        item = {"field": row["field"], "fieldtype": "jira"}
        item |= {name: row[side] for name, side in (("from_string", "before"), ("to_string", "after")) if row[side] is not None}
        if last == (row["author"], row["created"]):
            found[-1]["items"].append(item)
            continue
        last = (row["author"], row["created"])
        found.append({"items": [item], "author": person_shape(app, row["author"]), "created": row["created"]})
    return found


def version_shape(row: Json) -> Json:
    """A version of a project."""
    shown: Json = {"id": row["id"], "name": row["name"], "released": bool(row["released"]), "archived": bool(row["archived"])}
    optional = {"description": row["description"], "startDate": row["start_date"], "releaseDate": row["release_date"]}
    return shown | {name: value for name, value in optional.items() if value is not None}


def sprint_shape(row: Json) -> Json:
    """A sprint of a board."""
    shown: Json = {"id": str(row["id"]), "name": row["name"], "state": row["state"]}
    return shown | {name: row[name] for name in ("goal", "start_date", "end_date") if row[name]}
