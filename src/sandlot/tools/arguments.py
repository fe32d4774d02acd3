"""Checks the arguments of a tool call before any tool gets them.

The arguments come from a model: they may be malformed, huge, deeply nested, or hold values that JSON does not have.
`checked_arguments` returns a copy without such values, so that a tool cannot be harmed by them and cannot change what the trace
recorded; for anything else it raises a `ToolError` that tells the agent which argument is wrong and why. `clean` repairs text
that cannot be encoded as UTF-8.
"""

import math
from typing import Any, cast

from sandlot.core.errors import ToolError
from sandlot.core.trace import ToolCall
from sandlot.core.types import Json

MAX_DEPTH = 64
"""Levels of nested lists and objects."""
MAX_BYTES = 2**20
"""Size of all arguments of one call."""
_MAX_INTEGER = 2**63
"""Limit of the integers that records can hold."""
_SHOWN_CHARS = 200
"""Characters of a malformed call that the agent is shown."""


def clean(text: str) -> str:
    """The text with every lone surrogate replaced by U+FFFD, so that it can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def checked_arguments(call: ToolCall) -> Json:
    """A copy of the call's arguments, within all limits; `ToolError` names the argument that breaks one."""
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
