# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
"""Values of Gymnasium spaces as JSON, and back, exactly. A space that has no such form is refused with the reason."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.types import Json

MAX_NUMBERS = 4096
"""Numbers of an array that are written as text."""


def schema_of(space: Any) -> Json:
    """The JSON schema of a space's values; `ConfigError` if they cannot be written as JSON."""
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return {"type": "integer", "minimum": first, "maximum": first + int(space.n) - 1}
    if isinstance(space, spaces.Text):
        letters = f"characters of {''.join(sorted(space.character_set))!r}"
        return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length, "description": letters}
    if isinstance(space, spaces.Dict):
        properties = {str(name): schema_of(each) for name, each in space.spaces.items()}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    if isinstance(space, spaces.Tuple):
        parts = [schema_of(each) for each in space.spaces]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if isinstance(space, spaces.Sequence):
        return {"type": "array", "items": schema_of(space.feature_space)}
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return _array_schema(space)
    raise ConfigError(f"a space of type {type(space).__name__} has no form in JSON: {space}")


def _array_schema(space: Any) -> Json:
    size = math.prod(space.shape)
    if size > MAX_NUMBERS:
        raise ConfigError(f"{space} has {size} numbers, more than {MAX_NUMBERS}; a language model cannot write or read them")
    low, high = _bounds(space)
    item: Json = {"type": "number" if np.issubdtype(space.dtype, np.floating) else "integer"}
    if np.all(low == low.flat[0]) and np.isfinite(low.flat[0]):
        item["minimum"] = low.flat[0].item()
    if np.all(high == high.flat[0]) and np.isfinite(high.flat[0]):
        item["maximum"] = high.flat[0].item()
    if not {"minimum", "maximum"} <= item.keys() and np.isfinite([low, high]).all():
        item["description"] = f"from {low.tolist()} to {high.tolist()}"
    for length in reversed(space.shape):
        item = {"type": "array", "items": item, "minItems": length, "maxItems": length}
    return item


def _bounds(space: Any) -> tuple[Any, Any]:
    if isinstance(space, spaces.Box):
        return np.asarray(space.low), np.asarray(space.high)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.start), np.asarray(space.start) + np.asarray(space.nvec) - 1
    return np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)


def to_json(space: Any, value: Any) -> Any:
    """A value of a space as plain data."""
    if isinstance(space, spaces.Dict):
        return {str(name): to_json(each, value[name]) for name, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return [to_json(each, item) for each, item in zip(space.spaces, value, strict=True)]
    if isinstance(space, spaces.Sequence):
        return [to_json(space.feature_space, item) for item in value]
    if isinstance(space, spaces.Text):
        return str(value)
    if not isinstance(space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ConfigError(f"a space of type {type(space).__name__} has no form in JSON: {space}")
    plain = np.asarray(value)
    if plain.size > MAX_NUMBERS:
        raise ConfigError(f"an observation has {plain.size} numbers, more than {MAX_NUMBERS}; choose the view `image` or `ansi`")
    return plain.tolist()


def from_json(space: Any, data: Any) -> Any:
    """The value of a space that plain data stands for; `ToolError` if it is not in the space. Nothing is clipped."""
    try:
        value = _converted(space, data)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ToolError(f"{_shown(data)} is not in {space}: {error}") from error
    if value not in space:
        raise ToolError(f"{_shown(data)} is not in {space}")
    return value


def _converted(space: Any, data: Any) -> Any:
    if isinstance(space, spaces.Dict):
        if not isinstance(data, Mapping) or set(data) != {str(name) for name in space.spaces}:
            raise TypeError(f"give an object with {', '.join(map(str, space.spaces))}")
        return {name: _converted(each, data[str(name)]) for name, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple | spaces.Sequence):
        if not isinstance(data, list | tuple):
            raise TypeError("give a list")
        parts = space.spaces if isinstance(space, spaces.Tuple) else [space.feature_space] * len(data)
        items = tuple(_converted(each, item) for each, item in zip(parts, data, strict=True))
        return np.asarray(items) if getattr(space, "stack", False) else items
    if isinstance(space, spaces.Text):
        return data
    if isinstance(space, spaces.Discrete):
        if isinstance(data, bool) or not isinstance(data, int):
            raise TypeError("give an integer")
        return space.dtype.type(data)
    array = np.asarray(data)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and not np.issubdtype(space.dtype, np.floating)):
        raise TypeError("give numbers" if np.issubdtype(space.dtype, np.floating) else "give integers")
    if array.shape != space.shape:
        raise TypeError(f"its shape is {array.shape}, not {space.shape}")
    value = array.astype(space.dtype)
    if array.dtype.kind in "iu" and not np.array_equal(value, array):
        raise ValueError(f"a number is too large for {space.dtype}")
    return value


def _shown(data: Any) -> str:
    return f"{data!r:.200}"
