"""What is wrong with the arguments of a call, by the recorded schema of a tool.

The public servers check arguments with their own libraries and report it in their own words, so a check returns data, and each
app words it as its product does. Only the parts of JSON Schema that tool schemas use are checked; unknown arguments are
ignored, as those servers do.
"""

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from sandlot.core.types import Json

_MISSING = "undefined"
_MAX_MATCHED = 2000
"""Characters of text that is compared with a pattern; longer text does not fit any of them."""
_SIGNS = {">=": "greater than or equal to", "<=": "less than or equal to", ">": "greater than"}
_BOUNDS = {"number": ("minimum", "maximum"), "string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
_Path = tuple[str | int, ...]


class ArgumentIssue(msgspec.Struct, frozen=True, kw_only=True):
    """One argument that does not fit."""

    path: _Path
    """Names and places that lead to it: `("criteria", "size")`."""
    code: str
    """`type`, `enum`, `bound` or `pattern`."""
    expected: str
    """The type, the values, the bound (`greater than or equal to 1`) or the pattern."""
    received: str
    """The type, value or size that came; `undefined` for a missing argument."""
    options: tuple[Any, ...] = ()
    limit: str = ""
    """The bound in signs: `>=1`."""
    kind: str = ""
    """What the bound is on: `number`, `string` or `array`."""

    @property
    def missing(self) -> bool:
        """True if the argument was left out."""
        return self.code == "type" and self.received == _MISSING


def argument_issues(schema: Json, arguments: Mapping[str, Any]) -> list[ArgumentIssue]:
    """Everything that is wrong with the arguments of one call; empty if they fit."""
    return list(_object_issues(schema, arguments, ()))


def with_whole_numbers(schema: Json, value: Any) -> Any:
    """The value with `2.0` as `2` where the schema asks for an integer: JSON does not tell them apart, and models write both."""
    branches: list[Json] = schema.get("anyOf") or schema.get("oneOf") or []
    if branches:
        schema = next((branch for branch in branches if not any(_issues(branch, value, ()))), schema)
    wanted = schema.get("type")
    match value:
        case float() if wanted == "integer" or (isinstance(wanted, list) and "integer" in wanted):
            return int(value) if value.is_integer() else value
        case dict():
            inner: dict[str, Json] = schema.get("properties", {})
            fields = cast("Json", value).items()
            return {name: with_whole_numbers(inner[name], each) if name in inner else each for name, each in fields}
        case list():
            items: Any = schema.get("items")
            listed = cast("list[Any]", value)
            return [with_whole_numbers(cast("Json", items), each) for each in listed] if isinstance(items, dict) else listed
        case _:
            return value


def is_too_large(value: Any) -> bool:
    """True if a number inside the value is an integer of more than 64 bits with its sign, or not finite: no database holds it."""
    match value:
        case bool():
            return False
        case int():
            return not -(2**63) <= value < 2**63
        case float():
            return not math.isfinite(value)
        case dict():
            return any(is_too_large(each) for each in cast("Json", value).values())
        case list() | tuple():
            return any(is_too_large(each) for each in cast("Sequence[Any]", value))
        case _:
            return False


def _issues(schema: Json, value: Any, path: _Path) -> Iterator[ArgumentIssue]:
    branches: list[Json] = schema.get("anyOf") or schema.get("oneOf") or []
    if branches:
        tried = [list(_issues(branch, value, path)) for branch in branches]
        if all(tried):
            yield from min(tried, key=len)
        return
    wanted = schema.get("type")
    types = cast("list[str]", wanted) if isinstance(wanted, list) else [wanted] if isinstance(wanted, str) else []
    if types and not any(_has_type(value, each) for each in types):
        yield ArgumentIssue(path=path, code="type", expected=types[0], received=_type_name(value))
        return
    options: Sequence[Any] = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if options and value not in options:
        shown = " | ".join(f"'{each}'" for each in options)
        yield ArgumentIssue(path=path, code="enum", expected=shown, received=str(value)[:200], options=tuple(options))
    yield from _bound_issues(schema, value, path)
    if isinstance(value, dict):
        yield from _object_issues(schema, cast("Json", value), path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for place, item in enumerate(cast("list[Any]", value)):
            yield from _issues(schema["items"], item, (*path, place))


def _object_issues(schema: Json, value: Mapping[str, Any], path: _Path) -> Iterator[ArgumentIssue]:
    properties: dict[str, Json] = schema.get("properties", {})
    for name, inner in properties.items():
        if name in value:
            if value[name] is None and "default" in inner and inner["default"] is None:
                continue  # a server that names null as the default takes it too
            yield from _issues(inner, value[name], (*path, name))
        elif name in schema.get("required", ()):
            expected = inner.get("type") or next((each.get("type") for each in inner.get("anyOf", ())), None)
            yield ArgumentIssue(path=(*path, name), code="type", expected=str(expected or "any"), received=_MISSING)


def _bound_issues(schema: Json, value: Any, path: _Path) -> Iterator[ArgumentIssue]:
    kind = _type_name(value)
    if kind not in _BOUNDS:
        return
    size, (low, high) = value if kind == "number" else len(value), _BOUNDS[kind]
    for limit, sign, broken in (
        (schema.get(low), ">=", operator.lt),
        (schema.get(high), "<=", operator.gt),
        (schema.get("exclusiveMinimum") if kind == "number" else None, ">", operator.le),
    ):
        if limit is not None and broken(size, limit):
            expected = f"{_SIGNS[sign]} {limit}"
            yield ArgumentIssue(path=path, code="bound", expected=expected, received=str(size), limit=f"{sign}{limit}", kind=kind)
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and not (len(value) <= _MAX_MATCHED and re.search(pattern, value)):
        yield ArgumentIssue(path=path, code="pattern", expected=pattern, received=value[:200])


def _has_type(value: Any, name: str) -> bool:
    if name == "integer":
        return _type_name(value) == "number" and (isinstance(value, int) or value.is_integer())
    return _type_name(value) == name


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def zod_text(issues: Sequence[ArgumentIssue]) -> str:
    """The issues as the error message of zod 3, the library with which most public servers check arguments."""
    return msgspec.json.format(msgspec.json.encode([_zod_issue(issue) for issue in issues]), indent=2).decode()


def _zod_issue(issue: ArgumentIssue) -> Json:
    match issue.code:
        case "enum":
            message = f"Invalid enum value. Expected {issue.expected}, received '{issue.received}'"
            return {
                "received": issue.received,
                "code": "invalid_enum_value",
                "options": issue.options,
                "path": issue.path,
                "message": message,
            }
        case "bound":
            low, limit = issue.limit.startswith(">"), issue.limit.lstrip("<>=")
            equal = " or equal to" if "=" in issue.limit else ""
            words = {
                "number": f"Number must be {'greater' if low else 'less'} than{equal} {limit}",
                "string": f"String must contain at {'least' if low else 'most'} {limit} character(s)",
                "array": f"Array must contain at {'least' if low else 'most'} {limit} element(s)",
            }
            return {"code": "too_small" if low else "too_big", "path": issue.path, "message": words[issue.kind]}
        case "pattern":
            return {"validation": "regex", "code": "invalid_string", "message": "Invalid", "path": issue.path}
        case _:
            message = "Required" if issue.missing else f"Expected {issue.expected}, received {issue.received}"
            return {
                "code": "invalid_type",
                "expected": issue.expected,
                "received": issue.received,
                "path": issue.path,
                "message": message,
            }


def zod_lines(issues: Sequence[ArgumentIssue]) -> str:
    """The issues as zod 4 prints them, one line each: `Invalid input: expected string, received undefined at eventId`."""
    return "\n".join(f"{_zod_line(issue)} at {_path_text(issue.path)}" for issue in issues)


def _zod_line(issue: ArgumentIssue) -> str:
    match issue.code:
        case "enum":
            return "Invalid option: expected one of " + "|".join(f'"{option}"' for option in issue.options)
        case "bound":
            size, word = ("small" if issue.limit.startswith(">") else "big"), issue.kind
            unit = {"array": " items", "string": " characters"}.get(word)
            return f"Too {size}: expected {word} to " + (f"have {issue.limit}{unit}" if unit else f"be {issue.limit}")
        case "pattern":
            email = "@" in issue.expected
            return "Invalid email address" if email else f"Invalid string: must match pattern /{issue.expected}/"
        case _:
            return f"Invalid input: expected {issue.expected}, received {issue.received}"


def _path_text(path: _Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
