"""Built-in checks, named in a rubric as `sandlot:NAME`.

Each returns what it found as the reason. `LIBRARY` is the whole list; the reference prints the docstrings. Arguments may be
`$key.x` or `$data.x`, as in any rubric.
"""

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence
from sandlot.core.trace import ToolCall
from sandlot.grade.checks import Function
from sandlot.grade.evidence import absolute_path

_Said = tuple[bool, str]
_MAX_MATCH_CHARS = 10_000
"""A pattern is matched against this many characters from the end of a text: a slow pattern delays every rollout."""

_NESTED_REPEAT = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d+,\d*\})(?:[^()\\]|\\.)*\)(?:[+*]|\{\d+,\d*\})")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d{1,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?(?!\w)")


def file_exists(evidence: Evidence, path: str) -> _Said:
    """There is a regular file at `path`; a folder or a link does not count."""
    return evidence.exists(path), _found(evidence, path)


def file_absent(evidence: Evidence, path: str) -> _Said:
    """There is nothing at `path`: no file, folder, link or anything else, and no link above it."""
    return evidence.kind(path) is None, _found(evidence, path)


def file_equals(evidence: Evidence, path: str, text: str, *, strip: bool = True) -> _Said:
    """The file's text is `text`; white space around both is ignored unless `strip` is false."""
    found = evidence.read_text(path)
    return (found.strip() == text.strip() if strip else found == text), f"`{path}` holds {_short(found)}"


def file_contains(evidence: Evidence, path: str, text: str, *, ignore_case: bool = False) -> _Said:
    """The file's text contains `text`."""
    found = evidence.read_text(path)
    inside = text.casefold() in found.casefold() if ignore_case else text in found
    return inside, f"`{path}` {'has' if inside else 'has no'} {_short(text)}"


def json_value(evidence: Evidence, path: str, at: str, value: Any, *, tolerance: float = 0.0) -> _Said:
    """The JSON file has `value` at the path `at` (`a.b.0`); numbers may differ by `tolerance`."""
    try:
        found = json.loads(evidence.read_text(path))
    except (ValueError, RecursionError) as error:
        raise NotInEvidence(f"`{path}` is not JSON: {error}") from error
    inner = _at(found, at, path)
    return _equal(inner, value, tolerance), f"`{at}` is {_short(inner)}"


def csv_rows(evidence: Evidence, path: str, *, rows: int | None = None, columns: list[str] | None = None) -> _Said:
    """The CSV file has this many rows below its header, and at least these columns."""
    try:
        table = list(csv.reader(io.StringIO(evidence.read_text(path), newline="")))
    except csv.Error as error:
        raise NotInEvidence(f"`{path}` is not CSV: {error}") from error
    header, count = (table[0] if table else []), max(len(table) - 1, 0)
    missing = [name for name in columns or [] if name not in header]
    text = f"`{path}` has {count} rows" + (f", no column {', '.join(missing)}" if missing else "")
    return not missing and (rows is None or rows == count), text


def answer_equals(evidence: Evidence, text: str) -> _Said:
    """The answer is `text`, ignoring case, white space, a full stop at the end and the Unicode form of characters."""
    return _normal(evidence.answer) == _normal(str(text)), f"the answer is {_short(evidence.answer)}"


def answer_number(evidence: Evidence, value: float, *, tolerance: float = 0.0) -> _Said:
    """The answer contains exactly one number, and it is `value`, up to `tolerance`. Several different numbers: not met."""
    found = sorted(set(_numbers(evidence.answer)))
    if len(found) != 1:
        shown = ", ".join(f"{number:g}" for number in found[:5])
        return False, f"the answer has {len(found)} different numbers" + (f": {shown}" if found else "")
    return abs(found[0] - float(value)) <= tolerance, f"the answer's number is {found[0]:g}"


def answer_matches(evidence: Evidence, pattern: str) -> _Said:
    """The regular expression is found in the answer (in its last 10,000 characters)."""
    fault = pattern_fault(pattern)
    if fault is not None:
        raise ValueError(fault)
    match = re.search(pattern, evidence.answer[-_MAX_MATCH_CHARS:])
    return match is not None, f"found {_short(match.group())}" if match else f"/{pattern}/ is not in {_short(evidence.answer)}"


def state_equals(evidence: Evidence, at: str, value: Any, *, tolerance: float = 0.0) -> _Said:
    """The final state has `value` at the path `at` (`tickets.7.status`); numbers may differ by `tolerance`."""
    found = _at(evidence.record.state, at, "state")
    return _equal(found, value, tolerance), f"`{at}` is {_short(found)}"


def tool_called(evidence: Evidence, tool: str, *, where: dict[str, Any] | None = None, at_least: int = 1) -> _Said:
    """The agent called the tool at least `at_least` times, with at least these arguments."""
    count = len(_calls(evidence, tool, where))
    return count >= at_least, f"`{tool}` was called {count} times{_where(where)}"


def tool_not_called(evidence: Evidence, tool: str, *, where: dict[str, Any] | None = None) -> _Said:
    """The agent never called the tool with these arguments."""
    count = len(_calls(evidence, tool, where))
    return count == 0, f"`{tool}` was called {count} times{_where(where)}"


def max_calls(evidence: Evidence, at_most: int, *, tool: str = "*") -> _Said:
    """The agent made at most `at_most` calls, of one tool or of all."""
    count = len(_calls(evidence, tool, None))
    return count <= at_most, f"{count} calls" + ("" if tool == "*" else f" of `{tool}`")


def unchanged(evidence: Evidence, path: str) -> _Said:
    """The file is unchanged since setup."""
    if not evidence.record.initial:
        raise NotInEvidence("the files from setup were not recorded, so changes are not known")
    whole = absolute_path(path)
    changes = evidence.diff()
    if whole not in changes:
        return evidence.exists(whole), f"`{whole}` {'is unchanged' if evidence.exists(whole) else 'was never there'}"
    before, after = changes[whole]
    return False, f"`{whole}` was {'added' if before is None else 'removed' if after is None else 'changed'}"


LIBRARY: dict[str, Function] = {
    function.__name__: function
    for function in (
        file_exists,
        file_absent,
        file_equals,
        file_contains,
        json_value,
        csv_rows,
        answer_equals,
        answer_number,
        answer_matches,
        state_equals,
        tool_called,
        tool_not_called,
        max_calls,
        unchanged,
    )
}
"""Every built-in check by name."""


def pattern_fault(pattern: Any) -> str | None:
    """Why a pattern cannot be used: not a regular expression, or a nested repetition, which may never end. None if it can."""
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError) as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return f"/{pattern}/ has a nested repetition, which may never end" if _NESTED_REPEAT.search(pattern) else None


def _found(evidence: Evidence, path: str) -> str:
    kind = evidence.kind(path)
    what = {None: "does not exist", "file": "exists", "folder": "is a folder", "link": "is a link, or below one"}
    return f"`{path}` {what.get(kind, 'exists, but is not a regular file')}"


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        text = "(nested too deeply to show)"
    return repr(text if len(text) <= 120 else text[:120] + "...")


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removesuffix(".")


def _numbers(text: str) -> Iterator[float]:
    """Numbers as people write them: `1,204.50`, `-3`, `2e5`. Grouping commas count only in threes."""
    for match in _NUMBER.finditer(text[-_MAX_MATCH_CHARS:].replace("\u2212", "-")):
        number = float(match.group().replace(",", ""))
        if math.isfinite(number):
            yield number


def _at(value: Any, place: str, where: str) -> Any:
    for word in place.split(".") if place else []:
        if isinstance(value, dict) and word in value:
            value = cast("dict[str, Any]", value)[word]
        elif isinstance(value, list) and word.isdecimal() and int(word) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(word)]
        else:
            raise NotInEvidence(f"{where} has no `{place}`: there is no `{word}`")
    return value


def _equal(found: Any, expected: Any, tolerance: float) -> bool:
    """Equal as JSON: numbers within the tolerance; a boolean is not a number."""
    both: tuple[Any, Any] = (found, expected)
    if all(isinstance(side, dict) for side in both):
        there, wanted = cast("tuple[dict[str, Any], dict[str, Any]]", both)
        return wanted.keys() == there.keys() and all(_equal(there[key], wanted[key], tolerance) for key in wanted)
    if all(isinstance(side, list | tuple) for side in both):
        items, hoped = cast("tuple[list[Any], list[Any]]", both)
        return len(items) == len(hoped) and all(_equal(item, hope, tolerance) for item, hope in zip(items, hoped, strict=True))
    if not all(isinstance(side, int | float) and not isinstance(side, bool) for side in both):
        return type(both[0]) is type(both[1]) and both[0] == both[1]
    try:
        return abs(found - expected) <= tolerance
    except OverflowError:  # an integer too large for a float
        return False


def _calls(evidence: Evidence, tool: str, where: dict[str, Any] | None) -> list[ToolCall]:
    calls = [call for node in evidence.trace.turns() for call in node.message.calls if tool in {"*", call.name}]
    return [
        call
        for call in calls
        if all(name in call.arguments and _equal(call.arguments[name], value, 0.0) for name, value in (where or {}).items())
    ]


def _where(where: dict[str, Any] | None) -> str:
    return f" with {_short(where)}" if where else ""
