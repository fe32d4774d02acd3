"""Seed data for the tickets app: plain records, or the CSV file that Jira exports.

`load_tickets` takes people, projects and issues as dicts; people are named by their mail address everywhere. It writes rows, so a
setup with ten thousand issues takes a second. Nothing is guessed: an unknown name is a `ConfigError`.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sandlot.apps.atlassian import account_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

_LISTS = {"labels": ("issue_label", "label"), "components": ("issue_component", "component")}
_TIMES = ("%d/%b/%y %I:%M %p", "%d/%b/%Y %I:%M %p", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")
_COLUMNS = {
    "issue key": "key",
    "summary": "summary",
    "issue type": "type",
    "status": "status",
    "priority": "priority",
    "resolution": "resolution",
    "assignee": "assignee",
    "reporter": "reporter",
    "description": "description",
    "parent key": "parent",
    "created": "created",
    "updated": "updated",
    "resolved": "resolved",
    "due date": "duedate",
    "sprint": "sprint",
    "custom field (story points)": "story_points",
}
_REPEATED = {
    "labels": "labels",
    "components": "components",
    "component/s": "components",
    "fix versions": "fix_versions",
    "fix version/s": "fix_versions",
    "affects versions": "versions",
}


def load_tickets(app: LiveApp, seed: Mapping[str, Iterable[Json]]) -> None:
    """Fill the app: `people`, `projects`, `issues`, each a list of dicts.

    - people: `display_name`, `email`, optional `account_id`, `active`.
    - projects: `key`, `name`, optional `description`, `lead`, `category`; `permissions` (`{"ada@example.com": "write", "*":
      "read"}`);
      `components` (names), `versions` (dicts with `name`), `boards` (dicts with `name`, `sprints`), `transitions` (dicts with
      `id`,
      `name`, `from_status`, `to_status`, `needs`).
    - issues: `key`, `summary`, optional `type`, `description`, `status`, `resolution`, `priority`, `assignee`, `reporter`,
      `parent`,
      `duedate`, `created`, `updated`, `resolved`, `labels`, `components`, `fix_versions`, `versions`, `sprint` (a name),
      `story_points`,
      `fields` (custom fields by name), `comments` (dicts with `author`, `body`, `created`), `links` (dicts with `type` and `to`),
      `watchers`, `changes` (dicts with `author`, `created`, `field`, `before`, `after`).
    """
    for person in seed.get("people", ()):
        account = person.get("account_id") or account_of(person["email"])
        values = {"display_name": person["display_name"], "email": person["email"], "active": int(person.get("active", True))}
        app.insert("person", account_id=account, **values)
    for project in seed.get("projects", ()):
        _load_project(app, project)
    for issue in seed.get("issues", ()):
        _load_issue(app, issue)


def _account(app: LiveApp, email: str | None) -> str | None:
    if not email:
        return None
    found = app.value(
        "SELECT account_id FROM person WHERE email = ?1 COLLATE NOCASE OR account_id = ?1 OR display_name = ?1", email
    )
    if found is None:
        raise ConfigError(f"tickets: no person `{email}`; list everyone under `people`")
    return str(found)


def _load_project(app: LiveApp, project: Json) -> None:
    key = project["key"]
    named = {name: project.get(name) for name in ("category",)} | {"description": project.get("description", "")}
    number = str(10_000 + app.new_number())
    app.insert("project", key=key, id=number, name=project["name"], lead=_account(app, project.get("lead")), **named)
    for who, level in project.get("permissions", {}).items():
        if level not in {"read", "write", "admin"}:
            raise ConfigError(f"tickets: project {key} gives {who} the level `{level}`; use read, write or admin")
        app.insert("permission", project=key, account_id="*" if who == "*" else _account(app, who), level=level)
    for name in project.get("components", ()):
        app.insert(
            "component", id=str(10_000 + app.new_number()), project=key, name=name, lead=_account(app, project.get("lead"))
        )
    for version in project.get("versions", ()):
        flags = {name: int(version.get(name, False)) for name in ("released", "archived")}
        texts = {name: version.get(name) for name in ("description", "start_date", "release_date")}
        app.insert("version", id=str(10_000 + app.new_number()), project=key, name=version["name"], **flags, **texts)
    for board in project.get("boards", ()):
        row = app.insert("board", name=board["name"], type=board.get("type", "scrum"), project=key)
        for sprint in board.get("sprints", ()):
            texts = {name: sprint.get(name) for name in ("start_date", "end_date")}
            app.insert(
                "sprint",
                board_id=row,
                name=sprint["name"],
                state=sprint.get("state", "future"),
                goal=sprint.get("goal", ""),
                **texts,
            )
    for step in project.get("transitions", ()):
        for status in (step.get("from_status", ""), step["to_status"]):
            _require(app, "status", status)
        values = {name: step.get(name, "") for name in ("id", "name", "from_status", "to_status", "needs")}
        app.insert("transition", project=key, **values)


def _require(app: LiveApp, table: str, name: str | None) -> None:
    if name and app.one(f"SELECT 1 FROM {table} WHERE name = ?", name) is None:
        known = ", ".join(row["name"] for row in app.rows(f"SELECT name FROM {table}"))
        raise ConfigError(f"tickets: no {table.replace('_', ' ')} `{name}`; there are: {known}")


def _load_issue(app: LiveApp, issue: Json) -> None:
    key = issue["key"]
    project, _, number = key.rpartition("-")
    row = app.one("SELECT next_number FROM project WHERE key = ?", project)
    if row is None or not number.isdigit():
        raise ConfigError(f"tickets: issue `{key}` belongs to no project; a key is the project's key, `-` and a number")
    app.run("UPDATE project SET next_number = ? WHERE key = ?", max(row["next_number"], int(number) + 1), project)
    created = issue.get("created") or app.at
    values = {name: issue.get(name) for name in ("description", "resolution", "parent", "duedate", "resolved")}
    values |= {
        "type": issue.get("type", "Task"),
        "status": issue.get("status", "To Do"),
        "priority": issue.get("priority", "Medium"),
    }
    for table, name in (("issue_type", values["type"]), ("status", values["status"]), ("priority", values["priority"])):
        _require(app, table, name)
    people = {name: _account(app, issue.get(name)) for name in ("assignee", "reporter")}
    updated = issue.get("updated") or created
    times = {"created": created, "updated": updated}
    app.insert("issue", key=key, project=project, number=int(number), summary=issue["summary"], **values, **people, **times)
    for name, (table, column) in _LISTS.items():
        for each in issue.get(name, ()):
            app.insert(table, issue=key, **{column: each})
    for name, kind in (("fix_versions", "fix"), ("versions", "affects")):
        for each in issue.get(name, ()):
            app.insert("issue_version", issue=key, version=each, kind=kind)
    _load_around(app, issue, key, created)


def _load_around(app: LiveApp, issue: Json, key: str, created: str) -> None:
    fields: Json = dict(issue.get("fields", {}))
    if issue.get("story_points") is not None:
        fields["Story Points"] = issue["story_points"]
    for name, value in fields.items():
        field = app.value("SELECT id FROM field WHERE name = ?1 OR id = ?1", name)
        if field is None:
            field = f"customfield_{10_100 + app.new_number()}"
            app.insert("field", id=field, name=name, type="number" if isinstance(value, int | float) else "string")
        app.insert("issue_field", issue=key, field=field, value=str(value))
    if issue.get("sprint"):
        sprint = app.value("SELECT id FROM sprint WHERE name = ?", issue["sprint"])
        if sprint is None:
            raise ConfigError(f"tickets: issue {key} is in the sprint `{issue['sprint']}`, which no board has")
        app.insert("issue_sprint", issue=key, sprint_id=sprint)
    for comment in issue.get("comments", ()):
        at = comment.get("created") or created
        app.insert(
            "comment", issue=key, author=_account(app, comment.get("author")), body=comment["body"], created=at, updated=at
        )
    for link in issue.get("links", ()):
        _require(app, "link_type", link["type"])
        app.insert("issue_link", type=link["type"], inward=key, outward=link["to"])
    for watcher in issue.get("watchers", ()):
        app.insert("watcher", issue=key, account_id=_account(app, watcher))
    for change in issue.get("changes", ()):
        texts = {name: change.get(name) for name in ("field", "before", "after")}
        app.insert(
            "change", issue=key, author=_account(app, change.get("author")), created=change.get("created") or created, **texts
        )


def read_jira_csv(text: str) -> list[Json]:
    """The issues of a CSV file that Jira exported, as `load_tickets` takes them; `ConfigError` if it is none."""
    rows = csv.reader(io.StringIO(text))
    header = [name.strip().lower() for name in next(rows, list[str]())]
    if "issue key" not in header or "summary" not in header:
        raise ConfigError(
            f"this is not an export of Jira: it needs the columns `Issue key` and `Summary`; found {', '.join(header)[:200]}"
        )
    return [_csv_issue(header, row) for row in rows if any(row)]


def _csv_issue(header: list[str], row: list[str]) -> Json:
    issue: Json = {}
    for name, value in zip(header, row, strict=False):
        if not value.strip():
            continue
        if name in _REPEATED:
            issue.setdefault(_REPEATED[name], []).append(value.strip())
        elif name == "comment":
            at, author, body = [*value.split(";", 2), "", ""][:3]
            issue.setdefault("comments", []).append({"created": _csv_time(at), "author": author, "body": body})
        elif name in _COLUMNS:
            issue[_COLUMNS[name]] = value if name == "description" else value.strip()
    for name in ("created", "updated", "resolved"):
        if name in issue:
            issue[name] = _csv_time(issue[name])
    if "duedate" in issue:
        issue["duedate"] = _csv_time(issue["duedate"])[:10]
    return issue


def _csv_time(text: str) -> str:
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            continue
    try:
        found: Any = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"`{text[:40]}` is not a time as Jira exports it, such as `05/Jan/26 9:00 AM`") from error
    return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
