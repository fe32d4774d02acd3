"""The pages of tickets, for agents that use a browser: projects, search, an issue with its comments, forms. No JavaScript."""

import json
from pathlib import Path
from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import Listed, PageTools, lines, page_number, words
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.apps.tickets.declared import TICKETS, find_issue, find_project, level_in, visible_projects
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_WORDS = (
    r"\A(Error calling tool '\w+': |Error (searching issues|creating issue|adding comment): "
    r"|Failed to [\w ]+ [A-Z0-9_]+-\d+: )+"
)
_TOOLS = PageTools(TICKETS, _WORDS)
_PAGE = 25
_COMMENTS = 100
_SECTIONS = "changelog,transitions,watchers,worklogs"
_BOARD = 50


def _page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    return render(_HERE, template, actor=app.actor, projects=visible_projects(app), **values)


_FIELDS: Json = {
    **dict.fromkeys(("priority", "resolution", "parent", "reporter", "duedate", "timetracking", "description")),
    **{name: [] for name in ("labels", "components", "fix_versions", "subtasks")},
    **{name: [] for name in ("issuelinks", "comments", "changelogs", "worklogs")},
    "assignee": {"display_name": "Unassigned"},
}
"""What the server leaves out of an issue if it is empty."""


def _found(app: LiveApp, jql: str, limit: int, start_at: int = 0) -> Json:
    """What a search finds, with empty fields."""
    found = _TOOLS.do(app, "jira_search", jql=jql, limit=limit, start_at=start_at)
    return {**found, "issues": [_FIELDS | each for each in found["issues"]]}


def _people(app: LiveApp) -> list[tuple[str, str]]:
    rows = app.rows("SELECT email, display_name FROM person WHERE active ORDER BY display_name, email")
    return [(row["email"], row["display_name"]) for row in rows]


def _names(app: LiveApp, table: str, order: str = "id") -> list[tuple[str, str]]:
    return [(row["name"], row["name"]) for row in app.rows(f"SELECT name FROM {table} ORDER BY {order}")]


def _quoted(text: str) -> str:
    """A text as JQL takes it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


# -- lists --------------------------------------------------------------------------------------------------------------


@TICKETS.page("GET", "/")
def _home(app: LiveApp, _request: PageRequest) -> PageResponse:
    mine = _found(app, "assignee = currentUser() AND statusCategory != Done ORDER BY updated DESC", 20)
    recent = _found(app, "ORDER BY updated DESC", 10)
    return _page(app, "home.html", mine=mine, recent=recent)


def _conditions(request: PageRequest) -> str:
    """The filters of the form as JQL."""
    given = request.query
    parts = [f"{field} = {_quoted(given[field])}" for field in ("project", "status", "type", "priority") if given.get(field)]
    if given.get("assignee"):
        parts.append("assignee is EMPTY" if given["assignee"] == "none" else f"assignee = {_quoted(given['assignee'])}")
    if given.get("text", "").strip():
        parts.append(f"text ~ {_quoted(given['text'])}")
    return f"{' AND '.join(parts)} ORDER BY updated DESC".strip()


@TICKETS.page("GET", "/issues")
def _issues(app: LiveApp, request: PageRequest) -> PageResponse:
    jql = request.query.get("jql", "").strip() or _conditions(request)
    page = page_number(request)
    found = _found(app, jql, _PAGE, (page - 1) * _PAGE)
    kept = Listed(found["issues"], page, page * _PAGE < found["total"])
    filters = {name: request.query.get(name, "") for name in ("text", "project", "status", "type", "priority", "assignee")}
    return _page(
        app,
        "issues.html",
        jql=jql,
        found=kept,
        total=found["total"],
        filters=filters,
        people=_people(app),
        statuses=_names(app, "status"),
        types=_names(app, "issue_type"),
        priorities=_names(app, "priority", "rank"),
    )


@TICKETS.page("GET", "/project/{key}")
def _project(app: LiveApp, _request: PageRequest, key: str) -> PageResponse:
    project = find_project(app, key)
    columns: list[tuple[str, Json]] = []
    for row in app.rows("SELECT name FROM status ORDER BY id"):
        jql = f"project = {_quoted(key)} AND status = {_quoted(row['name'])} ORDER BY updated DESC"
        found = _found(app, jql, _BOARD)
        if found["total"]:
            columns.append((row["name"], found))
    versions = _TOOLS.do(app, "jira_get_project_versions", project_key=key)
    components = _TOOLS.do(app, "jira_get_project_components", project_key=key)
    return _page(app, "project.html", project=project, columns=columns, versions=versions, components=components)


# -- one issue ----------------------------------------------------------------------------------------------------------


@TICKETS.page("GET", "/browse/{key}")
def _issue(app: LiveApp, _request: PageRequest, key: str) -> PageResponse:
    shown = _FIELDS | _TOOLS.do(
        app,
        "jira_get_issue",
        issue_key=key,
        fields="*all",
        comment_limit=_COMMENTS,
        include=_SECTIONS,
    )
    row = find_issue(app, key)
    return _page(
        app,
        "issue.html",
        issue=shown,
        may_write=level_in(app, row["project"]) > 1,
        people=_people(app),
        resolutions=_names(app, "resolution"),
        link_types=_TOOLS.do(app, "jira_get_link_types"),
        own=[each["id"] for each in shown["comments"] if each["author"] and each["author"]["email"] == app.actor],
    )


def _choices(app: LiveApp, project: str) -> Json:
    """What the form of an issue offers."""
    named = {
        table: [(row["name"], row["name"]) for row in app.rows(f"SELECT name FROM {table} WHERE project = ?", project)]
        for table in ("component", "version")
    }
    return {
        "people": _people(app),
        "types": _names(app, "issue_type"),
        "priorities": _names(app, "priority", "rank"),
        "components": named["component"],
        "versions": named["version"],
    }


_EMPTY = {
    "summary": "",
    "type": "Task",
    "priority": "Medium",
    "assignee": "",
    "description": "",
    "labels": "",
    "component": "",
    "version": "",
    "duedate": "",
    "parent": "",
}


@TICKETS.page("GET", "/create")
def _create_form(app: LiveApp, request: PageRequest) -> PageResponse:
    open_to = [row for row in visible_projects(app) if level_in(app, row["key"]) > 1]
    project = request.query.get("project") or (open_to[0]["key"] if open_to else "")
    values = {**_EMPTY, "parent": request.query.get("parent", "")}
    return _page(app, "edit.html", key="", project=project, open_to=open_to, values=values, **_choices(app, project))


def _fields(request: PageRequest) -> Json:
    """The fields of the form by Jira's names; an empty one clears the field."""
    form = request.form
    single = {name: form.get(name) or None for name in ("assignee", "duedate", "parent")}
    lists = {"labels": words(form.get("labels", "").replace(" ", ",")), "components": words(form.get("component", ""))}
    return {**single, **lists, "fixVersions": words(form.get("version", "")), "priority": form.get("priority", "Medium")}


@TICKETS.page("POST", "/create")
def _create(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    fields = {name: value for name, value in _fields(request).items() if value}
    made = _TOOLS.do(
        app,
        "jira_create_issue",
        project_key=form.get("project", ""),
        summary=form.get("summary", ""),
        issue_type=form.get("type", ""),
        description=lines(request, "description") or None,
        additional_fields=json.dumps(fields),
    )
    return PageResponse.redirect(f"/browse/{made['issue']['key']}")


@TICKETS.page("GET", "/browse/{key}/edit")
def _edit_form(app: LiveApp, _request: PageRequest, key: str) -> PageResponse:
    shown = _FIELDS | _TOOLS.do(app, "jira_get_issue", issue_key=key, fields="*all")
    row = find_issue(app, key, write=True)
    values = {
        "summary": row["summary"],
        "type": row["type"],
        "priority": row["priority"],
        "assignee": shown["assignee"].get("email", ""),
        "description": row["description"],
        "labels": " ".join(shown["labels"]),
        "component": ", ".join(shown["components"]),
        "version": ", ".join(shown["fix_versions"]),
        "duedate": row["duedate"],
        "parent": row["parent"],
    }
    return _page(app, "edit.html", key=key, project=row["project"], open_to=[], values=values, **_choices(app, row["project"]))


@TICKETS.page("POST", "/browse/{key}/edit")
def _edit(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    """Only what differs from the stored issue is written, so that nothing else gets into its history."""
    shown, row = _FIELDS | _TOOLS.do(app, "jira_get_issue", issue_key=key, fields="*all"), find_issue(app, key)
    now = {
        "assignee": shown["assignee"].get("email"),
        "labels": sorted(shown["labels"]),
        "components": sorted(shown["components"]),
        "fixVersions": sorted(shown["fix_versions"]),
        "description": row["description"] or "",
        **{name: row[name] for name in ("summary", "priority", "duedate", "parent")},
    }
    given: Json = {**_fields(request), "summary": request.form.get("summary", ""), "description": lines(request, "description")}
    lists = ("labels", "components", "fixVersions")
    changed = {name: value for name, value in given.items() if (sorted(value) if name in lists else value) != now[name]}
    if changed:
        _TOOLS.do(app, "jira_update_issue", issue_key=key, fields=json.dumps(changed))
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/comment")
def _comment(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    _TOOLS.do(app, "jira_add_comment", issue_key=key, body=lines(request, "body"))
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/comment/{number}")
def _edit_comment(app: LiveApp, request: PageRequest, key: str, number: str) -> PageResponse:
    _TOOLS.do(app, "jira_edit_comment", issue_key=key, comment_id=number, body=lines(request, "body"))
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/transition")
def _transition(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    form = request.form
    fields = {"resolution": form["resolution"]} if form.get("resolution") else {}
    _TOOLS.do(
        app,
        "jira_transition_issue",
        issue_key=key,
        transition_id=form.get("transition", ""),
        fields=json.dumps(fields),
        comment=lines(request, "comment") or None,
    )
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/assign")
def _assign(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    _TOOLS.do(app, "jira_assign_issue", issue_key=key, assignee=request.form.get("assignee") or None)
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/link")
def _link(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    kind, _, side = request.form.get("kind", "").partition("/")
    other = request.form.get("other", "").strip()
    ends = (key, other) if side == "outward" else (other, key)
    _TOOLS.do(app, "jira_create_issue_link", link_type=kind, inward_issue_key=ends[0], outward_issue_key=ends[1])
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/unlink")
def _unlink(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    _TOOLS.do(app, "jira_remove_issue_link", link_id=request.form.get("link", ""))
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/work")
def _work(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    spent, note = request.form.get("spent", ""), request.form.get("note", "")
    _TOOLS.do(app, "jira_add_worklog", issue_key=key, time_spent=spent, comment=note or None)
    return PageResponse.redirect(f"/browse/{key}")


@TICKETS.page("POST", "/browse/{key}/watch")
def _watch(app: LiveApp, request: PageRequest, key: str) -> PageResponse:
    if request.form.get("act") == "stop":
        _TOOLS.do(app, "jira_remove_watcher", issue_key=key, username=app.actor)
    else:
        _TOOLS.do(app, "jira_add_watcher", issue_key=key, user_identifier=app.actor)
    return PageResponse.redirect(f"/browse/{key}")
