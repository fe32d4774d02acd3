"""The tickets app: its declaration, and what all of its tools share, who may see and change what."""

from sandlot.apps.app import App
from sandlot.apps.atlassian import atlassian_tools, pydantic_text
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.apps.tickets.tables import SCHEMA
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

TICKETS = App("tickets", schema=SCHEMA, server=RecordedServer.read("jira"), word_issues=pydantic_text)
"""Issues in projects, as in Jira."""
jira_tool = atlassian_tools(TICKETS, "jira")
_LEVELS = ("read", "write", "admin")
MAX_TEXT = 32_767
"""Characters of a description or a comment, as in Jira."""


def actor_id(app: LiveApp) -> str | None:
    """The account of the one who acts; None without an identity."""
    return app.value("SELECT account_id FROM person WHERE email = ? COLLATE NOCASE OR account_id = ?", app.actor, app.actor)


def level_in(app: LiveApp, project: str) -> int:
    """What the actor may do in a project: 0 nothing, 1 read, 2 write, 3 admin. Without an identity, everything."""
    if not app.actor:
        return 3
    rows = app.rows("SELECT account_id, level FROM permission WHERE project = ?", project)
    mine = [_LEVELS.index(row["level"]) + 1 for row in rows if row["account_id"] in {"*", actor_id(app)}]
    return max(mine, default=0) if rows else 2


def visible_projects(app: LiveApp) -> list[Json]:
    """The projects that the actor may read."""
    rows = app.rows("SELECT * FROM project ORDER BY key")
    return [row for row in rows if level_in(app, row["key"])]


def find_project(app: LiveApp, key: str) -> Json:
    """A project by its key; `ToolError` if there is none that the actor may read."""
    row = app.one("SELECT * FROM project WHERE key = ?", key)
    if row is None or not level_in(app, key):
        raise ToolError(f"No project could be found with key '{key[:60]}'.")
    return row


def find_issue(app: LiveApp, key: str, *, write: bool = False) -> Json:
    """An issue by its key; `ToolError` if there is none that the actor may read, or change."""
    row = app.one("SELECT * FROM issue WHERE key = ?", key)
    if row is None or not level_in(app, row["project"]):
        raise ToolError(f"Issue {key[:60]} not found. Verify the issue key and project access.")
    if write:
        require_write(app, row["project"])
    return row


def require_write(app: LiveApp, project: str, *, admin: bool = False) -> None:
    """`ToolError` if the actor may not change the issues of a project."""
    if level_in(app, project) < (3 if admin else 2):
        what = "administer" if admin else "edit issues in"
        raise ToolError(f"You do not have permission to {what} the project '{project}'.")


def find_person(app: LiveApp, identifier: str) -> str:
    """The account that an email, a display name or an account id names; `ToolError` if there is none, or more than one."""
    said = identifier.strip().removeprefix("accountid:")
    rows = app.rows(
        "SELECT account_id FROM person WHERE active"
        " AND (account_id = ?1 OR email = ?1 COLLATE NOCASE OR display_name = ?1 COLLATE NOCASE)",
        said,
    )
    if len(rows) != 1:
        why = "Could not find" if not rows else f"{len(rows)} users match"
        raise ToolError(f"{why} account ID for user: {identifier[:80]}")
    return str(rows[0]["account_id"])


def require_text(text: str) -> str:
    """A description or comment; `ToolError` if it is too long."""
    if len(text) > MAX_TEXT:
        raise ToolError("The entered text is too long. It exceeds the allowed limit of 32,767 characters.")
    return text


def touch(app: LiveApp, key: str) -> None:
    """An issue was changed now."""
    app.run("UPDATE issue SET updated = ? WHERE key = ?", app.at, key)


def log_change(app: LiveApp, key: str, field: str, before: str | None, after: str | None) -> None:
    """Write a change into the history of an issue, if it is one."""
    if before != after:
        author = actor_id(app)
        app.insert("change", issue=key, author=author, created=app.at, field=field, before=before, after=after)
