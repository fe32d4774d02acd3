"""Checks of mail that the agent wrote: one message (`.eml`) or a mailbox (mbox, or a folder of messages).

Messages are parsed with limits on size and parts. A message with two `To` or two `Subject` headers is refused, because mail
programs differ in which one they show.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses

from sandlot.checks.found import Said, shown
from sandlot.checks.text import find_facts
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_BYTES = 4 * 2**20
_MAX_MESSAGES = 1000
_MAX_PARTS = 200
_MAX_HEADER_CHARS = 20_000
_ONCE = ("from", "to", "cc", "bcc", "subject", "date")
_CHARSETS = re.compile(
    r"(?i)utf-?8|utf-?16(?:[bl]e)?|us-ascii|iso-?8859-\d{1,2}|windows-125\d|shift_jis|gb18030|euc-(?:jp|kr)|big5"
)
_TAGS = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class ParsedMail:
    """What checks read of one message."""

    sender: str
    recipients: Mapping[str, frozenset[str]]
    """`to`, `cc` and `bcc`: addresses in lower case."""
    subject: str
    body: str
    attachments: Mapping[str, bytes]


def mail_message(  # noqa: PLR0913 - the parts of a message, by keyword
    evidence: Evidence,
    path: str,
    *,
    to: Sequence[str] = (),
    cc: Sequence[str] = (),
    bcc: Sequence[str] = (),
    sender: str | None = None,
    subject: str | None = None,
    says: Sequence[str | Sequence[str]] = (),
    never_says: Sequence[str] = (),
    attachments: Mapping[str, str] | None = None,
) -> Said:
    """The message goes to exactly these people, with this subject, and its body states these facts and not the others.

    - `to`, `cc`, `bcc`: all addresses, in any order; nobody else may be in the header.
    - `subject`: compared without case and without `Re:`.
    - `says`, `never_says`: facts, as in `text_states`.
    - `attachments`: file name -> SHA-256 of the bytes, or "" for any content; no other attachment. None: not looked at.

    >>> mail_message(evidence, "/out/mail.eml", to=["ann@example.com"], subject="Your refund", says=["42.50"])
    (True, "to ann@example.com, 'Re: Your refund'")
    """
    wanted = _Wanted({"to": to, "cc": cc, "bcc": bcc}, sender, subject, says, never_says, attachments)
    letter = _letter(evidence.read(path), path)
    faults = _faults(letter, wanted)
    return not faults, "; ".join(faults[:3]) or f"to {', '.join(sorted(letter.recipients['to']))}, {shown(letter.subject)}"


def mailbox_message(  # noqa: PLR0913 - the parts of a message, by keyword
    evidence: Evidence,
    path: str,
    *,
    to: Sequence[str] = (),
    cc: Sequence[str] = (),
    sender: str | None = None,
    subject: str | None = None,
    says: Sequence[str | Sequence[str]] = (),
    never_says: Sequence[str] = (),
    messages: int | None = None,
) -> Said:
    """Exactly one message of the mailbox (an mbox file, or a folder of messages) is as `mail_message` asks.

    With `messages`, the mailbox has exactly that many. So a message to everyone with everything does not hide in many.

    >>> mailbox_message(evidence, "/out/sent.mbox", to=["ann@example.com"], says=["42.50"], messages=2)
    (True, 'one of 2 messages fits')
    """
    wanted = _Wanted({"to": to, "cc": cc, "bcc": ()}, sender, subject, says, never_says, None)
    letters = [_letter(data, path) for data in _mailbox(evidence, path)]
    fitting = [letter for letter in letters if not _faults(letter, wanted)]
    near = min((_faults(letter, wanted) for letter in letters), key=len, default=["the mailbox is empty"])
    if len(fitting) != 1:
        return False, f"{len(fitting)} of {len(letters)} messages fit" + (f": {near[0]}" if near else "")
    return messages in {None, len(letters)}, f"one of {len(letters)} messages fits"


@dataclass(frozen=True, slots=True)
class _Wanted:
    recipients: Mapping[str, Sequence[str]]
    sender: str | None
    subject: str | None
    says: Sequence[str | Sequence[str]]
    never_says: Sequence[str]
    attachments: Mapping[str, str] | None


def _faults(letter: ParsedMail, wanted: _Wanted) -> list[str]:
    faults = [
        f"`{field}` is {shown(sorted(letter.recipients[field]))}, not {shown(sorted(addresses))}"
        for field, addresses in wanted.recipients.items()
        if letter.recipients[field] != frozenset(address.strip().lower() for address in addresses)
    ]
    if wanted.sender is not None and letter.sender != wanted.sender.strip().lower():
        faults.append(f"it is from {shown(letter.sender)}")
    if wanted.subject is not None and _plain_subject(letter.subject) != _plain_subject(wanted.subject):
        faults.append(f"the subject is {shown(letter.subject)}")
    missing, wrong = find_facts(letter.body, wanted.says, wanted.never_says)
    faults += [f"the body does not state {shown(fact)}" for fact in missing]
    faults += [f"the body states {shown(fact)}" for fact in wrong]
    if wanted.attachments is not None:
        faults += _attachment_faults(letter.attachments, wanted.attachments)
    return faults


def _attachment_faults(found: Mapping[str, bytes], wanted: Mapping[str, str]) -> list[str]:
    faults = [f"there is no attachment {shown(name)}" for name in wanted if name not in found]
    faults += [f"attachment {shown(name)} is not expected" for name in found if name not in wanted]
    for name, digest in wanted.items():
        if name in found and digest and hashlib.sha256(found[name]).hexdigest() != digest.lower():
            faults.append(f"attachment {shown(name)} has other bytes")
    return faults


def _mailbox(evidence: Evidence, path: str) -> list[bytes]:
    """The messages of an mbox file or of a folder, as bytes."""
    if evidence.kind(path) == "folder":
        found = [evidence.read(each) for each in evidence.list(path)[: _MAX_MESSAGES + 1]]
    else:
        data = evidence.read(path)
        pieces = re.split(rb"(?m)^From [^\n]{0,500}\n", data[:_MAX_BYTES])
        found = [re.sub(rb"(?m)^>(>*From )", rb"\1", piece) for piece in pieces if piece.strip()]
    if len(found) > _MAX_MESSAGES or sum(map(len, found)) > _MAX_BYTES:
        raise NotInEvidence(f"`{path}` has too many messages to check", kind="cut")
    return found


def _letter(data: bytes, path: str) -> ParsedMail:
    """A parsed message; `NotInEvidence` if it is none."""
    if len(data) > _MAX_BYTES:
        raise NotInEvidence(f"`{path}` has {len(data):,} bytes; this check reads at most {_MAX_BYTES:,}", kind="cut")
    try:
        message = message_from_bytes(data)
        headers = {name: _header(message, name) for name in _ONCE}
        body, attachments = _parts(message)
    except (ValueError, LookupError, RecursionError, HeaderParseError, TypeError, AttributeError, AssertionError) as error:
        raise NotInEvidence(f"`{path}` is not a mail message: {type(error).__name__}: {error}") from error
    if not message.keys():
        raise NotInEvidence(f"`{path}` is not a mail message: it has no headers")
    people = {name: frozenset(_addresses(headers[name])) for name in ("to", "cc", "bcc")}
    return ParsedMail(next(iter(_addresses(headers["from"])), ""), people, headers["subject"], body, attachments)


def _header(message: Message, name: str) -> str:
    values = message.get_all(name, [])
    if len(values) > 1:
        raise ValueError(f"it has {len(values)} headers `{name}`")
    text = str(values[0]) if values else ""
    if len(text) > _MAX_HEADER_CHARS:
        raise ValueError(f"its header `{name}` has {len(text):,} characters")
    return " ".join(str(make_header(decode_header(text))).split())


def _addresses(text: str) -> list[str]:
    return [address.strip().lower() for _, address in getaddresses([text]) if address]


def _parts(message: Message) -> tuple[str, dict[str, bytes]]:
    """The text of the body (markup removed if there is no plain text), and the attachments by name."""
    plain, marked, attached = list[str](), list[str](), dict[str, bytes]()
    for number, part in enumerate(message.walk()):
        if number > _MAX_PARTS:
            raise ValueError(f"it has more than {_MAX_PARTS} parts")
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
        name = part.get_filename()
        if name or part.get_content_disposition() == "attachment":
            label = str(make_header(decode_header(name or ""))) or f"part {number}"
            if label in attached:
                raise ValueError(f"it has two attachments `{label[:80]}`")
            attached[label] = data
        elif part.get_content_type() == "text/plain":
            plain.append(_decoded(data, part))
        elif part.get_content_type() == "text/html":
            marked.append(_TAGS.sub(" ", _decoded(data, part)))
    return "\n".join(plain or marked), attached


def _decoded(data: bytes, part: Message) -> str:
    """Text of a part. Only plain character sets: some codecs of Python take quadratic time."""
    charset = str(part.get_content_charset() or "utf-8")
    return data.decode(charset if _CHARSETS.fullmatch(charset) else "latin-1", errors="replace")


def _plain_subject(text: str) -> str:
    return re.sub(r"^(?:(?:re|fwd?|aw)\s*:\s*)+", "", " ".join(text.split()).casefold())
