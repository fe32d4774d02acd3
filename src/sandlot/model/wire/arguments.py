"""Tool-call arguments as models write them: a JSON object, or `malformed` with the received text.

Nothing here raises. Arguments are malformed if they are not an object, exceed the size or depth limit, hold NaN, or could not be
stored (numbers beyond 64 bits, invalid Unicode). The agent then gets an error and may try again.
"""

from typing import Any, cast

import msgspec

from sandlot.core.trace import ToolCall
from sandlot.core.types import Json

MAX_CHARS = 2**20
"""Longer arguments are malformed."""
MAX_DEPTH = 64
"""Maximum nesting of objects and lists; deeper values break other readers."""
_MAX_SHOWN = 4000
"""Characters kept of malformed arguments."""
MAX_NAME = 256


def tool_call(call_id: str, name: str, text: str) -> ToolCall:
    """A call from the JSON text of its arguments. Empty text means no arguments."""
    name = short_name(name)
    if not text or text.isspace():
        return ToolCall(call_id, name)
    arguments = _decode_object(text)
    if arguments is None:
        return malformed_call(call_id, name, text)
    return ToolCall(call_id, name, arguments)


def malformed_call(call_id: str, name: str, text: str) -> ToolCall:
    """A malformed call with the received text; of a very long text both ends are kept."""
    if len(text) > _MAX_SHOWN:
        half = _MAX_SHOWN // 2
        text = f"{text[:half]} [... {len(text) - 2 * half} characters cut ...] {text[-half:]}"
    return ToolCall(call_id, short_name(name), malformed=_storable_text(text))


def short_name(name: str) -> str:
    """A tool's name, cut to the maximum length and with valid Unicode, so that it can be stored."""
    return _storable_text(name[:MAX_NAME])


def is_storable(value: object) -> bool:
    """True if a decoded JSON value can be stored and is not nested too deep."""
    if not _is_shallow(value):
        return False
    try:
        msgspec.msgpack.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


def _decode_object(text: str) -> Json | None:
    if len(text) > MAX_CHARS:
        return None
    try:
        value = msgspec.json.decode(text)
    except (ValueError, OverflowError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    value = cast("Json", value)
    return value if is_storable(value) else None


def _is_shallow(value: object) -> bool:
    """True if nesting is within the limit; checked level by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast("dict[str, Any]", item).values()
            elif isinstance(item, list):
                inner += cast("list[Any]", item)
        if not inner:
            return True
        level = inner
    return not any(isinstance(item, dict | list) for item in level)


def _storable_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
