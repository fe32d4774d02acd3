"""What the agent did, in order, in words of the trades: messages sent, records made, changed and removed.

It comes from the journal that the apps keep of every changed row, so it does not matter by which tool a change was made.
"""
# ruff: noqa: PLR0911, SIM102 - records, wordings and tables stand on one line

import re
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from sandlot import Evidence

from .facts import has_words, is_dump, plain, states
from .hands import DESK

TABLES: dict[tuple[str, str], tuple[str, str]] = {
    ("tickets", "issue"): ("ticket", "key"),
    ("tickets", "comment"): ("comment", "issue"),
    ("tickets", "issue_label"): ("ticket", "issue"),
    ("tickets", "issue_version"): ("ticket", "issue"),
    ("tickets", "version"): ("version", "name"),
    ("tickets", "issue_link"): ("link", "inward"),
    ("tickets", "worklog"): ("worklog", "issue"),
}
"""Rows of which table are which kind of record, and the column with its key."""


@dataclass(slots=True)
class Deed:
    order: int
    app: str
    kind: str
    key: str
    values: dict[str, Any]
    new: bool = False
    removed: bool = False
    via: str = ""
    to: frozenset[str] = frozenset()
    cc: frozenset[str] = frozenset()
    text: str = ""
    sender: str = ""

    def fits(self, where: dict[str, Any]) -> bool:
        return all(value_fits(self.values.get(name), wanted) for name, wanted in where.items())

    @property
    def record(self) -> str:
        """Which record of its kind it is about; some kinds have keys that several records share."""
        return str(self.values.get("id") or self.key)

    def ids(self, prefix: str) -> set[str]:
        return {name.upper() for name in re.findall(rf"\b{prefix}-\d+", plain(self.text), re.IGNORECASE)}


def value_fits(value: Any, wanted: Any) -> bool:
    """A plain value must be equal; `{"has": words}`, `{"lacks": words}`, `{"fact": fact}`, `{"any": [...]}` ask for less."""
    if isinstance(wanted, dict):
        if "has" in wanted:
            return isinstance(value, str | list) and not is_dump(str(value)) and has_words(str(value), wanted["has"])
        if "lacks" in wanted:
            return not has_words(str(value or ""), wanted["lacks"])
        if "fact" in wanted:
            return isinstance(value, str) and not is_dump(value) and states(value, wanted["fact"])
        if "any" in wanted:
            return any(value_fits(value, each) for each in wanted["any"])
        if "all" in wanted:
            return all(value_fits(value, each) for each in wanted["all"])
        raise ValueError(f"no way to compare with {wanted}")
    if isinstance(wanted, list):
        return isinstance(value, list | tuple) and sorted(map(str, value)) == sorted(map(str, wanted))
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        try:
            return abs(float(value) - wanted) < 0.005
        except (TypeError, ValueError):
            return False
    if isinstance(wanted, str) and isinstance(value, str):
        return value.strip().casefold() == wanted.strip().casefold()
    return value == wanted


@dataclass(slots=True)
class Desk:
    """Everything the agent did, and what it heard."""

    deeds: list[Deed] = field(default_factory=list)
    heard: list[Deed] = field(default_factory=list)
    """Messages of others that came while it worked."""

    @property
    def messages(self) -> list[Deed]:
        return [deed for deed in self.deeds if deed.via]

    def of(self, app: str) -> list[Deed]:
        return [deed for deed in self.deeds if deed.app == app]

    def made(self, kind: str) -> list[Deed]:
        return [deed for deed in self.deeds if deed.kind == kind and deed.new]

    def standing(self, kind: str) -> list[Deed]:
        """The records of a kind that were made and are still there, each as its last deed left it."""
        last = {deed.record: deed for deed in self.deeds if deed.kind == kind}
        return [last[deed.record] for deed in self.made(kind) if not last[deed.record].removed]

    def changed(self, kind: str, key: str) -> list[Deed]:
        return [deed for deed in self.deeds if deed.kind == kind and deed.key == key and not deed.new]

    def first(self, what: dict[str, Any]) -> int | None:
        """When something happened first; None if it did not."""
        return next((deed.order for deed in self.like(what)), None)

    def like(self, what: dict[str, Any]) -> list[Deed]:
        if "message" in what:
            select = what["message"]
            wanted = select["to"] if isinstance(select["to"], list) else [select["to"]]
            found = [
                deed for deed in self.messages if deed.via == select["via"] and all(each in deed.to | deed.cc for each in wanted)
            ]
            return [deed for deed in found if "fact" not in what or states(deed.text, what["fact"])]
        if "heard" in what:
            return [
                deed
                for deed in self.heard
                if deed.sender == what["heard"] and all(has_words(deed.text, word) for word in what.get("words", ()))
            ]
        if "made" in what:
            return [deed for deed in self.made(what["made"]) if deed.fits(what.get("where", {}))]
        if "changed" in what:
            own = {deed.key for deed in self.made(what["changed"])}
            found = [
                deed
                for deed in self.deeds
                if deed.kind == what["changed"] and deed.key not in own and what.get("key") in {None, deed.key}
            ]
            return [deed for deed in found if deed.fits(what.get("where", {}))]
        if "removed" in what:
            return [
                deed for deed in self.deeds if deed.removed and deed.kind == what["removed"] and deed.fits(what.get("where", {}))
            ]
        raise ValueError(f"no way to look for {what}")


_KNOWN: "WeakKeyDictionary[Any, Desk]" = WeakKeyDictionary()


def deeds_of(evidence: Evidence) -> Desk:
    """The deeds of a finished rollout; read once for all checks."""
    if evidence not in _KNOWN:
        _KNOWN[evidence] = read_deeds(evidence)
    return _KNOWN[evidence]


def read_deeds(evidence: Evidence) -> Desk:
    desk = Desk()
    for order, change in enumerate(evidence.apps.changes(cause=None)):
        if change.cause == "setup":
            continue
        deed = READERS.get(change.app, read_row)(evidence, order, change)
        if deed is None:
            continue
        (desk.deeds if change.cause == "agent" else desk.heard).append(deed)
    return desk


def read_row(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """A changed row as a deed; rows that only follow from others are left out."""
    kind, column = TABLES.get((change.app, change.table), ("", ""))
    row = change.after or change.before
    if not kind:
        return None
    return Deed(order, change.app, kind, str(row[column]), dict(row), new=change.before is None, removed=change.after is None)


def read_mail(evidence: Evidence, order: int, change: Any) -> Deed | None:
    row = change.after or change.before
    if change.table == "content" and change.before is None:
        if change.by == "draft_email":
            return Deed(order, "mail", "draft", str(row["id"]), dict(row), new=True)
        if change.cause == "agent" and row["sender"] != DESK:
            return None  # a notice that an app sent on its own
        to, cc = addresses(row["to_list"]), addresses(row["cc_list"]) | addresses(row["bcc_list"])
        text = f"{row['subject']}\n{row['body'] or row['html'] or ''}"
        return Deed(
            order, "mail", "mail", str(row["id"]), dict(row), new=True, via="mail", to=to, cc=cc, text=text, sender=row["sender"]
        )
    if change.table == "message" and change.after is None:
        return Deed(order, "mail", "deleted mail", row["id"], dict(row), removed=True)
    if change.table in {"label", "filter"}:
        return Deed(order, "mail", change.table, str(row["id"]), dict(row), new=change.before is None)
    if change.table == "message_label" and row["label"] not in {"UNREAD", "INBOX", "SENT", "DRAFT", "IMPORTANT", "STARRED"}:
        return Deed(order, "mail", "label", row["message"], dict(row), new=change.before is None)
    return None


def addresses(text: str) -> frozenset[str]:
    return frozenset(each.casefold() for each in re.findall(r"[^\s<>,;]+@[^\s<>,;]+", text or ""))


def read_tickets(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """A ticket with what stands in other tables: its labels, its fix versions, its assignee's address."""
    deed = read_row(evidence, order, change)
    if deed is None or deed.kind != "ticket":
        return deed
    key = deed.key
    row = evidence.apps.tickets.one("SELECT * FROM issue WHERE key = ?", key) or {}
    if change.table == "issue" and change.before is not None and change.after is not None:
        if all(change.before[name] == change.after[name] for name in change.after if name != "updated"):
            return None
    deed.new = change.table == "issue" and change.before is None
    deed.removed = change.table == "issue" and change.after is None
    deed.values = dict(row) if row else deed.values
    rows = evidence.apps.tickets.rows
    deed.values["labels"] = [each["label"] for each in rows("SELECT label FROM issue_label WHERE issue = ? ORDER BY label", key)]
    versions = "SELECT version AS name FROM issue_version WHERE issue = ? AND kind = 'fix' ORDER BY version"
    deed.values["versions"] = [each["name"] for each in rows(versions, key)]
    for column in ("assignee", "reporter"):
        person = row.get(column) and evidence.apps.tickets.one("SELECT email FROM person WHERE account_id = ?", row[column])
        deed.values[column] = person["email"] if person else None
    return deed


def read_books(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """Documents and payments, with amounts in euros and the names instead of ids."""
    row = dict(change.after or change.before)
    books = evidence.apps.accounting
    if change.table == "invoice":
        kind, key = "invoice" if row["type"] == "ACCREC" else "bill", row["number"]
    elif change.table == "payment":
        kind, key = "payment", row["id"]
        row["invoice"] = books.one("SELECT number FROM invoice WHERE id = ?", row["invoice"])["number"]
        row["account"] = books.one("SELECT code FROM account WHERE id = ?", row["account"])["code"]
    elif change.table in {"credit_note", "manual_journal", "bank_transaction", "contact"}:
        kind, key = (
            change.table.replace("_", " ").replace("manual ", ""),
            str(row.get("number") or row.get("name") or row.get("id")),
        )
    else:
        return None
    if change.table in {"credit_note", "invoice"}:
        row["contact"] = books.one("SELECT name FROM contact WHERE id = ?", row["contact"])["name"]
    row |= {name: row[name] / 100 for name in ("amount", "subtotal", "tax", "total", "paid") if isinstance(row.get(name), int)}
    removed = change.after is None or row.get("status") in {"DELETED", "VOIDED"}
    return Deed(order, "accounting", kind, key, row, new=change.before is None, removed=removed)


def read_chat(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """A post: to `#channel`, or to the addresses of a direct message."""
    if change.table != "message" or change.before is not None:
        return None
    row, chat = change.after, evidence.apps.chat
    channel = chat.one("SELECT * FROM channel WHERE id = ?", row["channel"])
    members = chat.rows(
        "SELECT email FROM member JOIN membership ON membership.member = member.id WHERE channel = ?", row["channel"]
    )
    sender = chat.one("SELECT email FROM member WHERE id = ?", row["member"])["email"]
    to = {f"#{channel['name']}"} if channel["kind"] == "public" else {each["email"] for each in members} - {sender}
    return Deed(
        order, "chat", "post", row["ts"], dict(row), new=True, via="chat", to=frozenset(to), text=row["text"], sender=sender
    )


def read_calendar(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """An event with its guests; the desk itself does not count as one."""
    row = dict(change.after or change.before)
    if change.table == "attendee":
        name = row["event"]
    elif change.table == "event":
        name = row["id"]
    else:
        return None
    calendar = evidence.apps.calendar
    now = calendar.one("SELECT * FROM event WHERE id = ?", name)
    if now is None and change.table == "attendee":
        return None  # it went with the event
    values = dict(now or row)
    guests = calendar.rows("SELECT email FROM attendee WHERE event = ? AND hidden = 0 ORDER BY email", name)
    values |= {"attendees": [each["email"] for each in guests if each["email"] != DESK]}
    values |= {side: values[side].removesuffix("Z").removesuffix(".000") for side in ("start", "end")}
    new = change.table == "event" and change.before is None
    return Deed(order, "calendar", "event", name, values, new=new, removed=now is None or values["status"] == "cancelled")


def read_directory(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """People by address, requests for leave by address and first day."""
    row, people = dict(change.after or change.before), evidence.apps.directory
    if change.table == "employee":
        above = row["manager"] and people.one("SELECT email FROM employee WHERE id = ?", row["manager"])
        row["manager"] = above["email"] if above else None
        return Deed(order, "directory", "person", row["email"], row, new=change.before is None, removed=change.after is None)
    if change.table == "time_off":
        person = people.one("SELECT email FROM employee WHERE id = ?", row["employee"])["email"]
        return Deed(
            order, "directory", "leave", f"{person} {row['start']}", row, new=change.before is None, removed=change.after is None
        )
    return None


CRM_KINDS = {"deals": "deal", "companies": "company", "contacts": "contact record", "notes": "note", "tasks": "note"}


def read_crm(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """A deal by its number, a company by its name; with all of its properties and the owner's address."""
    crm, row = evidence.apps.crm, dict(change.after or change.before)
    if change.table == "association":
        return Deed(order, "crm", "association", str(row["from_id"]), row, new=change.before is None)
    if change.table not in {"object", "property_value"}:
        return None
    number = row["id"] if change.table == "object" else row["object"]
    kind = crm.one("SELECT type FROM object WHERE id = ?", number)
    values = {each["name"]: each["value"] for each in crm.rows("SELECT name, value FROM property_value WHERE object = ?", number)}
    if kind is None or (
        change.table == "object" and change.before and change.after and change.before["archived"] == change.after["archived"]
    ):
        return None
    owner = crm.one("SELECT email FROM owner WHERE id = ?", values.get("hubspot_owner_id"))
    values["owner"] = owner["email"] if owner else None
    name = values.get("dealname", "").split(" ")[0] or values.get("name") or values.get("email") or str(number)
    made = change.table == "object" and change.before is None
    values["id"] = number
    removed = change.table == "object" and (change.after is None or bool(change.after["archived"]))
    return Deed(order, "crm", CRM_KINDS.get(kind["type"], kind["type"]), name, values, new=made, removed=removed)


def read_wiki(evidence: Evidence, order: int, change: Any) -> Deed | None:
    """A page by its title, with its final text."""
    row = dict(change.after or change.before)
    if change.table == "comment":
        return Deed(order, "wiki", "page comment", str(row["page"]), row, new=change.before is None)
    if change.table != "page":
        return None
    now = evidence.apps.wiki.one("SELECT * FROM page WHERE id = ?", row["id"]) or row
    values = {"id": row["id"], "title": now["title"], "space": now["space"], "body": now["content"]}
    key = (change.before or now)["title"]
    return Deed(order, "wiki", "page", key, values, new=change.before is None, removed=change.after is None)


READERS = {
    "wiki": read_wiki,
    "crm": read_crm,
    "directory": read_directory,
    "calendar": read_calendar,
    "chat": read_chat,
    "mail": read_mail,
    "tickets": read_tickets,
    "accounting": read_books,
}
