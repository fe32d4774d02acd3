"""Golden answers that are JSON lists, such as tool calls: the same list written otherwise, and other lists."""

import copy
import json
from typing import Any, cast

_NAMES = ("name", "function", "tool", "tool_name", "function_name")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "kwargs")


def list_in(text: str) -> list[Any] | None:
    """The JSON list of objects in a text, if the text is one and it is not empty."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    objects = cast("list[Any]", found) if isinstance(found, list) else []
    return objects if objects and all(isinstance(each, dict) for each in objects) else None


def same_list(text: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each other spelling, and whether it certainly means the same."""
    items = list_in(text)
    if items is None:
        return []
    turned = [_reversed_fields(each) for each in items]
    written = [
        ("fields in another order", json.dumps(turned, ensure_ascii=False), True),
        ("indented JSON", json.dumps(items, indent=2, ensure_ascii=False), True),
        ("JSON without spaces", json.dumps(items, separators=(",", ":"), ensure_ascii=False), True),
        ("letters as escapes", json.dumps(items, ensure_ascii=True), True),
        ("whole numbers with a decimal zero", json.dumps(_floats(items), ensure_ascii=False), False),
    ]
    return [each for each in written if each[1] != text.strip()]


def other_list(text: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each wrong list, and whether it is certainly wrong."""
    items = list_in(text)
    if items is None:
        return []
    found = [("an empty list", "[]", True)]
    if len(items) > 1:
        found.append(("without its last element", json.dumps(items[:-1], ensure_ascii=False), True))
    for fields in (_NAMES, _ARGUMENTS):
        changed = copy.deepcopy(items)
        first = cast("dict[str, Any]", changed[0])
        name = next((field for field in fields if field in first), None)
        if name is None:
            continue
        if isinstance(first[name], str) and fields is _NAMES:
            first[name] = f"{first[name]}_zvqx"
            found.append(("another tool", json.dumps(changed, ensure_ascii=False), True))
        elif isinstance(first[name], dict) and first[name]:
            found += _other_arguments(items, name)
    return found


def _other_arguments(items: list[Any], name: str) -> list[tuple[str, str, bool]]:
    def written(arguments: dict[str, Any]) -> str:
        return json.dumps([{**items[0], name: arguments}, *items[1:]], ensure_ascii=False)

    right = cast("dict[str, Any]", items[0][name])
    wrong = {field: _changed(value) for field, value in right.items()}
    return [
        ("every argument changed", written(wrong), wrong != right),
        ("no arguments", written({}), True),
        ("an argument more", written({**right, "zvqx": 1}), False),
    ]


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1_003
    return "Zvqx" if isinstance(value, str) else value


def _reversed_fields(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _reversed_fields(value) for name, value in reversed(cast("dict[str, Any]", thing).items())}
    return thing


def _floats(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _floats(value) for name, value in cast("dict[str, Any]", thing).items()}
    if isinstance(thing, list):
        return [_floats(each) for each in cast("list[Any]", thing)]
    return float(thing) if isinstance(thing, int) and not isinstance(thing, bool) and abs(thing) < 1e9 else thing
