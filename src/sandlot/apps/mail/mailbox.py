"""Mailboxes: sending, delivering, labels and filters. Tools, pages, events and importers all go through these functions.

What was written once is stored once (`content`); each mailbox that has it has its own `message` with its own id, thread and
labels, as in Gmail. A mailbox is seen only by its owner: every function takes the owner, and finds nothing of others.
"""

import json
import re
from collections.abc import Iterable, Sequence
from email.utils import format_datetime, formataddr, parseaddr
from typing import Any

import msgspec

from sandlot.apps.app import App
from sandlot.apps.clock import parse_time
from sandlot.apps.colleague import SentMessage
from sandlot.apps.live import LiveApp
from sandlot.apps.mail.search import find_messages
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

SCHEMA = """
CREATE TABLE account (email TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE content (
  id INTEGER PRIMARY KEY, header_id TEXT NOT NULL UNIQUE, in_reply_to TEXT, sender TEXT NOT NULL, sender_name TEXT NOT NULL,
  to_list TEXT NOT NULL, cc_list TEXT NOT NULL, bcc_list TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL, html TEXT,
  at TEXT NOT NULL
);
CREATE TABLE attachment (
  id TEXT NOT NULL UNIQUE, content INTEGER NOT NULL, filename TEXT NOT NULL, mime TEXT NOT NULL, data BLOB NOT NULL
);
CREATE TABLE message (id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, thread TEXT NOT NULL, content INTEGER NOT NULL, draft TEXT);
CREATE TABLE message_label (message TEXT NOT NULL, label TEXT NOT NULL, UNIQUE (message, label));
CREATE TABLE label (
  id TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, message_list TEXT NOT NULL, label_list TEXT NOT NULL,
  UNIQUE (owner, id)
);
CREATE TABLE filter (id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, criteria TEXT NOT NULL, action TEXT NOT NULL);
CREATE INDEX message_owner ON message (owner, thread);
CREATE INDEX message_content ON message (content);
CREATE INDEX attachment_content ON attachment (content);
CREATE INDEX label_message ON message_label (label);
CREATE VIRTUAL TABLE content_text USING fts5 (subject, body, sender, sender_name, to_list, content='content', content_rowid='id');
CREATE TRIGGER content_added AFTER INSERT ON content BEGIN
  INSERT INTO content_text (rowid, subject, body, sender, sender_name, to_list)
  VALUES (new.id, new.subject, new.body, new.sender, new.sender_name, new.to_list);
END;
CREATE TRIGGER content_removed AFTER DELETE ON content BEGIN
  INSERT INTO content_text (content_text, rowid, subject, body, sender, sender_name, to_list)
  VALUES ('delete', old.id, old.subject, old.body, old.sender, old.sender_name, old.to_list);
END;
CREATE TRIGGER content_changed AFTER UPDATE ON content BEGIN
  INSERT INTO content_text (content_text, rowid, subject, body, sender, sender_name, to_list)
  VALUES ('delete', old.id, old.subject, old.body, old.sender, old.sender_name, old.to_list);
  INSERT INTO content_text (rowid, subject, body, sender, sender_name, to_list)
  VALUES (new.id, new.subject, new.body, new.sender, new.sender_name, new.to_list);
END;
"""

SYSTEM_LABELS = (
    "CHAT", "SENT", "INBOX", "IMPORTANT", "TRASH", "DRAFT", "SPAM", "CATEGORY_FORUMS", "CATEGORY_UPDATES", "CATEGORY_PERSONAL",
    "CATEGORY_PROMOTIONS", "CATEGORY_SOCIAL", "STARRED", "UNREAD",
)  # fmt: skip
"""The labels that every mailbox has, in the order in which Gmail lists them."""
_NOT_SET_BY_HAND = {"SENT", "DRAFT", "CHAT"}
NOT_FOUND = "Error: Requested entity was not found."
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+\Z")
_POSTMASTER = "mailer-daemon@googlemail.com"
_MAX_RECIPIENTS = 500

MAIL = App("mail", schema=SCHEMA, server=RecordedServer.read("gmail"))


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail before it is sent."""

    sender: str
    to: tuple[str, ...]
    subject: str = ""
    body: str = ""
    html: str | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    thread: str | None = None
    """The thread in the sender's mailbox that it belongs to."""
    in_reply_to: str | None = None
    """The Message-ID, or the id in the sender's mailbox, of the mail it answers."""
    attachments: tuple[tuple[str, str, bytes], ...] = ()
    """File name, MIME type and bytes of each."""
    header_id: str | None = None
    """Its Message-ID; None for a new one."""
    at: str | None = None
    """When it was sent; None for now."""


def add_account(app: LiveApp, email: str, name: str = "") -> None:
    """Give a person a mailbox."""
    app.insert("account", email=email.lower(), name=name)


def address_of(text: str) -> str:
    """The bare address in `Ada <ada@example.com>`, in lower case."""
    return (parseaddr(text)[1] or text).strip().lower() if "<" in text else text.strip().lower()


def send(app: LiveApp, letter: Letter, *, draft: bool = False) -> str:
    """Send a mail, or keep it as a draft: it is filed with its sender and delivered to every mailbox here. Returns its id.

    An address of a domain of ours without a mailbox sends a failure notice back. Colleagues among the recipients may answer.
    """
    for address in letter.to:
        if not _ADDRESS.fullmatch(address_of(address)) or ("<" not in address and not _ADDRESS.fullmatch(address)):
            raise ToolError(f"Error: Recipient email address is invalid: {address}")
    for name, addresses in (("Cc", letter.cc), ("Bcc", letter.bcc)):
        if any(not _ADDRESS.fullmatch(address_of(address)) for address in addresses):
            raise ToolError(f"Error: Invalid {name} header")
    reached = list(dict.fromkeys(address_of(address) for address in (*letter.to, *letter.cc, *letter.bcc)))
    if not reached and not draft:
        raise ToolError("Error: Recipient address required")
    if len(reached) > _MAX_RECIPIENTS:
        raise ToolError("Error: Too many recipients")
    content, answered = _write(app, letter)
    message = _file(
        app, letter.sender, content, thread=_thread_for(app, letter, answered), labels=["DRAFT"] if draft else ["SENT"]
    )
    if draft:
        name = "r" + str(int(app.new_id(), 16))
        app.run("UPDATE message SET draft = ? WHERE id = ?", name, message)
        return name
    _deliver(app, letter, content, reached, answered)
    return message


def _write(app: LiveApp, letter: Letter) -> tuple[int, str | None]:
    """Store what was written; the rowid of the content, and the Message-ID that it answers."""
    answered = _answered(app, letter)
    name = app.value("SELECT name FROM account WHERE email = ?", letter.sender) or ""
    content = app.insert(
        "content",
        header_id=letter.header_id or f"<{app.new_id(length=32)}@mail.example>",
        in_reply_to=answered,
        sender=letter.sender,
        sender_name=name,
        to_list=", ".join(letter.to),
        cc_list=", ".join(letter.cc),
        bcc_list=", ".join(letter.bcc),
        subject=letter.subject,
        body=letter.body,
        html=letter.html,
        at=letter.at or app.at,
    )
    for filename, mime, data in letter.attachments:
        app.insert("attachment", id="ANGjdJ" + app.new_id(length=40), content=content, filename=filename, mime=mime, data=data)
    return content, answered


def _answered(app: LiveApp, letter: Letter) -> str | None:
    """The Message-ID of the mail that this one answers: named, or the last one of its thread."""
    if letter.in_reply_to:
        found = app.value(
            "SELECT header_id FROM content WHERE header_id = ?1 UNION ALL"
            " SELECT content.header_id FROM message JOIN content ON content.id = message.content"
            " WHERE message.owner = ?2 AND message.id = ?1",
            letter.in_reply_to, letter.sender,
        )  # fmt: skip
        return found or letter.in_reply_to
    if letter.thread:
        return app.value(
            "SELECT header_id FROM message JOIN content ON content.id = message.content WHERE owner = ? AND thread = ?"
            " ORDER BY at DESC, content.id DESC",
            letter.sender, letter.thread,
        )  # fmt: skip
    return None


def _thread_for(app: LiveApp, letter: Letter, answered: str | None) -> str | None:
    if letter.thread:
        if not app.one("SELECT 1 FROM message WHERE owner = ? AND thread = ?", letter.sender, letter.thread):
            raise ToolError(NOT_FOUND)
        return letter.thread
    return _thread_of(app, letter.sender, answered)


def _thread_of(app: LiveApp, owner: str, header_id: str | None) -> str | None:
    """The thread of a mail in a mailbox; None if it is not there."""
    if header_id is None:
        return None
    return app.value(
        "SELECT thread FROM message JOIN content ON content.id = message.content WHERE owner = ? AND header_id = ?",
        owner, header_id,
    )  # fmt: skip


def _file(app: LiveApp, owner: str, content: int, *, thread: str | None, labels: Iterable[str]) -> str:
    """Put a mail into a mailbox."""
    message = app.new_id()
    app.insert("message", id=message, owner=owner, thread=thread or message, content=content)
    for label in labels:
        app.insert("message_label", message=message, label=label)
    return message


def _deliver(app: LiveApp, letter: Letter, content: int, reached: Sequence[str], answered: str | None) -> None:
    domains = {row["domain"] for row in app.rows("SELECT DISTINCT substr(email, instr(email, '@') + 1) AS domain FROM account")}
    for address in reached:
        if app.one("SELECT 1 FROM account WHERE email = ?", address):
            message = _file(app, address, content, thread=_thread_of(app, address, answered), labels=["UNREAD", "INBOX"])
            _apply_filters(app, address, message)
        elif address.partition("@")[2] in domains:
            _bounce(app, letter.sender, address, letter.subject)
    header = app.value("SELECT header_id FROM content WHERE id = ?", content)
    about = {"header_id": header, "subject": letter.subject, "to": letter.sender}
    text = f"{letter.subject}\n{letter.body}"
    app.tell_colleagues(SentMessage(sender=letter.sender, to=tuple(reached), text=text, about=about), "colleague_replies")


def _bounce(app: LiveApp, sender: str, address: str, subject: str) -> None:
    text = (
        f"Address not found\n\nYour message wasn't delivered to {address} because the address couldn't be found, or is unable"
        " to receive mail."
    )
    notice = Letter(sender=_POSTMASTER, to=(sender,), subject=f"Delivery Status Notification (Failure): {subject}", body=text)
    content, _ = _write(app, notice)
    if app.one("SELECT 1 FROM account WHERE email = ?", sender):
        _file(app, sender, content, thread=None, labels=["UNREAD", "INBOX"])


@MAIL.event
def mail_arrives(app: LiveApp, **letter: Any) -> None:
    """A mail from anyone arrives: the fields of a `Letter`."""
    send_from_outside(app, msgspec.convert(letter, Letter))


@MAIL.event
def colleague_replies(app: LiveApp, *, sender: str, text: str, about: Json) -> None:
    """A colleague answers a mail."""
    subject = about["subject"] if about["subject"].lower().startswith("re:") else f"Re: {about['subject']}"
    send_from_outside(app, Letter(sender=sender, to=(about["to"],), subject=subject, body=text, in_reply_to=about["header_id"]))


def send_from_outside(app: LiveApp, letter: Letter) -> None:
    """Deliver a mail whose sender may have no mailbox here."""
    if app.one("SELECT 1 FROM account WHERE email = ?", letter.sender):
        send(app, letter)
        return
    content, answered = _write(app, letter)
    reached = list(dict.fromkeys(address_of(address) for address in (*letter.to, *letter.cc, *letter.bcc)))
    for address in reached:
        if app.one("SELECT 1 FROM account WHERE email = ?", address):
            message = _file(app, address, content, thread=_thread_of(app, address, answered), labels=["UNREAD", "INBOX"])
            _apply_filters(app, address, message)


# -- one mailbox -------------------------------------------------------------------------------------------------------


def message_of(app: LiveApp, owner: str, message: str) -> dict[str, Any]:
    """A mail in a mailbox, with its content; `ToolError` if there is none."""
    row = app.one(
        "SELECT content.*, message.id AS message, message.thread, message.draft FROM message JOIN content"
        " ON content.id = message.content WHERE owner = ? AND message.id = ?",
        owner, message,
    )  # fmt: skip
    if row is None:
        raise ToolError(NOT_FOUND)
    return row


def sender_line(row: dict[str, Any]) -> str:
    """`Ada Lovelace <ada@example.com>`."""
    return formataddr((row["sender_name"], row["sender"])) if row["sender_name"] else row["sender"]


def date_line(row: dict[str, Any]) -> str:
    """The date as in a mail's header."""
    return format_datetime(parse_time(row["at"]))


def change_labels(app: LiveApp, owner: str, message: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
    """Add and remove labels of a mail; `ToolError` if the mail or a label does not exist."""
    message_of(app, owner, message)
    known = {row["id"] for row in app.rows("SELECT id FROM label WHERE owner = ?", owner)} | set(SYSTEM_LABELS)
    for label in (*add, *remove):
        if label not in known or label in _NOT_SET_BY_HAND:
            raise ToolError(f"Error: Invalid label: {label}")
    for label in add:
        app.run("INSERT OR IGNORE INTO message_label (message, label) VALUES (?, ?)", message, label)
    for label in remove:
        app.run("DELETE FROM message_label WHERE message = ? AND label = ?", message, label)


def delete_message(app: LiveApp, owner: str, message: str) -> None:
    """Remove a mail from a mailbox for good; what others have of it stays."""
    row = message_of(app, owner, message)
    app.run("DELETE FROM message_label WHERE message = ?", message)
    app.run("DELETE FROM message WHERE id = ?", message)
    if not app.one("SELECT 1 FROM message WHERE content = ?", row["id"]):
        app.run("DELETE FROM attachment WHERE content = ?", row["id"])
        app.run("DELETE FROM content WHERE id = ?", row["id"])


def _apply_filters(app: LiveApp, owner: str, message: str) -> None:
    """Do what the owner's filters say to a mail that has just arrived."""
    for row in app.rows("SELECT criteria, action FROM filter WHERE owner = ? ORDER BY rowid", owner):
        if _fits_filter(app, owner, message, json.loads(row["criteria"])):
            action = json.loads(row["action"])
            for label in action.get("addLabelIds") or ():
                app.run("INSERT OR IGNORE INTO message_label (message, label) VALUES (?, ?)", message, label)
            for label in action.get("removeLabelIds") or ():
                app.run("DELETE FROM message_label WHERE message = ? AND label = ?", message, label)


def _fits_filter(app: LiveApp, owner: str, message: str, criteria: Json) -> bool:
    """True if a mail fits a filter. A filter that cannot be searched for fits none: the mail arrives all the same."""
    query = filter_query(criteria)
    try:
        return bool(query) and message in find_messages(app, owner, query, most=1, only=message)
    except ToolError:
        return False


def filter_query(criteria: Json) -> str:
    """The criteria of a filter as a search."""
    parts = [f"{name}:({criteria[name]})" for name in ("from", "to", "subject") if criteria.get(name)]
    parts += [f"({criteria['query']})"] if criteria.get("query") else []
    parts += [f"-({criteria['negatedQuery']})"] if criteria.get("negatedQuery") else []
    parts += ["has:attachment"] if criteria.get("hasAttachment") else []
    if criteria.get("size") is not None and criteria.get("sizeComparison") in {"smaller", "larger"}:
        parts.append(f"{criteria['sizeComparison']}:{int(criteria['size'])}")
    return " ".join(parts)
