"""A golden answer that is a JSON object: the same object written otherwise, and objects that say something else."""

import json
from typing import Any, cast

_MIN_FIELDS = 3
"""So many fields cannot all be explained by one of them."""
_OTHER_TEXT = "Zvqx"


def object_in(text: str) -> dict[str, Any] | None:
    """The object a text is, if it is one and has a field."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) or None


def same_object(golden: dict[str, Any], text: str) -> list[tuple[str, str]]:
    """A kind and a text for each other way to write it."""
    turned = dict(reversed(golden.items()))
    written = {
        "fields in another order": json.dumps(turned, ensure_ascii=False),
        "indented fields": json.dumps(golden, indent=2, ensure_ascii=False),
        "no space between fields": json.dumps(golden, separators=(",", ":"), ensure_ascii=False),
    }
    return [(kind, other) for kind, other in written.items() if other != text.strip()]


def near_object(golden: dict[str, Any]) -> list[tuple[str, str]]:
    """A kind and a text for each way to say something else. One field changed may be one that nobody asked for: all are."""
    found = [("an empty object", "{}")]
    if (other := _altered(golden)) != golden:
        found.append(("every value another", json.dumps(other, ensure_ascii=False)))
    if len(golden) >= _MIN_FIELDS:
        found += [("one field alone", json.dumps({name: value}, ensure_ascii=False)) for name, value in golden.items()]
    return found


def _altered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _altered(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_altered(each) for each in cast("list[Any]", value)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1_003
    return _OTHER_TEXT if isinstance(value, str) and value != _OTHER_TEXT else "another"
