"""Checks of JSON files and of the final state.

`json_equals` and `json_schema` read strictly: a name that comes twice in one object, or a number that is not finite, makes the
file no JSON, because two readers could see two values.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sandlot.checks.found import Said, equal_values, pattern_fault, shown, text_of, value_at
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_UNORDERED = 1000
"""Longest list that is compared in any order."""
_MAX_DEPTH = 100
_MAX_MATCH_CHARS = 10_000
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def json_value(evidence: Evidence, path: str, at: str, value: Any, *, tolerance: float = 0.0) -> Said:
    """The JSON file has `value` at the path `at` (`a.b.0`); numbers may differ by `tolerance`.

    >>> json_value(evidence, "/out/report.json", "totals.net", 1204.5)
    (True, "`totals.net` is '1204.5'")
    """
    try:
        found = json.loads(evidence.read_text(path))
    except (ValueError, RecursionError) as error:
        raise NotInEvidence(f"`{path}` is not JSON: {error}") from error
    inner = value_at(found, at, path)
    return equal_values(inner, value, tolerance), f"`{at}` is {shown(inner)}"


def json_equals(
    evidence: Evidence, path: str, value: Any, *, at: str = "", tolerance: float = 0.0, unordered: bool = False
) -> Said:
    """The JSON file (or what is at the path `at` in it) is exactly `value`: no name missing, none more.

    With `unordered`, lists may be in any order, at every depth.

    >>> json_equals(evidence, "/out/report.json", ["b", "a"], at="paid", unordered=True)
    (True, '`paid` is as expected')
    """
    found = value_at(_strict_json(evidence, path), at, path)
    fits = _same_unordered(found, value, tolerance) if unordered else equal_values(found, value, tolerance)
    where = f"`{at}`" if at else f"`{path}`"
    return fits, f"{where} is as expected" if fits else f"{where} is {shown(found)}, not {shown(value)}"


def json_schema(evidence: Evidence, path: str, schema: Mapping[str, Any]) -> Said:
    """The JSON file has this form: a subset of JSON Schema. Form alone is no result: combine it with checks of values.

    Understood: type, properties, required, additionalProperties (true or false), items, enum, const, minimum, maximum, minLength,
    maxLength, minItems, maxItems, uniqueItems, pattern, anyOf. Any other word in the schema is an error.

    >>> json_schema(evidence, "/out/report.json", {"type": "object", "required": ["paid"],
    ...     "properties": {"paid": {"type": "array", "items": {"type": "string"}, "minItems": 1}}})
    (True, '`/out/report.json` fits the schema')
    """
    fault = schema_fault(_strict_json(evidence, path), schema, "$", 0)
    return fault is None, f"`{path}` fits the schema" if fault is None else fault


def state_equals(evidence: Evidence, at: str, value: Any, *, tolerance: float = 0.0) -> Said:
    """The final state has `value` at the path `at` (`tickets.7.status`); numbers may differ by `tolerance`.

    >>> state_equals(evidence, "tickets.7.status", "closed")
    (True, "`tickets.7.status` is 'closed'")
    """
    found = value_at(evidence.record.state, at, "state")
    return equal_values(found, value, tolerance), f"`{at}` is {shown(found)}"


def _strict_json(evidence: Evidence, path: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a name comes twice in one object")
        return dict(pairs)

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a JSON number")

    try:
        return json.loads(text_of(evidence, path), object_pairs_hook=once, parse_constant=refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise NotInEvidence(f"`{path}` is not JSON: {error}") from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _same_unordered(found: Any, expected: Any, tolerance: float, depth: int = 0) -> bool:
    if depth > _MAX_DEPTH:
        return False
    if isinstance(found, dict) and isinstance(expected, dict):
        there, wanted = cast("dict[str, Any]", found), cast("dict[str, Any]", expected)
        return there.keys() == wanted.keys() and all(
            _same_unordered(there[name], wanted[name], tolerance, depth + 1) for name in wanted
        )
    if isinstance(found, list) and isinstance(expected, list | tuple):
        items, hoped = cast("list[Any]", found), cast("Sequence[Any]", expected)
        if len(items) != len(hoped):
            return False
        if len(hoped) > _MAX_UNORDERED:
            raise NotInEvidence(f"a list of {len(hoped):,} is too long to compare in any order; the limit is {_MAX_UNORDERED:,}")
        left = list(items)
        for hope in hoped:
            place = next((n for n, item in enumerate(left) if _same_unordered(item, hope, tolerance, depth + 1)), None)
            if place is None:
                return False
            del left[place]
        return True
    return equal_values(found, expected, tolerance)


def schema_fault(value: Any, schema: Mapping[str, Any], where: str, depth: int) -> str | None:
    """The first thing that does not fit, or None."""
    if depth > _MAX_DEPTH:
        return f"`{where}` is nested too deeply"
    for word, rule in schema.items():
        test = _RULES.get(word)
        if test is None:
            raise ValueError(f"`{word}` is not understood in a schema; there are: {', '.join(_RULES)}")
        fault = test(value, rule, where, depth)
        if fault is not None:
            return fault
    if schema.get("additionalProperties") is False and isinstance(value, dict):
        stray = [name for name in cast("dict[str, Any]", value) if name not in schema.get("properties", {})]
        return f"`{where}` has {shown(stray[0])}, which is not expected" if stray else None
    return None


def _type_fault(value: Any, rule: Any, where: str, _depth: int) -> str | None:
    kinds = [rule] if isinstance(rule, str) else list(rule)
    return None if any(_TYPES[kind](value) for kind in kinds) else f"`{where}` is {shown(value)}, not {' or '.join(kinds)}"


def _properties_fault(value: Any, rule: Any, where: str, depth: int) -> str | None:
    if not isinstance(value, dict):
        return None
    there = cast("dict[str, Any]", value)
    faults = (schema_fault(there[name], inner, f"{where}.{name}", depth + 1) for name, inner in rule.items() if name in there)
    return next((fault for fault in faults if fault is not None), None)


def _items_fault(value: Any, rule: Any, where: str, depth: int) -> str | None:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    faults = (schema_fault(item, rule, f"{where}.{place}", depth + 1) for place, item in enumerate(items))
    return next((fault for fault in faults if fault is not None), None)


def _any_fault(value: Any, rule: Any, where: str, depth: int) -> str | None:
    fits = any(schema_fault(value, inner, where, depth + 1) is None for inner in rule)
    return None if fits else f"`{where}` is {shown(value)} and fits none of {len(rule)} forms"


def _pattern_fault(value: Any, rule: Any, where: str, _depth: int) -> str | None:
    fault = pattern_fault(rule)
    if fault is not None:
        raise ValueError(fault)
    fits = not isinstance(value, str) or (len(value) <= _MAX_MATCH_CHARS and re.search(rule, value))
    return None if fits else f"`{where}` is {shown(value)}, which does not match /{rule}/"


def _bound(
    kind: type | tuple[type, ...], holds: Callable[[Any, Any], bool], text: str
) -> Callable[[Any, Any, str, int], str | None]:
    """A rule for values of one kind; others pass, as JSON Schema says."""

    def test(value: Any, rule: Any, where: str, _depth: int) -> str | None:
        looked_at = isinstance(value, kind) and not isinstance(value, bool)
        return None if not looked_at or holds(value, rule) else f"`{where}` is {shown(value)}: {text} {shown(rule)}"

    return test


def _distinct(items: list[Any]) -> bool:
    return len({json.dumps(item, sort_keys=True) for item in items}) == len(items)


_NUMBERS = (int, float)
_RULES: dict[str, Callable[[Any, Any, str, int], str | None]] = {
    "type": _type_fault,
    "properties": _properties_fault,
    "items": _items_fault,
    "anyOf": _any_fault,
    "pattern": _pattern_fault,
    "required": _bound(dict, lambda value, rule: all(name in value for name in rule), "it needs the names"),
    "additionalProperties": lambda _value, _rule, _where, _depth: None,
    "enum": lambda value, rule, where, _: (
        None if any(equal_values(value, each, 0.0) for each in rule) else f"`{where}` is {shown(value)}, not one of {shown(rule)}"
    ),
    "const": lambda value, rule, where, _: (
        None if equal_values(value, rule, 0.0) else f"`{where}` is {shown(value)}, not {shown(rule)}"
    ),
    "minimum": _bound(_NUMBERS, lambda value, rule: value >= rule, "at least"),
    "maximum": _bound(_NUMBERS, lambda value, rule: value <= rule, "at most"),
    "minLength": _bound(str, lambda value, rule: len(value) >= rule, "length at least"),
    "maxLength": _bound(str, lambda value, rule: len(value) <= rule, "length at most"),
    "minItems": _bound(list, lambda value, rule: len(value) >= rule, "items at least"),
    "maxItems": _bound(list, lambda value, rule: len(value) <= rule, "items at most"),
    "uniqueItems": _bound(list, lambda value, rule: not rule or _distinct(value), "items must differ"),
}
