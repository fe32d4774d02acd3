"""Changes to the checks of a rubric's file that keep the rest of it as it is: order, line breaks, indentation.

A check that does not change keeps its bytes, and so does every field of a changed check that does not.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class CheckEdit:
    """One check of the new list."""

    was: int | None
    """Its place in the file, from 0; None if it is new."""
    check: Json
    """All of its fields."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A value in a text, with the key before it if it is in an object."""

    start: int
    """Of the key, or of the value if there is none."""
    value: int
    end: int
    key: str = ""


def edit_checks(text: str, edits: Sequence[CheckEdit]) -> str:
    """The text of a rubric with these checks, in this order. Checks of the file that no edit names are left out."""
    top = {span.key: span for span in _members(text, _skip(text, 0))}
    if "checks" not in top:
        raise ConfigError("the file has no `checks`")
    array = top["checks"]
    spans = list(_items(text, array.value))
    places = [edit.was for edit in edits if edit.was is not None]
    if len(places) != len(set(places)) or not all(0 <= place < len(spans) for place in places):
        raise ConfigError(f"the checks {places} are not all different ones of the {len(spans)} in the file; load the page again")
    usual = text[spans[0].end : spans[1].start] if len(spans) > 1 else ",\n    "
    pieces = [_written(text, spans, edit) for edit in edits]
    seams: list[str] = []
    for before, after in pairwise(edits):
        neighbours = before.was is not None and after.was == before.was + 1
        seams.append(text[spans[after.was - 1].end : spans[after.was].start] if neighbours and after.was else usual)
    head = text[array.value : spans[0].start] if spans else "["
    tail = text[spans[-1].end : array.end] if spans else "]"
    body = "".join(piece + seam for piece, seam in zip(pieces, [*seams, ""], strict=True)) if pieces else ""
    return text[: array.value] + head + body + tail + text[array.end :]


def _written(text: str, spans: Sequence[_Span], edit: CheckEdit) -> str:
    """The text of one check."""
    if edit.was is not None:
        span = spans[edit.was]
        return _change_object(text[span.start : span.end], edit.check)
    if spans and "\n" in text[spans[0].start : spans[0].end]:  # as its neighbours: one field per line
        line = text.rfind("\n", 0, spans[0].start) + 1
        indent = text[line : spans[0].start] if text[line : spans[0].start].isspace() else ""
        return json.dumps(edit.check, ensure_ascii=False, indent=2).replace("\n", "\n" + indent)
    return json.dumps(edit.check, ensure_ascii=False)


def _change_object(text: str, wanted: Json) -> str:
    """The text of an object with these fields; those that are equal keep their bytes."""
    now = json.loads(text)
    if now == wanted:
        return text
    spans = list(_members(text, 0))
    usual = text[spans[0].end : spans[1].start] if len(spans) > 1 else ", "
    parts: list[tuple[str, str]] = []
    for place, span in enumerate(spans):
        if span.key not in wanted:
            continue
        seam = text[spans[place - 1].end : span.start] if place else usual
        value = text[span.value : span.end] if now[span.key] == wanted[span.key] else _dump(wanted[span.key])
        parts.append((seam, text[span.start : span.value] + value))
    parts += [(usual, f"{_dump(name)}: {_dump(value)}") for name, value in wanted.items() if name not in now]
    body = "".join((seam if place else "") + part for place, (seam, part) in enumerate(parts))
    head = text[: spans[0].start] if spans else "{"
    tail = text[spans[-1].end :] if spans else "}"
    return head + body + tail


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _members(text: str, position: int) -> Iterator[_Span]:
    """The fields of the object that begins here."""
    position = _skip(text, position + 1)
    while text[position] == '"':
        start = position
        key, position = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, position) + 1)  # over the colon
        _, end = _DECODER.raw_decode(text, value)
        yield _Span(start, value, end, key)
        position = _over_comma(text, end)


def _items(text: str, position: int) -> Iterator[_Span]:
    """The values of the array that begins here."""
    position = _skip(text, position + 1)
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        yield _Span(position, position, end)
        position = _over_comma(text, end)


def _over_comma(text: str, position: int) -> int:
    position = _skip(text, position)
    return _skip(text, position + 1) if text[position] == "," else position


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
