"""The tools that create and change issues, and the events by which colleagues do."""

import json
import re
from typing import Any, cast

from sandlot.apps.atlassian import read_object
from sandlot.apps.clock import time_text
from sandlot.apps.colleague import SentMessage
from sandlot.apps.live import LiveApp
from sandlot.apps.moments import parse_moment, parse_worked
from sandlot.apps.tickets.declared import (
    TICKETS,
    actor_id,
    find_issue,
    find_person,
    find_project,
    jira_tool,
    log_change,
    require_text,
    require_write,
    touch,
)
from sandlot.apps.tickets.fields import set_fields, set_resolution, set_summary
from sandlot.apps.tickets.reading import open_transitions
from sandlot.apps.tickets.shapes import issue_shape, moment_shape, split_names, wanted_fields
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_MAX_BATCH = 50


def create(app: LiveApp, project_key: str, summary: str, issue_type: str, fields: Json) -> str:
    """Create an issue and return its key; `ToolError` if a field is wrong."""
    project = find_project(app, project_key)
    require_write(app, project_key)
    wanted = "Subtask" if issue_type.lower() in {"sub-task", "subtask"} else issue_type
    kind = app.one("SELECT * FROM issue_type WHERE name = ? COLLATE NOCASE", wanted)
    if kind is None:
        known = ", ".join(row["name"] for row in app.rows("SELECT name FROM issue_type ORDER BY id"))
        raise ToolError(f"Error creating issue: Specify a valid issue type; '{issue_type[:40]}' is not one of: {known}")
    if kind["subtask"] and not fields.get("parent"):
        raise ToolError(
            "Issue type is a sub-task but parent issue key or id not specified."
            " Please provide a 'parent' parameter with the parent issue key."
        )
    number = project["next_number"]
    key = f"{project_key}-{number}"
    app.run("UPDATE project SET next_number = ? WHERE key = ?", number + 1, project_key)
    first = app.value("SELECT name FROM status WHERE category = 'To Do' ORDER BY id LIMIT 1")
    app.insert(
        "issue",
        key=key,
        project=project_key,
        number=number,
        type=kind["name"],
        summary="-",
        status=first,
        priority="Medium",
        reporter=actor_id(app),
        created=app.at,
        updated=app.at,
    )
    set_summary(app, find_issue(app, key), summary)
    set_fields(app, key, {name: value for name, value in fields.items() if value is not None})
    app.run("DELETE FROM change WHERE issue = ?", key)  # creation is not a change
    if actor_id(app):
        app.insert("watcher", issue=key, account_id=actor_id(app))
    return key


def _shape(app: LiveApp, key: str) -> Json:
    return issue_shape(app, find_issue(app, key), None, comments=10)


@jira_tool
def _create_issue(
    app: LiveApp,
    *,
    project_key: str,
    summary: str,
    issue_type: str,
    assignee: str | None = None,
    description: str | None = None,
    components: str | None = None,
    additional_fields: str | None = None,
) -> Json:
    if not summary.strip():
        raise ToolError("Summary is required to create an issue. Provide a non-empty summary.")
    if not issue_type.strip():
        raise ToolError("Issue type is required to create an issue. Provide issue_type like 'Task', 'Story', or 'Bug'.")
    given: Json = {"assignee": assignee or None, "description": description, "components": split_names(components) or None}
    key = create(app, project_key, summary, issue_type, given | read_object(additional_fields))
    return {"message": "Issue created successfully", "issue": _shape(app, key)}


@jira_tool
def _batch_create_issues(app: LiveApp, *, issues: str, validate_only: bool = False) -> Json:
    try:
        given: Any = json.loads(issues)
    except (ValueError, RecursionError) as error:
        raise ToolError("Invalid JSON in issues") from error
    if not isinstance(given, list) or len(cast("list[Any]", given)) > _MAX_BATCH:
        raise ToolError(
            f"Invalid input for issues: Input 'issues' must be a JSON array string with at most {_MAX_BATCH} entries."
        )
    keys: list[str] = []
    for each in cast("list[Any]", given):
        entry = cast("Json", each) if isinstance(each, dict) else {}
        entry = {name: value for name, value in entry.items() if value is not None}
        needed: list[Any] = [entry.pop(name, None) for name in ("project_key", "summary", "issue_type")]
        if not all(isinstance(part, str) and part for part in needed):
            raise ToolError(
                f"Missing required fields for issue: project_key={needed[0]!r}, summary={needed[1]!r}, issue_type={needed[2]!r}"
            )
        if validate_only:
            find_project(app, needed[0])
        else:
            keys.append(create(app, needed[0], needed[1], needed[2], entry))
    message = "Issues validated successfully" if validate_only else "Issues created successfully"
    return {"message": message, "issues": [_shape(app, key) for key in keys]}


@jira_tool
def _update_issue(
    app: LiveApp,
    *,
    issue_key: str,
    fields: str,
    additional_fields: str | None = None,
    components: str | None = None,
    attachments: str | None = None,
    return_fields: str | None = "*all",
) -> Json:
    if attachments:
        raise ToolError("Attachments cannot be uploaded from here.")
    updates = read_object(fields) | read_object(additional_fields)
    if components:
        updates["components"] = split_names(components)
    try:
        issue = find_issue(app, issue_key, write=True)
        status = updates.pop("status", None)
        set_fields(app, issue_key, updates)
        if status is not None:
            _move_to(app, issue, str(cast("Json", status).get("name") if isinstance(status, dict) else status))
    except ToolError as error:
        raise ToolError(f"Failed to update issue {issue_key}: {error}") from error
    shown = issue_shape(app, find_issue(app, issue_key), wanted_fields(return_fields), comments=10)
    return {"message": "Issue updated successfully", "issue": shown}


def _move_to(app: LiveApp, issue: Json, status: str) -> None:
    steps = open_transitions(app, issue)
    chosen = [step for step in steps if step["to_status"].lower() == status.lower()]
    if not chosen:
        known = ", ".join(f"{step['to_status']} (id: {step['id']})" for step in steps)
        raise ToolError(f"Could not find transition to status '{status[:60]}'. Available transitions: {known}")
    take_step(app, issue["key"], chosen[0]["id"], {})


def take_step(app: LiveApp, key: str, transition_id: str, fields: Json) -> None:
    """Move an issue along the workflow; `ToolError` if the step is not open to it, or a field it needs is missing."""
    issue = find_issue(app, key, write=True)
    if transition_id not in {step["id"] for step in open_transitions(app, issue)}:
        known = ", ".join(f"{step['id']} ({step['name']})" for step in open_transitions(app, issue))
        raise ToolError(
            f"Error transitioning issue {key} with transition ID {transition_id[:20]}: It seems that you have tried"
            f" to perform a workflow operation ({transition_id[:20]}) that is not valid for the current state of this"
            f" issue. Open to it: {known}"
        )
    row = app.one(
        "SELECT * FROM transition WHERE id = ? AND project IN (?, '') AND from_status IN ('', ?) ORDER BY project DESC LIMIT 1",
        transition_id,
        issue["project"],
        issue["status"],
    )
    assert row is not None
    for needed in split_names(row["needs"]):
        if not fields.get(needed):
            raise ToolError(
                f"Error transitioning issue {key} with transition ID {transition_id}: {needed.capitalize()} is required."
            )
    set_fields(app, key, {name: value for name, value in fields.items() if name != "resolution"})
    app.run("UPDATE issue SET status = ? WHERE key = ?", row["to_status"], key)
    log_change(app, key, "status", issue["status"], row["to_status"])
    done = app.value("SELECT category FROM status WHERE name = ?", row["to_status"]) == "Done"
    if done or issue["resolution"]:
        set_resolution(app, find_issue(app, key), (fields.get("resolution") or issue["resolution"] or "Done") if done else None)
    touch(app, key)


@jira_tool
def _transition_issue(
    app: LiveApp, *, issue_key: str, transition_id: str, fields: str | None = None, comment: str | None = None
) -> Json:
    take_step(app, issue_key, transition_id.strip(), read_object(fields))
    if comment:
        write_comment(app, issue_key, comment)
    shown = issue_shape(app, find_issue(app, issue_key), None, comments=10)
    return {"message": f"Issue {issue_key} transitioned successfully", "issue": shown}


@jira_tool
def _assign_issue(app: LiveApp, *, issue_key: str, assignee: str | None = None) -> Json:
    try:
        find_issue(app, issue_key, write=True)
        person = read_object(assignee, "assignee") if (assignee or "").strip().startswith("{") else assignee
        set_fields(app, issue_key, {"assignee": person or None})
    except ToolError as error:
        raise ToolError(f"Failed to assign issue {issue_key}: {error}") from error
    return {"message": f"Issue {issue_key} assigned successfully", "issue": _shape(app, issue_key)}


@jira_tool
def _delete_issue(app: LiveApp, *, issue_key: str) -> Json:
    issue = find_issue(app, issue_key)
    require_write(app, issue["project"], admin=bool(app.rows("SELECT 1 FROM permission WHERE project = ?", issue["project"])))
    if app.value("SELECT count(*) FROM issue WHERE parent = ?", issue_key):
        raise ToolError(f"Error deleting issue {issue_key}: The issue has subtasks. Delete them first.")
    for table in (
        "issue_label",
        "issue_component",
        "issue_version",
        "issue_field",
        "issue_sprint",
        "watcher",
        "comment",
        "worklog",
        "change",
    ):
        app.run(f"DELETE FROM {table} WHERE issue = ?", issue_key)
    app.run("DELETE FROM issue_link WHERE inward = ? OR outward = ?", issue_key, issue_key)
    app.run("DELETE FROM issue WHERE key = ?", issue_key)
    return {"message": f"Issue {issue_key} has been deleted successfully."}


# -- comments, links, work ----------------------------------------------------------------------------------------------


def write_comment(app: LiveApp, key: str, body: str, visibility: str | None = None, public: bool | None = None) -> Json:
    """Add a comment and tell the colleagues who are concerned; the comment as the server returns it."""
    issue = find_issue(app, key, write=True)
    if not body.strip():
        raise ToolError("Error adding comment: Comment body can not be empty!")
    author = actor_id(app)
    row = app.insert(
        "comment",
        issue=key,
        author=author,
        body=require_text(body),
        created=app.at,
        updated=app.at,
        visibility=visibility,
        public=public,
    )
    touch(app, key)
    concerned = {issue["assignee"], issue["reporter"], *_mentioned(app, body)} - {None, author}
    addressed = tuple(sorted(app.value("SELECT email FROM person WHERE account_id = ?", each) or "" for each in concerned))
    app.tell_colleagues(SentMessage(sender=app.actor, to=addressed, text=body, about={"issue": key}), "colleague_comments")
    name = app.value("SELECT display_name FROM person WHERE account_id = ?", author)
    return {"id": str(row), "body": body, "created": moment_shape(app.at), "author": name or "Unknown"}


def _mentioned(app: LiveApp, body: str) -> list[str]:
    """The accounts that a text mentions: `@Ada Byron`, `@ada@example.com`, `[~accountid:...]`."""
    people = app.rows("SELECT * FROM person")
    words = body.lower()
    return [
        each["account_id"]
        for each in people
        if f"@{each['display_name'].lower()}" in words
        or f"@{each['email'].lower()}" in words
        or f"accountid:{each['account_id'].lower()}" in words
    ]


@TICKETS.event
def colleague_comments(app: LiveApp, sender: str, text: str, about: Json) -> None:
    """A colleague answers on an issue, if it is still there."""
    if app.one("SELECT 1 FROM issue WHERE key = ?", about["issue"]):
        author = app.value("SELECT account_id FROM person WHERE email = ?", sender)
        app.insert("comment", issue=about["issue"], author=author, body=text, created=app.at, updated=app.at)
        touch(app, about["issue"])


@TICKETS.event
def issue_arrives(app: LiveApp, project_key: str, summary: str, issue_type: str, reporter: str, fields: Json) -> None:
    """Someone reports an issue."""
    create(app, project_key, summary, issue_type, {"reporter": reporter, **fields})


@TICKETS.event
def issue_changes(app: LiveApp, issue_key: str, fields: Json, status: str = "") -> None:
    """Something changes an issue: a colleague, a deadline, a monitor."""
    set_fields(app, issue_key, fields)
    if status:
        _move_to(app, find_issue(app, issue_key), status)


@jira_tool
def _add_comment(app: LiveApp, *, issue_key: str, body: str, visibility: str | None = None, public: bool | None = None) -> Json:
    if public is not None and visibility:
        raise ToolError(
            "Error adding comment: Cannot use both 'public' and 'visibility'. 'public' uses the ServiceDesk API which does not"
            " support Jira visibility restrictions."
        )
    shown = write_comment(app, issue_key, body, visibility, public)
    return shown | ({} if public is None else {"public": public})


@jira_tool
def _edit_comment(app: LiveApp, *, issue_key: str, comment_id: str, body: str, visibility: str | None = None) -> Json:
    find_issue(app, issue_key, write=True)
    row = app.one("SELECT * FROM comment WHERE issue = ? AND CAST(id AS TEXT) = ?", issue_key, comment_id)
    if row is None:
        raise ToolError(f"Error editing comment: Can not find a comment for the id: {comment_id[:40]}.")
    if app.actor and row["author"] != actor_id(app):
        raise ToolError(f"Error editing comment: You do not have the permission to edit the comment with id: {comment_id}.")
    app.run(
        "UPDATE comment SET body = ?, updated = ?, visibility = ? WHERE id = ?", require_text(body), app.at, visibility, row["id"]
    )
    touch(app, issue_key)
    name = app.value("SELECT display_name FROM person WHERE account_id = ?", row["author"])
    return {"id": comment_id, "body": body, "updated": moment_shape(app.at), "author": name or "Unknown"}


@jira_tool
def _create_issue_link(
    app: LiveApp,
    *,
    link_type: str,
    inward_issue_key: str,
    outward_issue_key: str,
    comment: str | None = None,
    comment_visibility: str | None = None,
) -> Json:
    for key in (inward_issue_key, outward_issue_key):
        find_issue(app, key, write=True)
    kind = app.one("SELECT * FROM link_type WHERE name = ?1 COLLATE NOCASE OR id = ?1", link_type)
    if kind is None:
        known = ", ".join(row["name"] for row in app.rows("SELECT name FROM link_type ORDER BY id"))
        raise ToolError(f"Error creating issue link: No issue link type with name '{link_type[:60]}' found. There are: {known}")
    if inward_issue_key == outward_issue_key:
        raise ToolError("Error creating issue link: You cannot link an issue to itself.")
    same = (kind["name"], inward_issue_key, outward_issue_key)
    if app.one("SELECT 1 FROM issue_link WHERE type = ? AND inward = ? AND outward = ?", *same) is None:
        app.insert("issue_link", type=kind["name"], inward=inward_issue_key, outward=outward_issue_key)
        log_change(app, inward_issue_key, "Link", None, f"This issue {kind['outward']} {outward_issue_key}")
        log_change(app, outward_issue_key, "Link", None, f"This issue {kind['inward']} {inward_issue_key}")
    if comment:
        write_comment(app, inward_issue_key, comment, comment_visibility)
    return {
        "success": True,
        "message": f"Link created between {inward_issue_key} and {outward_issue_key}",
        "link_type": link_type,
        "inward_issue": inward_issue_key,
        "outward_issue": outward_issue_key,
    }


@jira_tool
def _remove_issue_link(app: LiveApp, *, link_id: str) -> Json:
    row = app.one("SELECT * FROM issue_link WHERE CAST(id AS TEXT) = ?", link_id)
    if row is None:
        raise ToolError(f"Error removing issue link: No issue link with id '{link_id[:40]}' exists.")
    for key in (row["inward"], row["outward"]):
        find_issue(app, key, write=True)
    app.run("DELETE FROM issue_link WHERE id = ?", row["id"])
    return {"success": True, "message": f"Link with ID {link_id} has been removed", "link_id": link_id}


@jira_tool
def _link_to_epic(app: LiveApp, *, issue_key: str, epic_key: str) -> Json:
    find_issue(app, issue_key, write=True)
    if find_issue(app, epic_key)["type"] != "Epic":
        raise ToolError(f"Error linking issue to epic: {epic_key} is not an Epic")
    set_fields(app, issue_key, {"parent": epic_key})
    return {"message": f"Issue {issue_key} has been linked to epic {epic_key}.", "issue": _shape(app, issue_key)}


@jira_tool
def _add_worklog(
    app: LiveApp,
    *,
    issue_key: str,
    time_spent: str,
    comment: str | None = None,
    started: str | None = None,
    original_estimate: str | None = None,
    remaining_estimate: str | None = None,
) -> Json:
    issue = find_issue(app, issue_key, write=True)
    try:
        seconds = parse_worked(time_spent)
        moment = time_text(parse_moment(re.sub(r"\.\d+", "", started), app.now)) if started else app.at
        original = parse_worked(original_estimate) if original_estimate else issue["original_s"]
        left = parse_worked(remaining_estimate) if remaining_estimate else max(0, (issue["remaining_s"] or 0) - seconds)
    except ValueError as error:
        raise ToolError(f"Error adding worklog: {error}") from error
    times = {"started": moment, "created": app.at, "updated": app.at}
    row = app.insert(
        "worklog",
        issue=issue_key,
        author=actor_id(app),
        comment=require_text(comment or ""),
        time_spent=time_spent,
        time_spent_s=seconds,
        **times,
    )
    spent = (issue["time_spent_s"] or 0) + seconds
    app.run("UPDATE issue SET time_spent_s = ?, original_s = ?, remaining_s = ? WHERE key = ?", spent, original, left, issue_key)
    touch(app, issue_key)
    name = app.value("SELECT display_name FROM person WHERE account_id = ?", actor_id(app))
    worklog = {"id": str(row), "comment": comment or "", **{part: moment_shape(at) for part, at in times.items()}}
    worklog |= {"timeSpent": time_spent, "timeSpentSeconds": seconds, "author": name or "Unknown"}
    return {"message": "Worklog added successfully", "worklog": worklog}


@jira_tool
def _add_watcher(app: LiveApp, *, issue_key: str, user_identifier: str) -> Json:
    find_issue(app, issue_key)
    account = find_person(app, user_identifier)
    if app.one("SELECT 1 FROM watcher WHERE issue = ? AND account_id = ?", issue_key, account) is None:
        app.insert("watcher", issue=issue_key, account_id=account)
    message = f"User '{user_identifier}' added as watcher to {issue_key}"
    return {"success": True, "message": message, "issue_key": issue_key, "user": user_identifier}


@jira_tool
def _remove_watcher(app: LiveApp, *, issue_key: str, username: str | None = None, account_id: str | None = None) -> Json:
    find_issue(app, issue_key)
    if not username and not account_id:
        raise ToolError("Either username or account_id must be provided")
    user = account_id or username or ""
    app.run("DELETE FROM watcher WHERE issue = ? AND account_id = ?", issue_key, find_person(app, user))
    return {"success": True, "message": f"User '{user}' removed from watching {issue_key}", "issue_key": issue_key, "user": user}
