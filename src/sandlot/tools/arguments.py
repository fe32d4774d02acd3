"""What a tool call may carry, checked in one place before any tool sees it.

The arguments come from a model: they may be unreadable, huge, deep, or hold what no JSON can say. `plain` gives back a copy that
is none of that, so a tool can neither be hurt by them nor change what the trace recorded; anything else is a `ToolError` that
tells the agent which argument and why. `clean` is the one place where text that cannot be written as UTF-8 is repaired.
"""

import math
from typing import Any, cast

from sandlot.core.errors import ToolError
from sandlot.core.trace import ToolCall
from sandlot.core.types import Json

MAX_DEPTH = 64
"""Lists and objects inside each other."""
MAX_BYTES = 2**20
"""All arguments of one call together."""
_MAX_INTEGER = 2**63
"""Beyond this, records cannot hold a whole number."""
_SHOWN_CHARS = 200
"""How much of a malformed call is shown back."""


def clean(text: str) -> str:
    """The text with every lone surrogate replaced by U+FFFD, so that it can be encoded wherever it goes later."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def checked_arguments(call: ToolCall) -> Json:
    """The call's arguments as a fresh, finite, shallow, small copy; `ToolError` names the argument that is not."""
    if call.malformed is not None:
        shown = clean(call.malformed[:_SHOWN_CHARS])
        raise ToolError(f"the arguments of `{call.name}` are not a JSON object; write one like {{}}. What came: {shown}")
    arguments = cast("Any", call.arguments)
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of `{call.name}` are a {type(arguments).__name__}; give a JSON object")
    budget = _Budget()
    return {clean(str(name)): _copy_value(value, f"`{name}`", 1, budget) for name, value in cast("Json", arguments).items()}


class _Budget:
    """Bytes still allowed."""

    def __init__(self) -> None:
        self.left = MAX_BYTES

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ToolError(f"the arguments are larger than {MAX_BYTES} bytes; send less at once")


def _copy_value(value: Any, where: str, depth: int, budget: _Budget) -> Any:
    budget.spend(1)
    match value:
        case None | bool():
            return value
        case str():
            text = clean(value)
            budget.spend(len(text.encode()))
            return text
        case int():
            if not -_MAX_INTEGER <= value < 2 * _MAX_INTEGER:
                raise ToolError(f"argument {where}: expected a whole number of at most 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise ToolError(f"argument {where}: expected a finite number, got {value}")
            return value
        case dict() | list() | tuple():
            return _copy_nested(cast("Any", value), where, depth, budget)
        case _:
            raise ToolError(f"argument {where}: expected a JSON value, got {type(value).__name__}")


def _copy_nested(value: Any, where: str, depth: int, budget: _Budget) -> Any:
    if depth >= MAX_DEPTH:
        raise ToolError(f"argument {where}: nested deeper than {MAX_DEPTH} levels; send something flatter")
    if not isinstance(value, dict):
        return [_copy_value(each, where, depth + 1, budget) for each in value]
    fields: Json = {}
    for name, each in cast("Json", value).items():
        key = clean(str(name))
        budget.spend(len(key.encode()))
        fields[key] = _copy_value(each, where, depth + 1, budget)
    return fields
