"""What checks share: what a check returns, values shown in a reason, paths into JSON, equality of JSON values."""

import json
import re
from typing import Any, cast

from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

Said = tuple[bool, str]
"""What a check returns: whether it is met, and the reason."""
_MAX_SHOWN_CHARS = 120
_MAX_TEXT_CHARS = 2_000_000
_NESTED_REPEAT = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d+,\d*\})(?:[^()\\]|\\.)*\)(?:[+*]|\{\d+,\d*\})")


def shown(value: Any) -> str:
    """A value as a reason shows it: quoted, and cut if it is long."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        text = "(nested too deeply to show)"
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "...")


def value_at(value: Any, place: str, where: str) -> Any:
    """What is at a path such as `a.b.0`; `NotInEvidence`, naming `where`, if there is nothing."""
    for word in place.split(".") if place else []:
        if isinstance(value, dict) and word in value:
            value = cast("dict[str, Any]", value)[word]
        elif isinstance(value, list) and word.isdecimal() and int(word) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(word)]
        else:
            raise NotInEvidence(f"{where} has no `{place}`: there is no `{word}`")
    return value


def equal_values(found: Any, expected: Any, tolerance: float) -> bool:
    """Equal as JSON: numbers within the tolerance; a boolean is not a number."""
    both: tuple[Any, Any] = (found, expected)
    if all(isinstance(side, dict) for side in both):
        there, wanted = cast("tuple[dict[str, Any], dict[str, Any]]", both)
        return wanted.keys() == there.keys() and all(equal_values(there[key], wanted[key], tolerance) for key in wanted)
    if all(isinstance(side, list | tuple) for side in both):
        items, hoped = cast("tuple[list[Any], list[Any]]", both)
        return len(items) == len(hoped) and all(
            equal_values(item, hope, tolerance) for item, hope in zip(items, hoped, strict=True)
        )
    if not all(isinstance(side, int | float) and not isinstance(side, bool) for side in both):
        return type(both[0]) is type(both[1]) and both[0] == both[1]
    try:
        return abs(found - expected) <= tolerance
    except OverflowError:  # an integer too large for a float
        return False


def text_of(evidence: Evidence, path: str | None) -> str:
    """The text that a check reads: the file, or the agent's last message if `path` is None."""
    text = evidence.answer if path is None else evidence.read_text(path)
    if len(text) > _MAX_TEXT_CHARS:
        where = "the answer" if path is None else f"`{path}`"
        raise NotInEvidence(f"{where} has {len(text):,} characters; this check reads at most {_MAX_TEXT_CHARS:,}", kind="cut")
    return text


def name_of_text(path: str | None) -> str:
    """How a reason names the text that was read."""
    return "the answer" if path is None else f"`{path}`"


def pattern_fault(pattern: Any) -> str | None:
    """Why a pattern cannot be used: not a regular expression, or a nested repetition, which may never end. None if it can."""
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError) as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return f"/{pattern}/ has a nested repetition, which may never end" if _NESTED_REPEAT.search(pattern) else None
