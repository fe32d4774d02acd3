"""Random tool arguments that match a JSON Schema, for the `random` player.

Supported are the keywords that typed Python functions and common MCP servers use: types, enum, const, anyOf and oneOf,
references, numeric and length bounds. Others (`pattern`, `format`) are ignored, so the tool may refuse the call.
"""

from random import Random
from typing import Any, cast

from sandlot.core.types import Json

_MAX_DEPTH = 4
_WORDS = ("a", "open", "42", "total", "2024-01-01", "/", "select 1", "")


def random_arguments(schema: Json, rng: Random) -> Json:
    """Random arguments for a tool's schema."""
    value = _draw({**schema, "type": "object"}, schema, rng, 0)
    return cast("Json", value)


def _draw(schema: Json, root: Json, rng: Random, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            return _draw(rng.choice(schema[keyword]), root, rng, depth + 1)
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = rng.choice(cast("list[str]", kind))
    return _draw_type(kind, schema, root, rng, depth)


def _draw_type(kind: str, schema: Json, root: Json, rng: Random, depth: int) -> Any:
    if kind == "array":
        length = max(schema.get("minItems", 0), rng.randrange(3))
        return [_draw(schema.get("items") or {}, root, rng, depth + 1) for _ in range(min(length, 8))]
    if kind == "object":
        properties = cast("dict[str, Json]", schema.get("properties") or {})
        required = set(cast("list[str]", schema.get("required") or []))
        chosen = {name: inner for name, inner in properties.items() if name in required or rng.random() < 0.5}
        return {name: _draw(inner, root, rng, depth + 1) for name, inner in chosen.items()}
    return _draw_scalar(kind, schema, rng)


def _draw_scalar(kind: str, schema: Json, rng: Random) -> Any:
    match kind:
        case "integer":
            low, high = _bounds(schema)
            return rng.randint(round(low), max(round(low), round(high)))
        case "number":
            return rng.uniform(*_bounds(schema))
        case "boolean":
            return rng.random() < 0.5
        case "null":
            return None
        case _:
            return rng.choice(_WORDS).ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _bounds(schema: Json) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return low, schema.get("maximum", schema.get("exclusiveMaximum", max(low, 99) + 2) - 1)


def _resolved(schema: Json, root: Json) -> Json:
    """The schema that a local `$ref` points to."""
    for _ in range(_MAX_DEPTH):
        pointer = schema.get("$ref")
        if not isinstance(pointer, str) or not pointer.startswith("#/"):
            break
        target: Any = root
        for step in pointer[2:].split("/"):
            target = cast("Json", target).get(step, {}) if isinstance(target, dict) else {}
        schema = cast("Json", target) if isinstance(target, dict) else {}
    return schema
