"""The tools that plan work: sprints, the backlog, versions."""

from datetime import date
from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.moments import parse_moment
from sandlot.apps.tickets.declared import find_issue, find_project, jira_tool, log_change, require_write, touch
from sandlot.apps.tickets.reading import find_board
from sandlot.apps.tickets.shapes import split_names, sprint_shape, version_shape
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_STATES = ("future", "active", "closed")


def _find_sprint(app: LiveApp, sprint_id: str) -> Json:
    row = app.one("SELECT s.*, b.project FROM sprint s JOIN board b ON b.id = s.board_id WHERE CAST(s.id AS TEXT) = ?", sprint_id)
    if row is None:
        raise ToolError(f"Sprint does not exist: {sprint_id[:40]}")
    require_write(app, row["project"])
    return row


def _moment(app: LiveApp, text: str) -> str:
    try:
        parse_moment(text, app.now)
    except ValueError as error:
        raise ToolError(f"Invalid date '{text[:40]}': {error}") from error
    return text


@jira_tool
def _create_sprint(app: LiveApp, *, board_id: str, name: str, start_date: str, end_date: str, goal: str | None = None) -> Json:
    board = find_board(app, board_id)
    require_write(app, board["project"])
    if not start_date:
        raise ToolError("Start date is required.")
    if parse_moment(_moment(app, start_date), app.now) < app.now:
        raise ToolError("Start date cannot be in the past.")
    if end_date and _moment(app, end_date) and parse_moment(start_date, app.now) >= parse_moment(end_date, app.now):
        raise ToolError("Start date must be before end date.")
    row = app.insert("sprint", board_id=board["id"], name=name, goal=goal or "", start_date=start_date, end_date=end_date or None)
    return sprint_shape(_find_sprint(app, str(row)))


@jira_tool
def _update_sprint(
    app: LiveApp,
    *,
    sprint_id: str,
    name: str | None = None,
    state: str | None = None,
    start_date: str | None = None,
    end_date: str | None = None,
    goal: str | None = None,
) -> Json:
    sprint = _find_sprint(app, sprint_id)
    if state:
        if state not in _STATES or _STATES.index(state) - _STATES.index(sprint["state"]) not in {0, 1}:
            return {"error": f"Failed to update sprint {sprint_id}. Check logs for details."}
        if state == "active" != sprint["state"] and app.one(
            "SELECT 1 FROM sprint WHERE board_id = ? AND state = 'active'", sprint["board_id"]
        ):
            return {"error": f"Failed to update sprint {sprint_id}. Check logs for details."}
    given = {"name": name, "state": state, "start_date": start_date, "end_date": end_date, "goal": goal}
    for column, value in given.items():
        if value is not None:
            text = _moment(app, value) if column.endswith("date") else value
            app.run(f"UPDATE sprint SET {column} = ? WHERE id = ?", text, sprint["id"])
    return sprint_shape(_find_sprint(app, sprint_id))


@jira_tool
def _add_issues_to_sprint(app: LiveApp, *, sprint_id: str, issue_keys: str) -> Json:
    sprint = _find_sprint(app, sprint_id)
    if sprint["state"] == "closed":
        raise ToolError(f"Sprint {sprint_id} is closed; issues cannot be added to it.")
    keys = split_names(issue_keys)
    for key in keys:
        find_issue(app, key, write=True)
        before = _leave_open_sprints(app, key)
        app.insert("issue_sprint", issue=key, sprint_id=sprint["id"])
        log_change(app, key, "Sprint", before, sprint["name"])
        touch(app, key)
    return {"message": f"Successfully added {len(keys)} issue(s) to sprint", "sprint_id": sprint_id, "issue_keys": keys}


def _leave_open_sprints(app: LiveApp, key: str) -> str | None:
    """Take an issue out of sprints that are not closed: it stays in the history of the closed ones."""
    rows = app.rows(
        "SELECT s.id, s.name FROM issue_sprint i JOIN sprint s ON s.id = i.sprint_id WHERE i.issue = ? AND s.state <> 'closed'",
        key,
    )
    for row in rows:
        app.run("DELETE FROM issue_sprint WHERE issue = ? AND sprint_id = ?", key, row["id"])
    return rows[0]["name"] if rows else None


@jira_tool
def _move_issues_to_backlog(app: LiveApp, *, issue_keys: str) -> Json:
    keys = split_names(issue_keys)
    for key in keys:
        find_issue(app, key, write=True)
        log_change(app, key, "Sprint", _leave_open_sprints(app, key), None)
        touch(app, key)
    return {"message": f"Successfully moved {len(keys)} issue(s) to backlog", "issue_keys": keys}


def _require_new(app: LiveApp, project: str, name: str) -> None:
    if not name.strip() or app.one("SELECT 1 FROM version WHERE project = ? AND name = ?", project, name):
        raise ToolError(f"A version with this name already exists in this project, or the name is empty: '{name[:60]}'.")


def _find_version(app: LiveApp, version_id: str) -> Json:
    row = app.one("SELECT * FROM version WHERE id = ?", version_id)
    if row is None:
        raise ToolError(f"Could not find version for id '{version_id[:40]}'")
    require_write(app, row["project"])
    return row


def _day(text: str | None) -> str | None:
    try:
        return date.fromisoformat(text).isoformat() if text else None
    except ValueError as error:
        raise ToolError(f"Date '{str(text)[:40]}' is not in the form yyyy-MM-dd.") from error


@jira_tool
def _create_version(
    app: LiveApp,
    *,
    project_key: str,
    name: str,
    start_date: str | None = None,
    release_date: str | None = None,
    description: str | None = None,
) -> Json:
    try:
        find_project(app, project_key)
        require_write(app, project_key)
        _require_new(app, project_key, name)
        days = {"start_date": _day(start_date), "release_date": _day(release_date)}
    except ToolError as error:
        return {"success": False, "error": str(error)}
    row = app.insert(
        "version", id=str(20_000 + app.new_number()), project=project_key, name=name, description=description, **days
    )
    return version_shape(app.one("SELECT * FROM version WHERE rowid = ?", row) or {})


@jira_tool
def _update_version(
    app: LiveApp,
    *,
    version_id: str,
    name: str | None = None,
    description: str | None = None,
    start_date: str | None = None,
    release_date: str | None = None,
    archived: bool | None = None,
    released: bool | None = None,
) -> Json:
    try:
        row = _find_version(app, version_id)
        given: dict[str, Any] = {"name": name, "description": description, "archived": archived, "released": released}
        given |= {"start_date": _day(start_date), "release_date": _day(release_date)}
    except ToolError as error:
        return {"success": False, "error": str(error)}
    for column, value in given.items():
        if value is not None:
            app.run(f"UPDATE version SET {column} = ? WHERE id = ?", int(value) if isinstance(value, bool) else value, version_id)
    if name is not None and name != row["name"]:
        app.run(
            "UPDATE issue_version SET version = ? WHERE version = ? AND issue IN (SELECT key FROM issue WHERE project = ?)",
            name,
            row["name"],
            row["project"],
        )
    return version_shape(app.one("SELECT * FROM version WHERE id = ?", version_id) or {})
