"""Finding a place in a JSON text: from a path like `$.checks[3].points` to the line it stands on."""

import json
import re

_DECODER = json.JSONDecoder()
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_BLANK = re.compile(r"[ \t\r\n]*")


def line_of(text: str, path: str) -> int:
    """The line where the value at `path` begins, or where the last part of the path that exists does. Counts from 1."""
    position = _skip(text, 0)
    for name, index in _STEP.findall(path):
        found = _member(text, position, name) if name else _item(text, position, int(index))
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _member(text: str, position: int, name: str) -> int | None:
    if text[position : position + 1] != "{":
        return None
    position = _skip(text, position + 1)
    while text[position : position + 1] == '"':
        key, position = _DECODER.raw_decode(text, position)
        position = _skip(text, _skip(text, position) + 1)  # over the colon
        if key == name:
            return position
        position = _next(text, position)
    return None


def _item(text: str, position: int, index: int) -> int | None:
    if text[position : position + 1] != "[":
        return None
    position = _skip(text, position + 1)
    while index and text[position : position + 1] not in {"]", ""}:
        position = _next(text, position)
        index -= 1
    return position if text[position : position + 1] not in {"]", ""} else None


def _next(text: str, position: int) -> int:
    """Past the value that begins here, and the comma after it."""
    _, position = _DECODER.raw_decode(text, position)
    position = _skip(text, position)
    return _skip(text, position + 1) if text[position : position + 1] == "," else position


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
