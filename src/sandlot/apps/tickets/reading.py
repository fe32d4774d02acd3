"""The tools that read tickets."""

from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.tickets.declared import actor_id, find_issue, find_person, find_project, jira_tool, visible_projects
from sandlot.apps.tickets.jql import JqlError, JqlReader
from sandlot.apps.tickets.shapes import (
    Fields,
    change_shapes,
    issue_shape,
    moment_shape,
    person_shape,
    split_names,
    sprint_shape,
    version_shape,
    wanted_fields,
)
from sandlot.apps.tickets.tables import ISSUE_FIELDS
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

USUAL_FIELDS = "reporter,status,priority,summary,updated,created,versions,assignee,labels,description,issuetype"
"""The fields that are returned if none are asked for, as recorded."""
_SECTIONS = {"remote_links", "transitions", "watchers", "changelog", "comments", "worklogs"}
_MOST = 50
"""Issues that one search returns, as the server's own limit."""
_VISIBLE = """(NOT EXISTS (SELECT 1 FROM permission p WHERE p.project = i.project) OR EXISTS
  (SELECT 1 FROM permission p WHERE p.project = i.project AND p.account_id IN ('*', {actor})) OR {actor} = '')"""


def search_issues(app: LiveApp, jql: str) -> tuple[str, tuple[Any, ...]]:
    """The SQL that finds what a query finds and the actor may read: `FROM ... ORDER BY ...` with its parameters."""
    custom = {name: row["id"] for row in app.rows("SELECT id, name FROM field") for name in (row["id"], row["name"].lower())}
    try:
        query = JqlReader(jql, app.now, actor_id(app) or "", custom).read()
    except JqlError as error:
        raise ToolError(f"Error searching issues: {error}") from error
    actor = (actor_id(app) or app.actor) if app.actor else ""
    visible = _VISIBLE.format(actor=f"?{len(query.parameters) + 1}")
    return f"FROM issue i WHERE ({query.where}) AND {visible} ORDER BY {query.order}", (*query.parameters, actor)


def found_issues(app: LiveApp, jql: str, fields: Fields, start_at: int, limit: int) -> Json:
    """A page of what a query finds, as the server returns it."""
    sql, values = search_issues(app, jql)
    limit = max(0, min(limit, _MOST))
    total = app.value(f"SELECT count(*) {sql}", *values)
    rows = app.rows(f"SELECT i.* {sql} LIMIT {int(limit)} OFFSET {max(0, int(start_at))}", *values)
    return {
        "total": total,
        "start_at": start_at,
        "max_results": limit,
        "issues": [issue_shape(app, row, fields, comments=10) for row in rows],
    }


@jira_tool
def _get_issue(
    app: LiveApp,
    *,
    issue_key: str,
    fields: str | None = USUAL_FIELDS,
    expand: str | None = None,
    comment_limit: int | None = 10,
    properties: str | None = None,
    update_history: bool = True,
    include: str | None = None,
    use_display_names: bool = False,
) -> Json:
    _ = (properties, update_history)
    row = find_issue(app, issue_key)
    sections = set(split_names(include))
    sections |= _SECTIONS if "all" in sections else set()
    wanted = wanted_fields(fields)
    if wanted is not None and "comments" in sections:
        wanted |= {"comment"}
    found = issue_shape(app, row, wanted, comments=comment_limit or 0)
    if use_display_names:
        named = {name: value for name, value in found.items() if name.startswith("customfield_")}
        found = {name: value for name, value in found.items() if name not in named}
        found |= {value["name"]: {"value": value["value"], "field_id": name} for name, value in named.items()}
    if "changelog" in sections or "changelog" in split_names(expand):
        found["changelogs"] = change_shapes(app, issue_key)
    if "transitions" in sections:
        found["transitions"] = open_transitions(app, row)
    if "watchers" in sections:
        found["watchers"] = _get_issue_watchers(app, issue_key=issue_key)
    if "worklogs" in sections:
        found["worklogs"] = _get_worklog(app, issue_key=issue_key)["worklogs"]
    if "comments" in sections:
        found.setdefault("comments", [])
    if "remote_links" in sections:
        found["remote_links"] = []
    return found


@jira_tool
def _search(
    app: LiveApp,
    *,
    jql: str,
    fields: str | None = USUAL_FIELDS,
    limit: int = 10,
    start_at: int = 0,
    projects_filter: str | None = None,
    expand: str | None = None,
    page_token: str | None = None,
    use_display_names: bool = False,
) -> Json:
    _ = (expand, use_display_names)
    if page_token:
        if not page_token.isdecimal() or len(page_token) > 9:
            raise ToolError("Error searching issues: the page token is not valid.")
        start_at = int(page_token)
    if projects_filter:
        keys = ", ".join(f'"{key}"' for key in split_names(projects_filter.replace('"', "")))
        condition, _, order = _split_order(jql)
        jql = f"({condition}) AND project IN ({keys}) {order}" if condition.strip() else f"project IN ({keys}) {order}"
    found = found_issues(app, jql, wanted_fields(fields), start_at, limit)
    seen = start_at + len(found["issues"])
    return found | ({"next_page_token": str(seen)} if seen < found["total"] else {})


def _split_order(jql: str) -> tuple[str, str, str]:
    place = jql.lower().rfind("order by")
    return (jql, "", "") if place < 0 else (jql[:place], " ", jql[place:])


@jira_tool
def _get_project_issues(app: LiveApp, *, project_key: str, limit: int = 10, start_at: int = 0) -> Json:
    find_project(app, project_key)
    return found_issues(app, f'project = "{project_key}" ORDER BY created DESC', wanted_fields(USUAL_FIELDS), start_at, limit)


@jira_tool
def _search_fields(app: LiveApp, *, keyword: str = "", limit: int = 10, refresh: bool = False) -> list[Json]:
    _ = refresh
    custom = [{"id": row["id"], "name": row["name"], "custom": True} for row in app.rows("SELECT * FROM field ORDER BY id")]
    named = [each for each in [*ISSUE_FIELDS.values(), *custom] if keyword.lower() in f"{each['id']} {each['name']}".lower()]
    return named[: max(0, limit)]


def open_transitions(app: LiveApp, issue: Json) -> list[Json]:
    """The steps of the workflow that are open to an issue, in the order of their numbers."""
    own = app.value("SELECT count(*) FROM transition WHERE project = ?", issue["project"])
    rows = app.rows(
        "SELECT * FROM transition WHERE project = ? AND from_status IN ('', ?) ORDER BY CAST(id AS INTEGER)",
        issue["project"] if own else "",
        issue["status"],
    )
    return [{"id": row["id"], "name": row["name"], "to_status": row["to_status"]} for row in rows]


@jira_tool
def _get_transitions(app: LiveApp, *, issue_key: str) -> list[Json]:
    return open_transitions(app, find_issue(app, issue_key))


@jira_tool
def _get_worklog(app: LiveApp, *, issue_key: str) -> Json:
    find_issue(app, issue_key)
    rows = app.rows(
        "SELECT w.*, p.display_name FROM worklog w LEFT JOIN person p ON p.account_id = w.author WHERE issue = ? ORDER BY w.id",
        issue_key,
    )
    return {"worklogs": [_worklog_shape(row) for row in rows]}


def _worklog_shape(row: Json) -> Json:
    times = {name: moment_shape(row[name]) for name in ("created", "updated", "started")}
    spent = {"time_spent": row["time_spent"], "time_spent_seconds": row["time_spent_s"]}
    return {"id": str(row["id"]), "comment": row["comment"], **times, **spent, "author": row["display_name"] or "Unknown"}


@jira_tool
def _batch_get_changelogs(app: LiveApp, *, issue_ids_or_keys: str, fields: str | None = None, limit: int = -1) -> list[Json]:
    found: list[Json] = []
    for key in split_names(issue_ids_or_keys):
        row = find_issue(app, key)
        changes = change_shapes(app, key, split_names(fields))
        found.append({"issue_id": str(row["id"]), "changelogs": changes if limit < 0 else changes[:limit]})
    return found


@jira_tool
def _get_issue_watchers(app: LiveApp, *, issue_key: str) -> Json:
    find_issue(app, issue_key)
    rows = app.rows("SELECT account_id FROM watcher WHERE issue = ? ORDER BY rowid", issue_key)
    ids = [row["account_id"] for row in rows]
    watchers = [person_shape(app, each) for each in ids]
    return {"issue_key": issue_key, "watcher_count": len(ids), "is_watching": actor_id(app) in ids, "watchers": watchers}


@jira_tool
def _get_user_profile(app: LiveApp, *, user_identifier: str) -> Json:
    try:
        return {"success": True, "user": person_shape(app, find_person(app, user_identifier))}
    except ToolError:
        return {"success": False, "error": f"User '{user_identifier[:80]}' not found.", "user_identifier": user_identifier[:80]}


@jira_tool
def _search_assignable_users(
    app: LiveApp, *, query: str, project_key: str | None = None, issue_key: str | None = None, limit: int = 20
) -> Json:
    if bool(project_key) == bool(issue_key):
        return {"success": False, "error": "Exactly one of project_key or issue_key must be provided.", "query": query[:200]}
    _ = find_project(app, project_key) if project_key else find_issue(app, issue_key or "")
    rows = app.rows(
        "SELECT account_id FROM person WHERE active AND (instr(lower(display_name), lower(?1)) OR instr(lower(email), lower(?1)))"
        " ORDER BY display_name LIMIT ?2",
        query,
        max(0, min(limit, _MOST)),
    )
    return {"success": True, "count": len(rows), "users": [person_shape(app, row["account_id"]) for row in rows]}


@jira_tool
def _get_link_types(app: LiveApp, *, name_filter: str | None = None) -> list[Json]:
    rows = app.rows("SELECT id, name, inward, outward FROM link_type ORDER BY id")
    return [row for row in rows if not name_filter or name_filter.lower() in row["name"].lower()]


@jira_tool
def _get_all_projects(app: LiveApp, *, include_archived: bool = False) -> list[Json]:
    return [_project_shape(app, row) for row in visible_projects(app) if include_archived or not row["archived"]]


@jira_tool
def _search_projects(app: LiveApp, *, query: str, max_results: int = 20, current_project_ids: str | None = None) -> list[Json]:
    known = set(split_names(current_project_ids))
    rows = [
        row for row in visible_projects(app) if query.lower() in f"{row['key']} {row['name']}".lower() and row["id"] not in known
    ]
    return [_project_shape(app, row) for row in rows[: max(0, max_results)]]


def _project_shape(app: LiveApp, row: Json) -> Json:
    shown: Json = {
        "id": row["id"],
        "key": row["key"],
        "name": row["name"],
        "projectTypeKey": "software",
        "archived": bool(row["archived"]),
    }
    optional: Json = {"description": row["description"], "lead": person_shape(app, row["lead"]), "category": row["category"]}
    return shown | {name: value for name, value in optional.items() if value}


@jira_tool
def _get_project_issue_types(app: LiveApp, *, project_key: str) -> list[Json]:
    find_project(app, project_key)
    return [row | {"subtask": bool(row["subtask"])} for row in app.rows("SELECT * FROM issue_type ORDER BY id")]


@jira_tool
def _get_project_versions(app: LiveApp, *, project_key: str) -> list[Json]:
    find_project(app, project_key)
    return [version_shape(row) for row in app.rows("SELECT * FROM version WHERE project = ? ORDER BY rowid", project_key)]


@jira_tool
def _get_project_components(app: LiveApp, *, project_key: str) -> list[Json]:
    find_project(app, project_key)
    rows = app.rows("SELECT * FROM component WHERE project = ? ORDER BY rowid", project_key)
    return [
        {"id": row["id"], "name": row["name"], "lead": person_shape(app, row["lead"]), "project": project_key} for row in rows
    ]


@jira_tool
def _get_agile_boards(
    app: LiveApp,
    *,
    board_name: str | None = None,
    project_key: str | None = None,
    board_type: str | None = None,
    start_at: int = 0,
    limit: int = 10,
) -> list[Json]:
    seen = {row["key"] for row in visible_projects(app)}
    rows = [
        row
        for row in app.rows("SELECT * FROM board ORDER BY id")
        if row["project"] in seen
        and (not board_name or board_name.lower() in row["name"].lower())
        and project_key in {None, "", row["project"]}
        and board_type in {None, "", row["type"]}
    ]
    page = rows[max(0, start_at) : max(0, start_at) + max(0, limit)]
    return [{"id": str(row["id"]), "name": row["name"], "type": row["type"]} for row in page]


def find_board(app: LiveApp, board_id: str) -> Json:
    """A board by its id; `ToolError` if there is none that the actor may read."""
    row = app.one("SELECT * FROM board WHERE CAST(id AS TEXT) = ?", board_id)
    if row is None:
        raise ToolError(
            "The requested board cannot be viewed because it either does not exist or you do not have permission to view it:"
            f" {board_id[:40]}"
        )
    find_project(app, row["project"])
    return row


@jira_tool
def _get_board_issues(
    app: LiveApp,
    *,
    board_id: str,
    jql: str,
    fields: str | None = USUAL_FIELDS,
    start_at: int = 0,
    limit: int = 10,
    expand: str | None = "version",
) -> Json:
    _ = expand
    condition, _, order = _split_order(jql)
    project = f'project = "{find_board(app, board_id)["project"]}"'
    whole = f"{project} AND ({condition}) {order}" if condition.strip() else f"{project} {order}"
    return found_issues(app, whole, wanted_fields(fields), start_at, limit)


@jira_tool
def _get_sprints_from_board(
    app: LiveApp, *, board_id: str, state: str | None = None, start_at: int = 0, limit: int = 10
) -> list[Json]:
    find_board(app, board_id)
    rows = app.rows("SELECT * FROM sprint WHERE CAST(board_id AS TEXT) = ? ORDER BY id", board_id)
    wanted = split_names(state)
    rows = [row for row in rows if not wanted or row["state"] in wanted]
    return [sprint_shape(row) for row in rows[max(0, start_at) : max(0, start_at) + max(0, limit)]]


@jira_tool
def _get_sprint_issues(
    app: LiveApp, *, sprint_id: str, fields: str | None = USUAL_FIELDS, start_at: int = 0, limit: int = 10
) -> Json:
    if not sprint_id.isdecimal() or len(sprint_id) > 15:
        raise ToolError(f"Invalid sprint_id {sprint_id[:40]!r}: must be an integer")
    return found_issues(app, f"sprint = {sprint_id}", wanted_fields(fields), start_at, limit)
