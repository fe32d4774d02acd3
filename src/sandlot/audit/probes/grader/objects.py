"""A golden answer that is a JSON object, or a Python dictionary: the same object in other spellings, and wrong objects."""

import ast
import json
from collections.abc import Callable
from typing import Any, cast

_MIN_FIELDS = 3
"""From this many fields on, one field alone is a wrong answer."""
_OTHER_TEXT = "Zvqx"


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object, or the Python dictionary with names of text, in a text that is one and is not empty."""
    if not text.lstrip().startswith("{"):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            found: Any = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        named = isinstance(found, dict) and all(isinstance(name, str) for name in cast("dict[Any, Any]", found))
        return (cast("dict[str, Any]", found) or None) if named else None
    return None


def same_object(golden: dict[str, Any], text: str) -> list[tuple[str, str]]:
    """The kind and text of each other spelling."""
    turned = dict(reversed(golden.items()))
    written = {
        "fields in another order": json.dumps(turned, ensure_ascii=False),
        "indented fields": json.dumps(golden, indent=2, ensure_ascii=False),
        "no space between fields": json.dumps(golden, separators=(",", ":"), ensure_ascii=False),
    }
    if "'" in text and '"' not in text:
        written = {"double quotes for single ones": json.dumps(golden, ensure_ascii=False), **written}
    return [(kind, other) for kind, other in written.items() if other != text.strip()]


def near_object(golden: dict[str, Any]) -> list[tuple[str, str]]:
    """The kind and text of each wrong object. All values are changed, because a single field may not matter to the task."""
    found = [("an empty object", "{}")]
    if (other := map_values(golden, _altered)) != golden:
        found.append(("every value changed", json.dumps(other, ensure_ascii=False)))
    if len(golden) >= _MIN_FIELDS:
        found += [("one field alone", json.dumps({name: value}, ensure_ascii=False)) for name, value in golden.items()]
    return found


def map_values(thing: Any, change: Callable[[Any], Any]) -> Any:
    """The same record with every single value changed."""
    if isinstance(thing, dict):
        return {name: map_values(each, change) for name, each in cast("dict[Any, Any]", thing).items()}
    if isinstance(thing, list):
        return [map_values(each, change) for each in cast("list[Any]", thing)]
    return change(thing)


def _altered(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1_003
    return _OTHER_TEXT if isinstance(value, str) and value != _OTHER_TEXT else "another"
