"""The final `world.state` as plain data, for storing and for checks.

Plain data can be stored and read back unchanged: null, booleans, 64-bit integers, finite numbers, text, lists, and objects with
text keys. Dataclasses and msgspec structs become objects. Anything else is an `AuthorError` that names its path in the state.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

import msgspec

from sandlot.core.errors import AuthorError
from sandlot.core.text import encodable

_MAX_DEPTH = 100
"""Deeper nesting could be stored but not read again."""
_MOST_VALUES = 10_000
"""Values that are kept of a state that cannot be stored whole."""


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
    return data if _is_stored_as_it_is(data) else _clean(data, None, 0)


def is_plain(state: Any) -> bool:
    """True if the state can be stored as it is."""
    try:
        plain_data(state)
    except AuthorError:
        return False
    return True


def note_plain(state: Any) -> Callable[[], bool]:
    """Whether the state as it is now is plain, to be found out when it is asked: that it is asked for is rare."""
    try:
        draft = msgspec.msgpack.encode(msgspec.to_builtins(state))
    except (TypeError, ValueError, RecursionError, OverflowError):
        known = is_plain(state)
        return lambda: known
    return lambda: is_plain(msgspec.msgpack.decode(draft))


def storable_part(state: Any) -> Any:
    """The state with None in place of what cannot be stored. Large or endless parts of it are left out too."""
    left = _MOST_VALUES

    def part(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth >= _MAX_DEPTH:
            return None
        if isinstance(value, list | tuple | set | frozenset):
            return [part(each, depth + 1) for each in cast("list[Any]", value)]
        named: dict[Any, Any] | None = cast("Any", value) if isinstance(value, dict) else _fields(value)
        if named is not None:
            return {encodable(str(key)): part(each, depth + 1) for key, each in named.items()}
        try:
            return plain_data(value)
        except AuthorError:
            return None

    return part(state, 0)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record; None if it is none."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name, None) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value)}
    return None


_Path = tuple[Any, str | int]
"""The place of a value: that of what holds it, and its key or index there. It is written as text only for an error."""


_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


def _shallow(depth: int) -> Any:
    """The type of plain data nested at most so deep."""
    single: Any = str | _Number | float | bool | None  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    below: Any = _shallow(depth - 1) if depth else None
    return single | list[below] | dict[str, below] if depth else single  # pyright: ignore[reportUnknownVariableType]


_SHALLOW = msgspec.json.Decoder(_shallow(8))
"""Reads usual states; deeper ones are looked at value by value."""


def _is_stored_as_it_is(data: Any) -> bool:
    """True if the data is surely read back unchanged. False is no answer. The values are not looked at one by one in Python."""
    try:
        return bool(_SHALLOW.decode(msgspec.json.encode(data)) == data)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return False


def _clean(value: Any, path: _Path | None, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise AuthorError(f"`{_text(path)[:120]}...` is nested more than {_MAX_DEPTH} levels deep; make the state flatter")
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            bits = value.bit_length()
            raise AuthorError(f"`{_text(path)}` is a number of {bits} bits; store it as text, or keep it below 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AuthorError(f"`{_text(path)}` is {value}, which cannot be stored; use None or a finite number")
        return value
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        return {_key(key, path): _clean(item, (path, key), depth + 1) for key, item in named.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, (path, index), depth + 1) for index, item in enumerate(cast("list[Any]", value))]
    raise AuthorError(f"`{_text(path)}` is a `{type(value).__name__}`; use plain data in the state")


def _text(path: _Path | None) -> str:
    """A path as an author would write it."""
    names: list[str] = []
    while path is not None:
        path, name = path
        names.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "state" + "".join(reversed(names))


def _key(key: Any, path: _Path | None) -> str:
    if not isinstance(key, str):
        raise AuthorError(
            f"`{_text(path)}` has the key {key!r}, a `{type(key).__name__}`; use text as keys, such as {str(key)!r}"
        )
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
