"""Edits of documents that golden leaves: files, and answers with several values.

JSON, tables and lines of `name: value` are changed value by value and row by row; any document is emptied, cut and replaced.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from sandlot.audit.probes.grader.asking import NONSENSE
from sandlot.audit.probes.likeness import leaves
from sandlot.core.types import Json

_LINE = re.compile(r"^(\s*(?:[-*]\s+)?[A-Za-z][\w ./()-]{0,40}?\s*[:=]\s*)(\S.{0,200}?)\s*$")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_MOST_LEAVES, _MOST_ROWS = 12, 6
_LONGEST = 40_000


@dataclass(frozen=True, slots=True)
class DocumentEdit:
    """One change of a document."""

    kind: str
    """`ten times as much`, `without its last row`: what findings are grouped by."""
    name: str
    """The field or column; empty if it is about rows or the whole."""
    text: str
    """The document with it."""
    lost: tuple[str, ...] = ()
    """The values of golden's that it no longer states where they belong."""
    instead: str | None = None
    """What stands in their place; None if nothing does."""
    added: bool = False
    """True if it states what golden does not, and nothing less."""


def document_edits(text: str, others: Sequence[str]) -> list[DocumentEdit]:
    """Every edit, each with another text than golden's. `others` are the same document of other tasks."""
    if not text.strip() or len(text) > _LONGEST:
        return []
    found = {edit.text: edit for edit in _every(text, others) if edit.text.strip() != text.strip()}
    return list(found.values())


def _every(text: str, others: Sequence[str]) -> Iterator[DocumentEdit]:
    other = next((each for each in others if each.strip() and each.strip() != text.strip()), None)
    data = _json(text)
    rows = _table(text) if data is None else None
    if data is not None:
        yield from _of_json(data)
    elif rows is not None:
        yield from _of_table(*rows, _table(other) if other is not None else None)
    else:
        yield from _of_lines(text)
    values = tuple(_values(text))
    yield DocumentEdit("emptied", "", "\n", values)
    if other is not None:
        yield DocumentEdit(
            "of another task", "", other, tuple(each for each in values if each not in set(_values(other))), "others"
        )


def _values(text: str) -> list[str]:
    """The values that a document states, as far as they can be told apart."""
    data = _json(text)
    if data is not None:
        return [_shown(value) for value in leaves(data).values() if value not in (None, "", True, False)]
    rows = _table(text)
    if rows is not None:
        return [cell for row in rows[1][1:] for cell in row if cell.strip()]
    return [found[2] for line in text.splitlines() if (found := _LINE.match(line))] or text.split()


# -- JSON --------------------------------------------------------------------------------------------------------------


def _json(text: str) -> Any:
    """The object or list in a text; None if it is none, or empty."""
    try:
        found: Any = msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if found and isinstance(found, dict | list) else None  # pyright: ignore[reportUnknownVariableType]


def _of_json(data: Any) -> Iterator[DocumentEdit]:
    for steps, value in list(_leaves(data, ()))[:_MOST_LEAVES]:
        name = next((step for step in reversed(steps) if isinstance(step, str)), "")
        for kind, wrong in _wrong(value):
            yield DocumentEdit(kind, name, _encoded(_with(data, steps, wrong)), (_shown(value),), _shown(wrong))
        if steps and isinstance(steps[-1], str):
            yield DocumentEdit("left out", name, _encoded(_without(data, steps)), (_shown(value),))
    for steps, rows in list(_lists(data, ()))[:3]:
        name = next((step for step in reversed(steps) if isinstance(step, str)), "")
        for kind, fewer in (
            ("without its last row", rows[:-1]),
            ("without its first row", rows[1:]),
            ("with its first row only", rows[:1]),
        ):
            lost = rows[len(fewer) :] if kind != "without its first row" else rows[:1]
            if len(fewer) < len(rows):
                yield DocumentEdit(kind, name, _encoded(_with(data, steps, fewer)), tuple(_row_values(lost, fewer)))
        yield DocumentEdit("with every row twice", name, _encoded(_with(data, steps, rows * 2)), added=True)


def _row_values(lost: list[Any], kept: list[Any]) -> list[str]:
    held = {_shown(value) for value in leaves(kept).values()}
    return [shown for value in leaves(lost).values() if (shown := _shown(value)) not in held and not isinstance(value, bool)]


def _leaves(thing: Any, steps: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    children = _children(thing)
    if children:
        for name, value in children:
            yield from _leaves(value, (*steps, name))
    elif children is None:
        yield steps, thing


def _lists(thing: Any, steps: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    if isinstance(thing, list) and len(cast("list[Any]", thing)) > 1:
        yield steps, cast("list[Any]", thing)
    for name, value in _children(thing) or ():
        yield from _lists(value, (*steps, name))


def _children(thing: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(thing, dict):
        return list(cast("Json", thing).items())
    return list(enumerate(cast("list[Any]", thing))) if isinstance(thing, list) else None


def _with(thing: Any, steps: tuple[Any, ...], value: Any) -> Any:
    if not steps:
        return value
    changed: Any = dict(cast("Json", thing)) if isinstance(thing, dict) else list(cast("list[Any]", thing))
    changed[steps[0]] = _with(changed[steps[0]], steps[1:], value)
    return changed


def _without(thing: Any, steps: tuple[Any, ...]) -> Any:
    if len(steps) == 1:
        return {name: value for name, value in cast("Json", thing).items() if name != steps[0]}
    return _with(thing, steps[:-1], _without(_at(thing, steps[:-1]), steps[-1:]))


def _at(thing: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        thing = thing[step]
    return thing


def _encoded(thing: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(thing), indent=2).decode()


# -- tables and lines --------------------------------------------------------------------------------------------------


def _table(text: str) -> tuple[str, list[list[str]]] | None:
    """The delimiter and rows of a table with a header; None if the text is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    for mark in (",", "\t", ";", "|"):
        if len(lines) > 1 and mark in lines[0]:
            rows = list(csv.reader(lines, delimiter=mark))
            if len({len(row) for row in rows}) == 1:
                return mark, rows
    return None


def _of_table(mark: str, rows: list[list[str]], other: tuple[str, list[list[str]]] | None) -> Iterator[DocumentEdit]:
    head, body = rows[0], rows[1:]
    fewer = {"without its last row": body[:-1], "without its first row": body[1:], "with its first row only": body[:1]}
    for kind, kept in {**fewer, "without its rows": []}.items():
        held = {cell for row in kept for cell in row}
        lost = tuple(cell for row in body if row not in kept for cell in row if cell not in held)
        if len(kept) < len(body):
            yield DocumentEdit(kind, "", _written(mark, [head, *kept]), lost)
    yield DocumentEdit("with every row twice", "", _written(mark, [head, *body, *body]), added=True)
    if other is not None and other[1][0] == head and (more := [row for row in other[1][1:] if row not in body]):
        yield DocumentEdit("with rows of another task", "", _written(mark, [*rows, *more]), added=True)
    for at in sorted({0, len(body) - 1}):
        for column, name in enumerate(head):
            for kind, wrong in _wrong(_read(body[at][column])):
                changed = [*body[at][:column], _shown(wrong), *body[at][column + 1 :]]
                text = _written(mark, [head, *body[:at], changed, *body[at + 1 :]])
                yield DocumentEdit(kind, name.strip(), text, (body[at][column].strip(),), _shown(wrong))


def _written(mark: str, rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _of_lines(text: str) -> Iterator[DocumentEdit]:
    lines = text.splitlines()
    named = [(at, found) for at, line in enumerate(lines) if (found := _LINE.match(line))]
    for at, found in named[: 2 * _MOST_ROWS]:
        name = found[1].strip(" \t-*:=")
        rest = [*lines[:at], *lines[at + 1 :]]
        yield DocumentEdit("left out", name, "\n".join(rest) + "\n", (found[2],))
        for kind, wrong in _wrong(_read(found[2])):
            changed = [*lines[:at], found[1] + _shown(wrong), *lines[at + 1 :]]
            yield DocumentEdit(kind, name, "\n".join(changed) + "\n", (found[2],), _shown(wrong))
    if not named and len(lines) > 1:
        for kind, kept in (("without its last row", lines[:-1]), ("with its first row only", lines[:1])):
            lost = tuple(line.strip() for line in lines[len(kept) :] if line.strip())
            yield DocumentEdit(kind, "", "\n".join(kept) + "\n", lost)


def _wrong(value: Any) -> Iterator[tuple[str, Any]]:
    """Wrong values for a right one, each with its kind."""
    if isinstance(value, bool):
        yield "reversed", not value
    elif isinstance(value, int | float):
        yield "ten times as much", value * 10 + (7 if not value else 0)
        if value:
            yield "with the other sign", -value
    elif isinstance(value, str) and value.strip():
        yield "replaced by nonsense", NONSENSE
        numbers = list(_NUMBER.finditer(value))
        if numbers:
            last = numbers[-1]
            yield "with another number in it", f"{value[: last.start()]}{int(float(last[0])) + 37}{value[last.end() :]}"


def _read(text: str) -> Any:
    plain = text.strip()
    if re.fullmatch(r"[-+]?\d{1,15}", plain):
        return int(plain)
    return float(plain) if re.fullmatch(r"[-+]?\d{1,12}\.\d{1,12}", plain) else plain


def _shown(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
