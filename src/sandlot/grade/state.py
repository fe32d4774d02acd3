"""The final `world.state` as plain data, for storing and for checks.

Plain data can be stored and read back unchanged: null, booleans, 64-bit integers, finite numbers, text, lists, and objects with
text keys. Dataclasses and msgspec structs become objects. Anything else is an `AuthorError` that names its path in the state.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from sandlot.core.errors import AuthorError
from sandlot.core.text import encodable

_MAX_DEPTH = 100
"""Deeper nesting could be stored but not read again."""


def plain_data(state: Any) -> Any:
    """A copy of the state as plain data. `AuthorError` names the path of a value that cannot be stored."""
    if state is None:
        return None
    try:
        data = msgspec.to_builtins(state)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        path, value = _culprit(state)
        raise AuthorError(
            f"`{path}` is a `{type(value).__name__}` and cannot be stored: {error or type(error).__name__}; "
            "use plain data, dataclasses or msgspec structs in the state"
        ) from error
    return _clean(data, "state", 0)


def _clean(value: Any, path: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise AuthorError(f"`{path[:120]}...` is nested more than {_MAX_DEPTH} levels deep; make the state flatter")
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise AuthorError(f"`{path}` is a number of {value.bit_length()} bits; store it as text, or keep it below 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AuthorError(f"`{path}` is {value}, which cannot be stored; use None or a finite number")
        return value
    if isinstance(value, dict):
        return {_key(key, path): _clean(item, f"{path}.{key}", depth + 1) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(cast("list[Any]", value))]
    raise AuthorError(f"`{path}` is a `{type(value).__name__}`; use plain data in the state")


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise AuthorError(f"`{path}` has the key {key!r}, a `{type(key).__name__}`; use text as keys, such as {str(key)!r}")
    return encodable(key)


def _culprit(state: Any) -> tuple[str, Any]:
    """The innermost value that cannot be converted, and its path."""
    path, value = "state", state
    for _ in range(_MAX_DEPTH):
        inner = next(((name, child) for name, child in _children(value) if not _convertible(child)), None)
        if inner is None:
            break
        path, value = path + inner[0], inner[1]
    return path, value


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f".{key}", item) for key, item in cast("dict[Any, Any]", value).items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", item) for index, item in enumerate(cast("list[Any]", value)))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))


def _convertible(value: Any) -> bool:
    try:
        msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return False
    return True
