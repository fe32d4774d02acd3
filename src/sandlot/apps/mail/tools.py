"""The tools of mail: names, arguments, results and errors of `@gongrzhe/server-gmail-autoauth-mcp`.

Three differences are ours: every call acts as the identity of the world, files (attachments) are those of the world, and an error
is marked as one, where that server returns its text as an ordinary result.
"""

import json
import mimetypes
import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.mail import pages
from sandlot.apps.mail.mailbox import (
    MAIL,
    NOT_FOUND,
    SYSTEM_LABELS,
    Letter,
    change_labels,
    date_line,
    delete_message,
    message_of,
    send,
    sender_line,
)
from sandlot.apps.mail.search import find_messages
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["MAIL", "pages"]

_MAX_RESULTS = 500
_SHOWN_ID = 16


# -- mails -------------------------------------------------------------------------------------------------------------


async def _letter(app: LiveApp, given: Json) -> Letter:
    files: list[tuple[str, str, bytes]] = []
    for path in given.get("attachments", ()):
        try:
            data = await app.world.read(posixpath.normpath(posixpath.join("/", path)))
        except (OSError, ValueError) as error:
            raise ToolError(f"Error: File does not exist: {path}") from error
        name = posixpath.basename(path)
        files.append((name, mimetypes.guess_type(name)[0] or "application/octet-stream", data))
    body, html, mime = given["body"], given.get("html_body"), given.get("mime_type", "text/plain")
    only_html = mime == "text/html" and not files
    return Letter(
        sender=app.actor,
        to=tuple(given["to"]),
        subject=given["subject"],
        body="" if only_html else body,
        html=(html or body) if only_html else html if mime != "text/plain" or files else None,
        cc=tuple(given.get("cc", ())),
        bcc=tuple(given.get("bcc", ())),
        thread=given.get("thread_id") or None,
        in_reply_to=given.get("in_reply_to") or None,
        attachments=tuple(files),
    )


@MAIL.tool(takes_s=60)
async def _send_email(app: LiveApp, **given: Any) -> str:
    return f"Email sent successfully with ID: {send(app, await _letter(app, given))}"


@MAIL.tool(takes_s=60)
async def _draft_email(app: LiveApp, **given: Any) -> str:
    return f"Email draft created successfully with ID: {send(app, await _letter(app, given), draft=True)}"


@MAIL.tool
def _read_email(app: LiveApp, message_id: str) -> str:
    row = message_of(app, app.actor, message_id)
    note = (
        "[Note: This email is HTML-formatted. Plain text version not available.]\n\n" if not row["body"] and row["html"] else ""
    )
    head = f"Thread ID: {row['thread']}\nSubject: {row['subject']}\nFrom: {sender_line(row)}\nTo: {row['to_list']}\n"
    return f"{head}Date: {date_line(row)}\n\n{note}{row['body'] or row['html'] or ''}{_attachment_lines(app, row)}"


def _attachment_lines(app: LiveApp, row: dict[str, Any]) -> str:
    found = app.rows(
        "SELECT id, filename, mime, length(data) AS size FROM attachment WHERE content = ? ORDER BY rowid", row["id"]
    )
    lines = [f"- {each['filename']} ({each['mime']}, {int(each['size'] / 1024 + 0.5)} KB, ID: {each['id']})" for each in found]
    return f"\n\nAttachments ({len(lines)}):\n" + "\n".join(lines) if lines else ""


@MAIL.tool
def _search_emails(app: LiveApp, query: str, max_results: float | None = None) -> str:
    most = min(int(max_results), _MAX_RESULTS) if max_results else 10
    found = [message_of(app, app.actor, message) for message in find_messages(app, app.actor, query, most=max(most, 1))]
    texts = [
        f"ID: {row['message']}\nSubject: {row['subject']}\nFrom: {sender_line(row)}\nDate: {date_line(row)}\n" for row in found
    ]
    return "\n".join(texts)


@MAIL.tool
def _modify_email(
    app: LiveApp,
    message_id: str,
    label_ids: Sequence[str] = (),
    add_label_ids: Sequence[str] = (),
    remove_label_ids: Sequence[str] = (),
) -> str:
    change_labels(app, app.actor, message_id, add_label_ids or label_ids, remove_label_ids)
    return f"Email {message_id} labels updated successfully"


@MAIL.tool
def _delete_email(app: LiveApp, message_id: str) -> str:
    delete_message(app, app.actor, message_id)
    return f"Email {message_id} deleted successfully"


@MAIL.tool
def _batch_modify_emails(
    app: LiveApp,
    message_ids: list[str],
    add_label_ids: Sequence[str] = (),
    remove_label_ids: Sequence[str] = (),
    batch_size: float = 50,  # noqa: ARG001 - all at once here, with the same result
) -> str:
    failed = _each(message_ids, lambda message: change_labels(app, app.actor, message, add_label_ids, remove_label_ids))
    return _batch_text("Batch label modification complete.\nSuccessfully processed", "process", message_ids, failed)


@MAIL.tool
def _batch_delete_emails(app: LiveApp, message_ids: list[str], batch_size: float = 50) -> str:  # noqa: ARG001 - as above
    failed = _each(message_ids, lambda message: delete_message(app, app.actor, message))
    return _batch_text("Batch delete operation complete.\nSuccessfully deleted", "delete", message_ids, failed)


def _each(messages: list[str], act: Callable[[str], None]) -> list[tuple[str, str]]:
    """Act on each mail; the ids of those that failed, with the error."""
    failed: list[tuple[str, str]] = []
    for message in messages:
        try:
            act(message)
        except ToolError as error:
            failed.append((message, str(error).removeprefix("Error: ")))
    return failed


def _batch_text(done: str, verb: str, messages: list[str], failed: list[tuple[str, str]]) -> str:
    text = f"{done}: {len(messages) - len(failed)} messages\n"
    if failed:
        lines = "\n".join(f"- {message[:_SHOWN_ID]}... ({why})" for message, why in failed)
        text += f"Failed to {verb}: {len(failed)} messages\n\nFailed message IDs:\n{lines}"
    return text


@MAIL.tool
async def _download_attachment(
    app: LiveApp, message_id: str, attachment_id: str, filename: str | None = None, save_path: str | None = None
) -> str:
    try:
        content = message_of(app, app.actor, message_id)["id"]
    except ToolError:
        return f"Failed to download attachment: {NOT_FOUND.removeprefix('Error: ')}"
    row = app.one("SELECT filename, data FROM attachment WHERE id = ? AND content = ?", attachment_id, content)
    if row is None:
        return "Failed to download attachment: Invalid attachment token"
    name = filename or row["filename"]
    path = posixpath.normpath(posixpath.join("/", save_path or "", name))
    try:
        await app.world.write(path, row["data"])
    except (OSError, ValueError) as error:
        return f"Failed to download attachment: {error}"
    return f"Attachment downloaded successfully:\nFile: {name}\nSize: {len(row['data'])} bytes\nSaved to: {path}"


# -- labels ------------------------------------------------------------------------------------------------------------


@MAIL.tool
def _list_email_labels(app: LiveApp) -> str:
    own = app.rows("SELECT id, name FROM label WHERE owner = ? ORDER BY rowid", app.actor)
    system = "\n".join(f"ID: {label}\nName: {label}\n" for label in SYSTEM_LABELS)
    user = "\n".join(f"ID: {row['id']}\nName: {row['name']}\n" for row in own)
    counts = f"{len(own) + len(SYSTEM_LABELS)} labels ({len(SYSTEM_LABELS)} system, {len(own)} user)"
    return f"Found {counts}:\n\nSystem Labels:\n{system}\nUser Labels:\n{user}"


@MAIL.tool
def _create_label(
    app: LiveApp, name: str, message_list_visibility: str = "show", label_list_visibility: str = "labelShow"
) -> str:
    label = _new_label(app, name, message_list_visibility, label_list_visibility)
    return f"Label created successfully:\nID: {label}\nName: {name}\nType: user"


def _new_label(app: LiveApp, name: str, message_list: str, label_list: str) -> str:
    if not name.strip():
        raise ToolError("Error: Failed to create label: Invalid label name")
    if _label_named(app, name) is not None:
        raise ToolError(f'Error: Label "{name}" already exists. Please use a different name.')
    label = f"Label_{app.new_number()}"
    app.insert("label", id=label, owner=app.actor, name=name, message_list=message_list, label_list=label_list)
    return label


def _label_named(app: LiveApp, name: str) -> Json | None:
    if name.upper() in SYSTEM_LABELS:
        return {"id": name.upper(), "name": name.upper(), "type": "system"}
    row = app.one("SELECT id, name FROM label WHERE owner = ? AND lower(name) = ?", app.actor, name.lower())
    return row and row | {"type": "user"}


def _own_label(app: LiveApp, label: str) -> dict[str, Any]:
    """A label of the actor's by id; `ToolError` if there is none."""
    if label in SYSTEM_LABELS:
        return {"id": label, "name": label, "type": "system"}
    row = app.one("SELECT id, name FROM label WHERE owner = ? AND id = ?", app.actor, label)
    if row is None:
        raise ToolError(f'Error: Label with ID "{label}" not found.')
    return row | {"type": "user"}


@MAIL.tool
def _update_label(
    app: LiveApp,
    id: str,  # noqa: A002 - the recorded argument
    name: str | None = None,
    message_list_visibility: str | None = None,
    label_list_visibility: str | None = None,
) -> str:
    found = _own_label(app, id)
    if found["type"] == "system":
        raise ToolError("Error: Failed to update label: Invalid update to system label")
    same = _label_named(app, name) if name else None
    if same is not None and same["id"] != id:
        raise ToolError("Error: Failed to update label: Label name exists or conflicts")
    for column, value in (("name", name), ("message_list", message_list_visibility), ("label_list", label_list_visibility)):
        if value:
            app.run(f"UPDATE label SET {column} = ? WHERE owner = ? AND id = ?", value, app.actor, id)  # noqa: S608 - a constant
    return f"Label updated successfully:\nID: {id}\nName: {name or found['name']}\nType: user"


@MAIL.tool
def _delete_label(app: LiveApp, id: str) -> str:  # noqa: A002 - the recorded argument
    found = _own_label(app, id)
    if found["type"] == "system":
        raise ToolError(f'Error: Failed to delete label: Cannot delete system label with ID "{id}".')
    app.run("DELETE FROM message_label WHERE label = ? AND message IN (SELECT id FROM message WHERE owner = ?)", id, app.actor)
    app.run("DELETE FROM label WHERE owner = ? AND id = ?", app.actor, id)
    return f'Label "{found["name"]}" deleted successfully.'


@MAIL.tool
def _get_or_create_label(
    app: LiveApp, name: str, message_list_visibility: str = "show", label_list_visibility: str = "labelShow"
) -> str:
    found = _label_named(app, name)
    if found is None:
        label = _new_label(app, name, message_list_visibility, label_list_visibility)
        found = {"id": label, "name": name, "type": "user"}
    # The public server says "found existing" for every user label with this spelling, also for one that it has just made.
    action = "found existing" if found["type"] == "user" and found["name"] == name else "created new"
    return f"Successfully {action} label:\nID: {found['id']}\nName: {found['name']}\nType: {found['type']}"


# -- filters -----------------------------------------------------------------------------------------------------------


def _shown(values: Json, *, with_empty: bool) -> str:
    """Criteria or actions in one line, as a JavaScript template shows them."""
    kept = {name: value for name, value in values.items() if with_empty or value != []}
    return ", ".join(f"{name}: {_script_text(value)}" for name, value in kept.items())


def _script_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType] - strings, by the schema
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add_filter(app: LiveApp, criteria: Json, action: Json) -> str:
    if not any(value not in (None, "", False) for value in criteria.values()):
        raise ToolError("Error: Invalid filter criteria or action: Filter must have at least one criteria")
    if not any(action.values()):
        raise ToolError("Error: Invalid filter criteria or action: Filter must have at least one action")
    for label in [*(action.get("addLabelIds") or ()), *(action.get("removeLabelIds") or ())]:
        if label not in SYSTEM_LABELS and not app.one("SELECT 1 FROM label WHERE owner = ? AND id = ?", app.actor, label):
            raise ToolError(f"Error: Invalid filter criteria or action: Invalid label: {label}")
    name = "ANe1Bm" + app.new_id(length=24)
    app.insert("filter", id=name, owner=app.actor, criteria=json.dumps(criteria), action=json.dumps(action))
    return name


@MAIL.tool
def _create_filter(app: LiveApp, criteria: Json, action: Json) -> str:
    made = _add_filter(app, criteria, action)
    shown = f"Criteria: {_shown(criteria, with_empty=True)}\nActions: {_shown(action, with_empty=False)}"
    return f"Filter created successfully:\nID: {made}\n{shown}"


@MAIL.tool
def _list_filters(app: LiveApp) -> str:
    rows = app.rows("SELECT * FROM filter WHERE owner = ? ORDER BY rowid", app.actor)
    if not rows:
        return "No filters found."
    return f"Found {len(rows)} filters:\n\n" + "\n".join(f"{_filter_text(row)}\n" for row in rows)


def _filter_text(row: dict[str, Any]) -> str:
    criteria, action = json.loads(row["criteria"]), json.loads(row["action"])
    shown = f"Criteria: {_shown(criteria, with_empty=True)}\nActions: {_shown(action, with_empty=False)}"
    return f"ID: {row['id']}\n{shown}"


def _own_filter(app: LiveApp, name: str) -> dict[str, Any]:
    row = app.one("SELECT * FROM filter WHERE owner = ? AND id = ?", app.actor, name)
    if row is None:
        raise ToolError(f'Error: Filter with ID "{name}" not found.')
    return row


@MAIL.tool
def _get_filter(app: LiveApp, filter_id: str) -> str:
    return f"Filter details:\n{_filter_text(_own_filter(app, filter_id))}"


@MAIL.tool
def _delete_filter(app: LiveApp, filter_id: str) -> str:
    _own_filter(app, filter_id)
    app.run("DELETE FROM filter WHERE owner = ? AND id = ?", app.actor, filter_id)
    return f'Filter "{filter_id}" deleted successfully.'


@MAIL.tool
def _create_filter_from_template(app: LiveApp, template: str, parameters: Json) -> str:
    criteria, action = _from_template(template, parameters)
    made = _add_filter(app, criteria, action)
    return f"Filter created from template '{template}':\nID: {made}\nTemplate used: {template}"


_NEEDED = {
    "fromSender": "senderEmail",
    "withSubject": "subjectText",
    "largeEmails": "sizeInBytes",
    "containingText": "searchText",
    "mailingList": "listIdentifier",
}
"""The parameter that each template cannot do without."""


def _from_template(template: str, given: Json) -> tuple[Json, Json]:
    needed = _NEEDED.get(template)
    if needed and not given.get(needed):
        raise ToolError(f"Error: {needed} is required for {template} template")
    labels, value = list(given.get("labelIds") or ()), given.get(needed) if needed else None
    archive: Json = {"removeLabelIds": ["INBOX"]} if given.get("archive", template == "mailingList") else {}
    match template:
        case "fromSender":
            return {"from": value}, {"addLabelIds": labels} | archive
        case "withSubject":
            return {"subject": value}, {"addLabelIds": labels} | (
                {"removeLabelIds": ["UNREAD"]} if given.get("markAsRead") else {}
            )
        case "withAttachments":
            return {"hasAttachment": True}, {"addLabelIds": labels}
        case "largeEmails":
            return {"size": value, "sizeComparison": "larger"}, {"addLabelIds": labels}
        case "containingText":
            return {"query": f'"{value}"'}, {"addLabelIds": [*labels, "IMPORTANT"] if given.get("markImportant") else labels}
        case _:
            return {"query": f"list:{value} OR subject:[{value}]"}, {"addLabelIds": labels} | archive
