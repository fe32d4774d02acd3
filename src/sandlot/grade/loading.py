"""Loading rubrics from files. Errors name file, line, value and fix.

An unknown field, a repeated key, a NaN or a check that requires an unknown one is an error here, before the first rollout.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import JudgeCheck, PythonCheck, Rubric
from sandlot.grade.rules import Fault, find_faults

_MAX_BYTES = 16 * 2**20


def load_rubric(path: Path) -> Rubric:
    """Load a rubric from a JSON file. `ConfigError` lists everything that is wrong, line by line."""
    text = read_rubric(path)
    rubric = parse_rubric(text, str(path))
    found = find_faults(rubric)
    if found:
        raise ConfigError("\n".join(_describe(fault, text, str(path)) for fault in found))
    return rubric


def parse_rubric(text: str, where: str) -> Rubric:
    """Parse a rubric. Its structure is checked here, its rules by `find_faults`."""
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from error
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{where}: a text has the escape \\u{ord(error.object[error.start]):04x}, half of a surrogate pair; write both halves"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {error}") from error
    try:
        return msgspec.convert(data, Rubric)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        path = place.rstrip("`") or "$"
        raise ConfigError(f"{where}:{line_of(text, path)}: {message}, at `{path}`; {_fix(message, path)}") from error


def _describe(fault: Fault, text: str, where: str) -> str:
    """A fault as one line: file, line, what, fix."""
    return f"{where}:{line_of(text, fault.path)}: {fault.message}; {fault.fix}"


def read_rubric(path: Path) -> str:
    """The text of a rubric file; `ConfigError` if it cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        there = sorted(file.stem for file in path.parent.glob("*.json"))
        names = f"rubrics there: {', '.join(there)}" if there else f"`{path.parent}` has no .json file"
        raise ConfigError(f"no rubric at `{path}`; {names}") from error
    except OSError as error:
        raise ConfigError(f"the rubric `{path}` cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"the rubric `{path}` has {len(data):,} bytes; the limit is {_MAX_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}:{data.count(10, 0, error.start) + 1}: not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"the key `{name}` appears twice in one object; keep one")
        seen.add(name)
    return dict(pairs)


def _constant(word: str) -> Any:
    raise ValueError(f"`{word}` is not valid JSON; write a finite number")


def _fix(message: str, path: str) -> str:
    """The fix for a validation error: the names of the fields, if it is about fields."""
    if "kind" in path or "kind" in message:
        return "`kind` is `python` or `judge`"
    if "field" in message and path.startswith("$.checks["):
        fields = dict.fromkeys((*PythonCheck.__struct_fields__, *JudgeCheck.__struct_fields__))
        return f"a check has: kind, {', '.join(fields)}"
    if "field" in message and path == "$":
        return f"a rubric has: {', '.join(Rubric.__struct_fields__)}"
    return "see `docs/reference/rubric.schema.json`"


def rubric_schema() -> dict[str, Any]:
    """The JSON Schema of a rubric, published as `docs/reference/rubric.schema.json`."""
    schema = msgspec.json.schema(Rubric)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sandlot rubric, format 1", **schema}


_DECODER = json.JSONDecoder()


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


_BLANK = re.compile(r"[ \t\r\n]*")


def line_of(text: str, path: str) -> int:
    """The line of the value at `path`, or of the last part of the path that exists. Counts from 1."""
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
    """The position after the value that begins here and its comma."""
    _, position = _DECODER.raw_decode(text, position)
    position = _skip(text, position)
    return _skip(text, position + 1) if text[position : position + 1] == "," else position


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
