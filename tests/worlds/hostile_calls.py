"""Tool calls with a hostile value in one argument and real ones in the others, made from the schemas of the tools."""

from collections.abc import Iterator, Mapping
from typing import Any

from sandlot.core.types import Json

NUMBERS: tuple[Any, ...] = (
    2**63,
    -(2**63) - 1,
    2**63 - 1,
    -(2**63),
    10**30,
    2.0,
    1e300,
    1e-320,
    -1,
    0,
    float("nan"),
    float("inf"),
)
_EMPTY = ("", " ", "\0", "\n", "'", '"', "%", "\\", "~", "/")
_NUMERALS = ("-1", "1" * 400, "²", "٣٤", "1e999", "NaN", "9" * 6000, "OPS-" + "1" * 6000)
_DEEP = ("(" * 3000, "[" * 3000, "{" * 3000, "a OR " * 500 + "a", "a/b" * 500, "../" * 500, "-" * 5000, "a" * 100_000)
_UNICODE = ("\ud800", "\u202e", "e\u0301" * 3000, "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 500, "ß" * 70_000)
_TIMES = ("0001-01-01", "9999-12-31T23:59:59Z", "2026-02-30", "2026-01-01T00:00:00+99:99", "99999999999d", "-9" * 9 + "y")
_LANGUAGES = (
    *("RRULE:FREQ=SECONDLY", "RRULE:FREQ=DAILY;INTERVAL=99999999999", "order by", "project = OPS AND", "in:inbox " * 200),
    *("timespent > " + "9" * 6000, "key > OPS-" + "9" * 6000, "refs/heads/../x", "{0.__class__}", "{{7*7}}", "{a b"),
    '{"dateTime": "2026-01-05T09:00:00", "timeZone": "' + "x/" * 2000 + '"}',
)
TEXTS: tuple[str, ...] = (*_EMPTY, *_NUMERALS, *_DEEP, *_UNICODE, *_TIMES, *_LANGUAGES)
_MOST_LEVELS = 60


def _nested_lists() -> Any:
    value: Any = "x"
    for _ in range(_MOST_LEVELS):
        value = [value]
    return value


OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], {"a": {"b": [1]}}, _nested_lists(), {"x" * 5000: 2**62}, [1.5] * 200)


def hostile_values(schema: Json) -> Iterator[tuple[str, Any]]:
    """Hostile values for each argument of a tool, with its name."""
    for name, inner in schema.get("properties", {}).items():
        yield from ((name, value) for value in (*_fitting(inner), *OTHERS))


def with_real(schema: Json, real: Mapping[str, Any]) -> Json:
    """The arguments that a tool requires, real where there are real ones."""
    return {name: real.get(name, _plain(schema["properties"].get(name, {}))) for name in schema.get("required", ())}


def _kinds_of(schema: Json) -> set[str]:
    kinds = schema.get("type")
    found = set(kinds) if isinstance(kinds, list) else {kinds} if kinds else set[str]()
    return found.union(*map(_kinds_of, _branches(schema)))


def _branches(schema: Json) -> list[Json]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _fitting(schema: Json) -> Iterator[Any]:
    """Values of the right kind, also deeper inside."""
    kinds = _kinds_of(schema)
    yield from NUMBERS if kinds & {"integer", "number"} else ()
    yield from TEXTS if "string" in kinds else ()
    for each in (schema, *_branches(schema)):
        if isinstance(each.get("items"), dict):
            yield from ([value] for value in _fitting(each["items"]))
        for name, inner in each.get("properties", {}).items():
            yield from ({**_plain(each), name: value} for value in _fitting(inner))
    if "object" in kinds and "properties" not in schema:
        yield from ({"set": value} for value in NUMBERS)


def _plain(schema: Json) -> Any:
    """A value that fits."""
    if branches := _branches(schema):
        return _plain(branches[0])
    kinds = _kinds_of(schema)
    simple = {"string": "x", "integer": max(1, schema.get("minimum", 1)), "number": 1, "boolean": True}
    if known := [schema["enum"][0]] if "enum" in schema else [value for kind, value in simple.items() if kind in kinds]:
        return known[0]
    if "array" in kinds:
        return [_plain(schema.get("items") or {})]
    return {name: _plain(schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
