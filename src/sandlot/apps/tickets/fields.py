"""Setting the fields of an issue, one function a field, with the rules and messages of Jira. Changes go into the history."""

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any, cast

from sandlot.apps.live import LiveApp
from sandlot.apps.moments import parse_worked
from sandlot.apps.tickets.declared import find_issue, find_person, log_change, require_text, touch
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_SUMMARY = 255
_MAX_LABELS = 100
_Set = Callable[[LiveApp, Json, Any], None]


def set_fields(app: LiveApp, key: str, fields: Json) -> None:
    """Set fields of an issue by Jira's names; `ToolError` for one that cannot be set, and then nothing is."""
    for name, value in fields.items():
        issue = find_issue(app, key)
        rule = _RULES.get(name)
        if rule is not None:
            rule(app, issue, value)
        else:
            _set_custom(app, issue, name, value)
    touch(app, key)


def _name_of(value: Any) -> str | None:
    """`"High"` and `{"name": "High"}` both name a thing; None is nothing."""
    if isinstance(value, dict):
        given = cast("Json", value)
        value = next((given[part] for part in ("name", "value", "key", "accountId", "account_id", "id") if part in given), None)
    if value is not None and not isinstance(value, str | int | float):
        raise ToolError(f"expected a name, got {str(value)[:80]}")
    return None if value is None else str(value)


def _names_of(value: Any, what: str) -> list[str]:
    given = value.split(",") if isinstance(value, str) else value
    if given is None:
        return []
    if not isinstance(given, list):
        raise ToolError(f"data was not an array: {what}")
    return [name.strip() for name in map(_name_of, cast("list[Any]", given)) if name and name.strip()]


def _update(
    app: LiveApp, issue: Json, column: str, value: Any, field: str, shown: tuple[str | None, str | None] | None = None
) -> None:
    app.run(f"UPDATE issue SET {column} = ? WHERE key = ?", value, issue["key"])
    before, after = shown or (issue[column], value)
    log_change(app, issue["key"], field, None if before is None else str(before), None if after is None else str(after))


def set_summary(app: LiveApp, issue: Json, value: Any) -> None:
    """The summary: one line of at most 255 characters."""
    text = "" if value is None else str(value).strip()
    if not text:
        raise ToolError("You must specify a summary of the issue.")
    if "\n" in text or "\r" in text:
        raise ToolError("The summary is invalid because it contains newline characters.")
    if len(text) > _MAX_SUMMARY:
        raise ToolError("Summary can't exceed 255 characters.")
    _update(app, issue, "summary", text, "summary")


def _set_description(app: LiveApp, issue: Json, value: Any) -> None:
    _update(app, issue, "description", None if value is None else require_text(str(value)), "description")


def _set_priority(app: LiveApp, issue: Json, value: Any) -> None:
    name = _name_of(value)
    row = app.one("SELECT name FROM priority WHERE name = ?1 COLLATE NOCASE OR id = ?1", name)
    if row is None:
        known = ", ".join(each["name"] for each in app.rows("SELECT name FROM priority ORDER BY rank"))
        raise ToolError(f"The priority selected is invalid: {str(name)[:40]}. Valid priorities: {known}.")
    _update(app, issue, "priority", row["name"], "priority")


def _set_person(column: str) -> _Set:
    def set_person(app: LiveApp, issue: Json, value: Any) -> None:
        name = _name_of(value)
        account = find_person(app, name) if name else None
        shown = [app.value("SELECT display_name FROM person WHERE account_id = ?", each) for each in (issue[column], account)]
        _update(app, issue, column, account, column, (shown[0], shown[1]))

    return set_person


def _set_duedate(app: LiveApp, issue: Json, value: Any) -> None:
    text = _name_of(value)
    if text:
        try:
            text = date.fromisoformat(text[:10]).isoformat()
        except ValueError as error:
            raise ToolError(f"Error parsing date string: {text[:40]}. Use yyyy-MM-dd.") from error
    _update(app, issue, "duedate", text or None, "duedate")


def set_resolution(app: LiveApp, issue: Json, value: Any) -> None:
    """How an issue was resolved; None reopens it."""
    name = _name_of(value)
    row = app.one("SELECT name FROM resolution WHERE name = ?1 COLLATE NOCASE OR id = ?1", name)
    if name and row is None:
        known = ", ".join(each["name"] for each in app.rows("SELECT name FROM resolution"))
        raise ToolError(f"Resolution '{name[:40]}' is not valid. Valid resolutions: {known}.")
    _update(app, issue, "resolution", row["name"] if row else None, "resolution")
    app.run("UPDATE issue SET resolved = ? WHERE key = ?", app.at if row else None, issue["key"])


def set_parent(app: LiveApp, issue: Json, value: Any) -> None:
    """The parent: an epic, or the issue of which a subtask is a part."""
    key = _name_of(value)
    if key:
        parent = find_issue(app, key)
        if parent["key"] == issue["key"]:
            raise ToolError("An issue cannot be its own parent.")
        subtask = app.value("SELECT subtask FROM issue_type WHERE name = ?", issue["type"])
        if bool(subtask) == (parent["type"] == "Epic") or app.value(
            "SELECT subtask FROM issue_type WHERE name = ?", parent["type"]
        ):
            raise ToolError(
                f"Given parent issue {key} ({parent['type']}) does not belong to appropriate hierarchy for a {issue['type']}."
            )
    _update(app, issue, "parent", key or None, "Parent")


def _set_list(table: str, column: str, field: str, check: Callable[[LiveApp, Json, str], str], kind: str = "") -> _Set:
    """A field that holds several names; the whole list is replaced."""
    where = "issue = ?" + (f" AND kind = '{kind}'" if kind else "")

    def set_list(app: LiveApp, issue: Json, value: Any) -> None:
        names = sorted({check(app, issue, name) for name in _names_of(value, field)})
        if len(names) > _MAX_LABELS:
            raise ToolError(f"{len(names)} values for {field}; at most {_MAX_LABELS} are allowed.")
        before = [row[column] for row in app.rows(f"SELECT {column} FROM {table} WHERE {where} ORDER BY {column}", issue["key"])]
        for gone in set(before) - set(names):
            app.run(f"DELETE FROM {table} WHERE {where} AND {column} = ?", issue["key"], gone)
        for new in names:
            if new not in before:
                app.insert(table, issue=issue["key"], **{column: new}, **({"kind": kind} if kind else {}))
        log_change(app, issue["key"], field, " ".join(before) or None, " ".join(names) or None)

    return set_list


def _label(_app: LiveApp, _issue: Json, name: str) -> str:
    if re.search(r"\s", name) or len(name) > _MAX_SUMMARY:
        raise ToolError(f"The label '{name[:60]}' contains spaces or is too long, which is invalid.")
    return name


def _known(table: str, what: str) -> Callable[[LiveApp, Json, str], str]:
    def known(app: LiveApp, issue: Json, name: str) -> str:
        sql = f"SELECT name FROM {table} WHERE project = ?1 AND (name = ?2 COLLATE NOCASE OR id = ?2)"
        row = app.one(sql, issue["project"], name)
        if row is None:
            raise ToolError(f"{what} name '{name[:60]}' is not valid in project {issue['project']}.")
        return str(row["name"])

    return known


def _set_tracking(app: LiveApp, issue: Json, value: Any) -> None:
    if not isinstance(value, dict):
        raise ToolError('timetracking needs an object such as {"originalEstimate": "2d"}.')
    for name, column in (("originalEstimate", "original_s"), ("remainingEstimate", "remaining_s")):
        if name in value:
            try:
                _update(app, issue, column, parse_worked(str(value[name])), f"time{column}")  # pyright: ignore[reportUnknownArgumentType]
            except ValueError as error:
                raise ToolError(str(error)) from error


def _set_custom(app: LiveApp, issue: Json, name: str, value: Any) -> None:
    row = app.one("SELECT * FROM field WHERE id = ?1 OR name = ?1 COLLATE NOCASE", name)
    if row is None:
        raise ToolError(f"Field '{name[:60]}' cannot be set. It is not on the appropriate screen, or unknown.")
    if isinstance(value, dict):
        value = _name_of(value)
    if row["type"] == "number" and value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ToolError(f"Specify a number for {row['name']}; got {str(value)[:40]}")
    text = value if value is None or isinstance(value, str) else json.dumps(value)
    before = app.value("SELECT value FROM issue_field WHERE issue = ? AND field = ?", issue["key"], row["id"])
    app.run("DELETE FROM issue_field WHERE issue = ? AND field = ?", issue["key"], row["id"])
    if text is not None:
        app.insert("issue_field", issue=issue["key"], field=row["id"], value=require_text(text))
    log_change(app, issue["key"], row["name"], before, text)


set_components = _set_list("issue_component", "component", "Component", _known("component", "Component"))
_RULES: dict[str, _Set] = {
    "summary": set_summary,
    "description": _set_description,
    "priority": _set_priority,
    "assignee": _set_person("assignee"),
    "reporter": _set_person("reporter"),
    "duedate": _set_duedate,
    "due_date": _set_duedate,
    "resolution": set_resolution,
    "parent": set_parent,
    "epicKey": set_parent,
    "epic_key": set_parent,
    "epic_link": set_parent,
    "labels": _set_list("issue_label", "label", "labels", _label),
    "components": set_components,
    "fixVersions": _set_list("issue_version", "version", "Fix Version", _known("version", "Version"), "fix"),
    "versions": _set_list("issue_version", "version", "Version", _known("version", "Version"), "affects"),
    "timetracking": _set_tracking,
}
