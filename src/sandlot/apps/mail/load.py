"""Seed data for mail: plain records (from JSON or CSV), or an mbox file."""

import email.policy
import mailbox
from collections.abc import Iterable, Mapping
from contextlib import closing
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any

import msgspec

from sandlot.apps.clock import parse_time, time_text
from sandlot.apps.live import LiveApp
from sandlot.apps.mail.mailbox import Letter, add_account, address_of, change_labels, send_from_outside
from sandlot.core.errors import AuthorError


def load_mail(app: LiveApp, *, accounts: Mapping[str, str], messages: Iterable[Mapping[str, Any]] = ()) -> None:
    """Fill the mailboxes.

    - `accounts`: address -> name, for everyone who has a mailbox here.
    - `messages`: one record per mail, with the fields of `Letter`, oldest first: `sender`, `to`, `subject`, `body`, `at`, and
      maybe `cc`, `bcc`, `html`, `header_id` and `in_reply_to`. `read: true` marks it as read by everyone.
    """
    for address, name in accounts.items():
        add_account(app, address, name)
    for number, record in enumerate(messages):
        fields = dict(record)
        read = bool(fields.pop("read", False))
        try:
            if fields.get("at"):
                fields["at"] = time_text(parse_time(fields["at"]))
            letter = msgspec.convert({name: value for name, value in fields.items() if value is not None}, Letter)
        except (msgspec.ValidationError, ValueError) as error:
            raise AuthorError(f"message {number} of the mail to load: {error}; give the fields of `Letter`") from error
        send_from_outside(app, letter)
        if read:
            _mark_read(app)


def _mark_read(app: LiveApp) -> None:
    app.run(
        "DELETE FROM message_label WHERE label = 'UNREAD' AND message IN"
        " (SELECT id FROM message WHERE content = (SELECT max(id) FROM content))"
    )


def load_mbox(app: LiveApp, path: str | Path) -> int:
    """Deliver every mail of an mbox file to the mailboxes here, as when it was sent; the number of mails.

    Labels in `X-Gmail-Labels` and the status `R` in `Status` are kept. Mails without a date or a sender are an `AuthorError`.
    """
    count = 0
    try:
        box = mailbox.mbox(path, factory=None, create=False)
    except (mailbox.NoSuchMailboxError, OSError) as error:
        raise AuthorError(f"`{path}` cannot be read as an mbox file: {error}") from error
    with closing(box):
        for count, raw in enumerate(box, start=1):  # the number is returned
            message = email.message_from_bytes(raw.as_bytes(), policy=email.policy.default)
            assert isinstance(message, EmailMessage)
            send_from_outside(app, _letter_of(message, f"mail {count} of `{path}`"))
            if "R" in str(message["Status"] or ""):
                _mark_read(app)
            _keep_labels(app, str(message["X-Gmail-Labels"] or ""))
    return count


def _letter_of(message: EmailMessage, where: str) -> Letter:
    try:
        at = time_text(parsedate_to_datetime(str(message["Date"])))
    except (TypeError, ValueError) as error:
        raise AuthorError(f"{where} has no valid `Date`: {message['Date']!r}") from error
    if not message["From"]:
        raise AuthorError(f"{where} has no `From`")
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    files = [
        (part.get_filename() or "attachment", part.get_content_type(), part.get_payload(decode=True) or b"")
        for part in message.iter_attachments()
    ]
    return Letter(
        sender=address_of(str(message["From"])),
        to=_addresses(message, "To"),
        cc=_addresses(message, "Cc"),
        bcc=_addresses(message, "Bcc"),
        subject=str(message["Subject"] or ""),
        body=plain.get_content() if plain else "",
        html=html.get_content() if html else None,
        header_id=str(message["Message-ID"]) if message["Message-ID"] else None,
        in_reply_to=str(message["In-Reply-To"]) if message["In-Reply-To"] else None,
        attachments=tuple((name, mime, data) for name, mime, data in files if isinstance(data, bytes)),
        at=at,
    )


def _addresses(message: EmailMessage, header: str) -> tuple[str, ...]:
    return tuple(address for _, address in getaddresses([str(each) for each in message.get_all(header, [])]) if address)


def _keep_labels(app: LiveApp, names: str) -> None:
    """Give the last mail, in every mailbox, the labels of a Gmail export."""
    for row in app.rows("SELECT id, owner FROM message WHERE content = (SELECT max(id) FROM content)"):
        for name in filter(None, (each.strip() for each in names.split(","))):
            if name.lower() == "starred":
                change_labels(app, row["owner"], row["id"], add=["STARRED"])
