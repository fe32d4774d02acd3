"""The pages of mail, for agents that use a browser: the same functions as the tools, in forms that need no JavaScript.

What others wrote is shown as text. A mail in HTML is shown without its markup, so it cannot run scripts or imitate the page.
"""

import re
from email.utils import getaddresses
from html import unescape
from pathlib import Path
from typing import Any

from sandlot.apps.live import LiveApp
from sandlot.apps.mail.mailbox import MAIL, SYSTEM_LABELS, Letter, change_labels, date_line, message_of, send, sender_line
from sandlot.apps.mail.search import find_messages
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError

_HERE = Path(__file__).parent / "templates"
_PAGE = 50
_MOST = 5000
_FOLDERS = (
    ("Inbox", "in:inbox"),
    ("Starred", "is:starred"),
    ("Sent", "in:sent"),
    ("Drafts", "in:drafts"),
    ("All Mail", "in:anywhere -in:trash -in:spam"),
    ("Trash", "in:trash"),
)
_ACTS: dict[str, tuple[list[str], list[str]]] = {
    "archive": ([], ["INBOX"]),
    "trash": (["TRASH"], ["INBOX"]),
    "unread": (["UNREAD"], []),
    "star": (["STARRED"], []),
    "unstar": ([], ["STARRED"]),
}
"""Labels that a button adds and removes."""


def _folders(app: LiveApp) -> list[tuple[str, str]]:
    own = app.rows("SELECT name FROM label WHERE owner = ? ORDER BY rowid", app.actor)
    return [*_FOLDERS, *((row["name"], f'label:"{row["name"]}"') for row in own)]


@MAIL.page("GET", "/")
def _list(app: LiveApp, request: PageRequest) -> PageResponse:
    query = request.query.get("q", "in:inbox")
    page = int(given) if (given := request.query.get("page", "1")).isdecimal() and len(given) < 6 else 1
    found = find_messages(app, app.actor, query, most=_MOST)
    first = (max(page, 1) - 1) * _PAGE
    rows = [_row(app, message) for message in found[first : first + _PAGE]]
    more = first + _PAGE < len(found)
    return render(
        _HERE, "list.html", actor=app.actor, folders=_folders(app), query=query, rows=rows, total=len(found), page=page, more=more
    )


def _row(app: LiveApp, message: str) -> dict[str, Any]:
    row = message_of(app, app.actor, message)
    unread = app.one("SELECT 1 FROM message_label WHERE message = ? AND label = 'UNREAD'", message) is not None
    sender = row["sender_name"] or row["sender"]
    return {"id": message, "sender": sender, "subject": row["subject"], "date": date_line(row), "unread": unread}


@MAIL.page("GET", "/message/{message}")
def _message(app: LiveApp, _request: PageRequest, message: str) -> PageResponse:
    row = message_of(app, app.actor, message)
    if app.one("SELECT 1 FROM message_label WHERE message = ? AND label = 'UNREAD'", message):
        change_labels(app, app.actor, message, remove=["UNREAD"])
    labels = [each["label"] for each in app.rows("SELECT label FROM message_label WHERE message = ? ORDER BY rowid", message)]
    own = app.rows("SELECT id, name FROM label WHERE owner = ? ORDER BY rowid", app.actor)
    names = {each["id"]: each["name"] for each in own}
    thread = app.rows(
        "SELECT content.*, message.id AS message FROM message JOIN content ON content.id = message.content"
        " WHERE owner = ? AND thread = ? ORDER BY at, message.rowid",
        app.actor, row["thread"],
    )  # fmt: skip
    return render(
        _HERE,
        "message.html",
        actor=app.actor,
        folders=_folders(app),
        row=row,
        labels=labels,
        names=[names.get(label, label) for label in labels],
        own_labels=own,
        thread=[_shown(app, each) for each in thread],
    )


def _shown(app: LiveApp, row: dict[str, Any]) -> dict[str, Any]:
    files = app.rows("SELECT id, filename, length(data) AS size FROM attachment WHERE content = ?", row["id"])
    return row | {
        "from": sender_line(row),
        "date": date_line(row),
        "text": row["body"] or text_of(row["html"] or ""),
        "files": files,
    }


@MAIL.page("POST", "/message/{message}")
def _act(app: LiveApp, request: PageRequest, message: str) -> PageResponse:
    act, label = request.form.get("act", ""), request.form.get("label", "")
    add, remove = _ACTS.get(act, ([], []))
    if act in {"label", "unlabel"} and label not in SYSTEM_LABELS:
        add, remove = ([label], []) if act == "label" else ([], [label])
    change_labels(app, app.actor, message, add, remove)
    return PageResponse.redirect("/" if act in {"archive", "trash", "unread"} else f"/message/{message}")


@MAIL.page("GET", "/message/{message}/attachment/{attachment}")
def _attachment(app: LiveApp, _request: PageRequest, message: str, attachment: str) -> PageResponse:
    content = message_of(app, app.actor, message)["id"]
    row = app.one("SELECT data FROM attachment WHERE id = ? AND content = ?", attachment, content)
    if row is None:
        raise ToolError("There is no such attachment.")
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    return PageResponse(headers=headers, body=row["data"])


@MAIL.page("GET", "/compose")
def _compose(app: LiveApp, request: PageRequest) -> PageResponse:
    fields = {"to": "", "cc": "", "subject": "", "body": "", "thread": "", "answers": ""}
    reply, forward = request.query.get("reply"), request.query.get("forward")
    if reply or forward:
        row = message_of(app, app.actor, reply or forward or "")
        text = row["body"] or text_of(row["html"] or "")
        quoted = "".join(f"> {line}\n" for line in text.splitlines())
        prefix = "Re" if reply else "Fwd"
        subject = row["subject"] if row["subject"].lower().startswith(f"{prefix.lower()}:") else f"{prefix}: {row['subject']}"
        fields |= {"subject": subject, "body": f"\n\n{sender_line(row)} wrote:\n{quoted}"}
        if reply:
            fields |= {"to": row["sender"], "thread": row["thread"], "answers": reply}
        if reply and request.query.get("all"):
            others = [address for _, address in getaddresses([row["to_list"], row["cc_list"]])]
            fields["cc"] = ", ".join(each for each in others if each.lower() not in {app.actor, row["sender"]})
    return render(_HERE, "compose.html", actor=app.actor, folders=_folders(app), **fields)


@MAIL.page("POST", "/compose")
def _send(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    letter = Letter(
        sender=app.actor,
        to=_addresses(form.get("to", "")),
        cc=_addresses(form.get("cc", "")),
        subject=form.get("subject", ""),
        body=form.get("body", "").replace("\r\n", "\n"),
        thread=form.get("thread") or None,
        in_reply_to=form.get("answers") or None,
    )
    draft = form.get("act") == "draft"
    send(app, letter, draft=draft)
    return PageResponse.redirect("/?q=in%3Adrafts" if draft else "/?q=in%3Asent")


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())


# -- HTML as text ------------------------------------------------------------------------------------------------------

_HIDDEN = {"script", "style", "head", "title", "template"}
_RAW = {"script", "style", "title"}
"""What is in these is not markup: only their own end tag ends them."""
_MAX_HTML = 100_000
"""Characters of a mail in HTML that are read."""
_LINES = {"p", "div", "br", "tr", "li", "h1", "h2", "h3", "table"}
_TAG = re.compile(r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+>""")
_MARKUP = re.compile(r"<[a-zA-Z/!?]")
_HUGE_NUMBER = re.compile(r"&#(?:[xX][0-9a-fA-F]{8,}|[0-9]{8,});?")
"""A character reference that names no character; `html.unescape` fails for one with thousands of digits."""


def text_of(html: str) -> str:
    """The text of a mail in HTML. A tag or a comment that does not end hides the rest, so no part is read twice."""
    html = html[:_MAX_HTML]
    parts: list[str] = []
    place = hidden = 0
    while place < len(html):
        start = html.find("<", place)
        start = len(html) if start < 0 else start
        if not hidden:
            parts.append(html[place:start])
        if not _MARKUP.match(html, start):
            parts.append("" if hidden else html[start : start + 1])
            place = start + 1
            continue
        tag = _TAG.match(html, start)
        if tag is None:
            place = _end_of_other(html, start)
            continue
        name, place = tag["name"].lower(), tag.end()
        if tag["end"]:
            hidden -= name in _HIDDEN and hidden > 0
        elif name in _RAW:
            place = _end_of_raw(html, name, place)
        else:
            hidden += name in _HIDDEN
            parts.append("\n" if name in _LINES else "")
    return unescape(_HUGE_NUMBER.sub("\ufffd", "".join(parts))).strip()


def _end_of_other(html: str, start: int) -> int:
    """Where a comment or a declaration ends: the end of the mail if it does not."""
    end = "-->" if html.startswith("<!--", start) else ">"
    found = html.find(end, start)
    return len(html) if found < 0 else found + len(end)


def _end_of_raw(html: str, name: str, start: int) -> int:
    """Where the text goes on behind the end tag of a script: the end of the mail if there is none."""
    tag = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, start)
    found = -1 if tag is None else html.find(">", tag.end())
    return len(html) if found < 0 else found + 1
