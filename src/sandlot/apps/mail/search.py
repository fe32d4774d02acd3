"""Gmail's search language, as SQL.

A query is parsed into a tree, and the tree into one condition with parameters: nothing that an agent writes becomes part of the
SQL text. Words are found in the full-text index, addresses and names by their parts.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sandlot.apps.clock import time_text
from sandlot.apps.live import LiveApp

_TOKEN = re.compile(
    r'\s*(?:(?P<open>[({])|(?P<close>[)}])|(?P<minus>-)(?=[^\s])|(?P<word>(?:[A-Za-z_]+:)?(?:"[^"]*"|[^\s(){}"]+))|(?P<junk>.))'
)
_OPERATOR = re.compile(r"(?P<name>[A-Za-z_]+):(?P<value>.*)", re.DOTALL)
_AGE = re.compile(r"(\d{1,5})([dmy])\Z")
_SIZE = re.compile(r"(\d{1,12})([kKmM]?)\Z")
_MAX_TERMS = 200
_MAX_QUERY = 10_000
"""Characters of a query that are read."""
_MAX_DEPTH = 20
_DAYS = {"d": 1, "m": 30, "y": 365}
_BYTES = {"": 1, "k": 1024, "m": 1024 * 1024}
_STATES = {"unread": "UNREAD", "starred": "STARRED", "important": "IMPORTANT"}

_Condition = tuple[str, list[Any]]
_NOTHING: _Condition = ("0", [])


@dataclass
class _Parse:
    """What is left of a query, and whom it is for."""

    tokens: list[tuple[str, str]]
    owner: str
    now: datetime
    terms: int = 0
    places: set[str] = field(default_factory=set[str])
    """Labels that the query names: then spam and trash are not left out."""


def find_messages(app: LiveApp, owner: str, query: str, *, most: int, only: str | None = None) -> list[str]:
    """The ids of the mails in a mailbox that a query finds, newest first."""
    found = _TOKEN.finditer(query[:_MAX_QUERY].rstrip())
    parse = _Parse([(match.lastgroup or "", match[match.lastgroup or 0]) for match in found], owner, app.now)
    groups = [_any_of(parse, 0)]
    while parse.tokens:  # a closing bracket without an opening one
        parse.tokens.pop(0)
        if parse.tokens and parse.tokens[0][0] != "close":
            groups.append(_any_of(parse, 0))
    condition, values = _joined(groups, "AND")
    hidden = "" if parse.places & {"SPAM", "TRASH", "*"} else f" AND NOT {_HAS_LABEL.replace('= ?', 'IN (?, ?)')}"
    one = " AND message.id = ?" if only else ""
    rows = app.rows(
        "SELECT message.id FROM message JOIN content ON content.id = message.content"  # noqa: S608 - conditions are made of constants
        f" WHERE message.owner = ? AND ({condition}){hidden}{one} ORDER BY content.at DESC, message.rowid DESC LIMIT ?",
        owner, *values, *(() if not hidden else ("SPAM", "TRASH")), *((only,) if only else ()), most,
    )  # fmt: skip
    return [row["id"] for row in rows]


_HAS_LABEL = "EXISTS (SELECT 1 FROM message_label WHERE message_label.message = message.id AND message_label.label = ?)"


def _any_of(parse: _Parse, depth: int) -> _Condition:
    """Terms up to a closing bracket: all of them, but either of two that OR joins."""
    terms: list[list[_Condition]] = []
    joined = False
    while parse.tokens and parse.tokens[0][0] != "close":
        kind, text = parse.tokens[0]
        if kind == "word" and text in {"OR", "|"}:
            parse.tokens.pop(0)
            joined = bool(terms)
            continue
        found = _one(parse, depth)
        if found is None:
            continue
        if joined:  # OR joins the two terms beside it
            terms[-1].append(found)
            joined = False
        else:
            terms.append([found])
    return _joined([_joined(options, "OR") for options in terms], "AND")


def _joined(conditions: list[_Condition], joint: str) -> _Condition:
    """Conditions side by side: SQLite refuses a query whose brackets are nested about a hundred deep."""
    if len(conditions) == 1:
        return conditions[0]
    text = f" {joint} ".join(f"({condition})" for condition, _ in conditions) or "1"
    return text, [value for _, values in conditions for value in values]


def _one(parse: _Parse, depth: int) -> _Condition | None:
    """One term: a word, an operator, a group in brackets, or its negation."""
    kind, text = parse.tokens.pop(0)
    parse.terms += 1
    if kind == "junk" or parse.terms > _MAX_TERMS or depth > _MAX_DEPTH:
        return None
    if kind == "minus":
        inner = _one(parse, depth + 1) if parse.tokens and parse.tokens[0][0] != "close" else None
        return None if inner is None else (f"NOT ({inner[0]})", inner[1])
    if kind == "open":
        return _bracket(parse, depth, text)
    return None if text in {"AND", "&"} else _term(parse, depth, text)


def _term(parse: _Parse, depth: int, text: str) -> _Condition | None:
    """A word, or an operator with its value."""
    match = _OPERATOR.fullmatch(text)
    if match is None or match["name"].lower() not in _OPERATORS:
        return _words(text)
    operator = _OPERATORS[match["name"].lower()]
    if not match["value"]:
        if parse.tokens and parse.tokens[0][0] == "open":  # from:(ada OR bob)
            bracket = parse.tokens.pop(0)[1]
            return _bracket(parse, depth, bracket, lambda word: operator(parse, word))
        return None
    return operator(parse, match["value"].strip('"'))


def _bracket(parse: _Parse, depth: int, opening: str, each: Callable[[str], _Condition] | None = None) -> _Condition:
    """A group: all of `(...)`, any of `{...}`. With `each`, its words are values of one operator."""
    if each is None and opening == "(":
        found = _any_of(parse, depth + 1)
    else:
        found = _list(parse, depth, each or _words, "OR" if opening == "{" else "AND")
    if parse.tokens and parse.tokens[0][0] == "close":
        parse.tokens.pop(0)
    return found


def _list(parse: _Parse, depth: int, each: Callable[[str], _Condition], joint: str) -> _Condition:
    found: list[_Condition] = []
    while parse.tokens and parse.tokens[0][0] != "close":
        kind, text = parse.tokens[0]
        if kind == "word" and text == "OR":
            joint = "OR"
            parse.tokens.pop(0)
        elif kind == "word" and each is not _words:
            parse.tokens.pop(0)
            parse.terms += 1
            if parse.terms <= _MAX_TERMS:
                found.append(each(text.strip('"')))
        elif one := _one(parse, depth + 1):
            found.append(one)
    return _joined(found, joint)


# -- terms -------------------------------------------------------------------------------------------------------------


def _words(text: str) -> _Condition:
    """Words anywhere in a mail; in quotes, in this order."""
    phrase = " ".join(re.findall(r"\w+", text.strip('"')))
    if not phrase:
        return "1", []
    return "content.id IN (SELECT rowid FROM content_text WHERE content_text MATCH ?)", [f'"{phrase}"']


def _column(*columns: str) -> Callable[[_Parse, str], _Condition]:
    def condition(_parse: _Parse, value: str) -> _Condition:
        if value == "me":
            value = _parse.owner
        found = " OR ".join(f"instr(lower(content.{column}), ?)" for column in columns)
        return found, [value.lower()] * len(columns)

    return condition


def _blind_copy(parse: _Parse, value: str) -> _Condition:
    """Blind copies are known to the sender alone."""
    found, values = _column("bcc_list")(parse, value)
    return f"content.sender = ? AND {found}", [parse.owner, *values]


def _subject(_parse: _Parse, value: str) -> _Condition:
    phrase = " ".join(re.findall(r"\w+", value))
    if not phrase:
        return "1", []
    return "content.id IN (SELECT rowid FROM content_text WHERE content_text MATCH ?)", [f'subject : "{phrase}"']


def _label(parse: _Parse, value: str) -> _Condition:
    wanted = value.lower()
    if wanted in {"anywhere", "all"}:
        parse.places.add("*")
        return "1", []
    if wanted == "archive":
        return f"NOT {_HAS_LABEL}", ["INBOX"]
    name = {"drafts": "DRAFT", "draft": "DRAFT", "sent": "SENT"}.get(wanted, value.upper())
    parse.places.add(name)
    own = "SELECT id FROM label WHERE label.owner = ? AND replace(replace(lower(label.name), ' ', '-'), '/', '-') = ?"
    spelled = wanted.replace(" ", "-").replace("/", "-")
    named = f"message_label.label IN (?, ?) OR message_label.label IN ({own})"
    found = f"EXISTS (SELECT 1 FROM message_label WHERE message_label.message = message.id AND ({named}))"  # noqa: S608 - constants
    return found, [name, value, parse.owner, spelled]


def _state(_parse: _Parse, value: str) -> _Condition:
    if value.lower() == "read":
        return f"NOT {_HAS_LABEL}", ["UNREAD"]
    name = _STATES.get(value.lower())
    return (_HAS_LABEL, [name]) if name else _label(_parse, value)


def _has(_parse: _Parse, value: str) -> _Condition:
    if value.lower() == "attachment":
        return "EXISTS (SELECT 1 FROM attachment WHERE attachment.content = content.id)", []
    if value.lower() == "userlabels":
        return "EXISTS (SELECT 1 FROM message_label WHERE message_label.message = message.id AND label LIKE 'Label_%')", []
    return _NOTHING


def _filename(_parse: _Parse, value: str) -> _Condition:
    found = "EXISTS (SELECT 1 FROM attachment WHERE attachment.content = content.id AND instr(lower(filename), ?))"
    return found, [value.lower()]


def _date(sign: str) -> Callable[[_Parse, str], _Condition]:
    def condition(_parse: _Parse, value: str) -> _Condition:
        try:
            if value.isdecimal() and len(value) > 8:
                day = datetime.fromtimestamp(int(value[:11]), UTC)
            else:
                numbers = [int(part) for part in re.split(r"[-/.]", value)]
                year, month, date = numbers if numbers[0] > 31 else (numbers[2], numbers[0], numbers[1])
                day = datetime(year, month, date, tzinfo=UTC)
        except (ValueError, IndexError, OverflowError):
            return _NOTHING
        return f"content.at {sign} ?", [time_text(day)]

    return condition


def _age(sign: str) -> Callable[[_Parse, str], _Condition]:
    def condition(parse: _Parse, value: str) -> _Condition:
        match = _AGE.match(value.lower())
        if match is None:
            return _NOTHING
        days = min(int(match[1]) * _DAYS[match[2]], 365 * 1000)
        return f"content.at {sign} ?", [time_text(parse.now - timedelta(days=days))]

    return condition


def _size(sign: str) -> Callable[[_Parse, str], _Condition]:
    def condition(_parse: _Parse, value: str) -> _Condition:
        match = _SIZE.match(value)
        if match is None:
            return _NOTHING
        total = (
            "length(content.body) + coalesce(length(content.html), 0)"
            " + (SELECT coalesce(sum(length(data)), 0) FROM attachment WHERE attachment.content = content.id)"
        )
        return f"{total} {sign} ?", [int(match[1]) * _BYTES[match[2].lower()]]

    return condition


def _header(_parse: _Parse, value: str) -> _Condition:
    return "trim(content.header_id, '<>') = ?", [value.strip("<>")]


_OPERATORS: dict[str, Callable[[_Parse, str], _Condition]] = {
    "from": _column("sender", "sender_name"),
    "to": _column("to_list", "cc_list"),
    "cc": _column("cc_list"),
    "bcc": _blind_copy,
    "deliveredto": _column("to_list", "cc_list"),
    "list": _column("to_list"),
    "subject": _subject,
    "label": _label,
    "in": _label,
    "category": lambda parse, value: _label(parse, f"CATEGORY_{value.upper()}"),
    "is": _state,
    "has": _has,
    "filename": _filename,
    "after": _date(">="),
    "newer": _date(">="),
    "before": _date("<"),
    "older": _date("<"),
    "newer_than": _age(">="),
    "older_than": _age("<"),
    "larger": _size(">"),
    "size": _size(">"),
    "smaller": _size("<"),
    "rfc822msgid": _header,
}
