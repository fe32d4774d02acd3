"""Rows checked against a schema: a JSON Schema, the fields of a task, or what most of the rows have."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sandlot.checks.json_values import schema_fault
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.text import one_line
from sandlot.core.types import Json
from sandlot.interop.data.rows import DataRow
from sandlot.interop.untrusted import read_bytes

_COMMON = 0.95
"""A field or type that this share of the rows has is expected in all."""
_MAX_SCHEMA_BYTES = 4 * 2**20
_LONGEST = 200


class RowFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A row that does not fit."""

    row: str
    """`FILE:LINE`."""
    message: str


class ValidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a validation found."""

    rows: int
    findings: tuple[RowFinding, ...]


def read_schema(path: Path) -> Mapping[str, Any]:
    """A JSON Schema; `ConfigError` if it is none."""
    try:
        schema = msgspec.json.decode(read_bytes(path, at_most=_MAX_SCHEMA_BYTES))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"schema `{path}` is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"schema `{path}` is not an object")
    return schema  # pyright: ignore[reportUnknownVariableType] - JSON


def validate_rows(rows: Iterable[DataRow], schema: Mapping[str, Any] | str | None = None) -> ValidationReport:
    """Check every row.

    - `rows`: the rows.
    - `schema`: a JSON Schema (the words that the check `json_schema` understands), or `task` for the fields of a task. None:
      fields and types that nearly all rows have are expected in all.
    """
    listed = list(rows)
    if schema == "task":
        found = _as_tasks(listed)
    elif isinstance(schema, str):
        raise ConfigError(f"there is no schema `{schema}`; give a file, or `task`")
    else:
        found = _by_schema(listed, schema) if schema is not None else _by_majority(listed)
    return ValidationReport(rows=len(listed), findings=tuple(found))


def _by_schema(rows: list[DataRow], schema: Mapping[str, Any]) -> Iterator[RowFinding]:
    for row in rows:
        try:
            fault = schema_fault(row.value, schema, "$", 0)
        except ValueError as error:
            raise ConfigError(f"the schema cannot be used: {error}") from error
        if fault is not None:
            yield RowFinding(row=row.origin.place, message=one_line(fault, _LONGEST))


def _as_tasks(rows: list[DataRow]) -> Iterator[RowFinding]:
    seen: dict[str, str] = {}
    for row in rows:
        try:
            unknown = sorted(set(row.value) - set(Task.__struct_fields__))
            task = msgspec.convert(row.value, Task)
        except (msgspec.ValidationError, ConfigError) as error:
            yield RowFinding(row=row.origin.place, message=one_line(str(error), _LONGEST))
            continue
        if unknown:
            yield RowFinding(row=row.origin.place, message=f"a task has no field `{one_line(unknown[0], 60)}`")
        if not task.prompt.strip():
            yield RowFinding(row=row.origin.place, message="the prompt is empty")
        if task.id in seen:
            yield RowFinding(row=row.origin.place, message=f"the id `{task.id}` is taken by {seen[task.id]}")
        seen.setdefault(task.id, row.origin.place)


def _by_majority(rows: list[DataRow]) -> Iterator[RowFinding]:
    present = Counter(name for row in rows for name in row.value)
    expected = {name for name, count in present.items() if count >= _COMMON * len(rows)}
    types: dict[str, Counter[str]] = {name: Counter() for name in present}
    for row in rows:
        for name, value in row.value.items():
            types[name][type_name(value)] += 1
    usual = {
        name: kind for name, counts in types.items() for kind, count in counts.most_common(1) if count >= _COMMON * counts.total()
    }
    for row in rows:
        yield from (RowFinding(row=row.origin.place, message=fault) for fault in _odd(row.value, expected, usual))


def _odd(value: Json, expected: set[str], usual: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(expected - set(value)):
        yield f"has no field `{one_line(name, 60)}`, which nearly all rows have"
    for name, each in value.items():
        kind = type_name(each)
        if kind != usual.get(name, kind):
            yield f"`{one_line(name, 60)}` is {kind}; nearly everywhere else it is {usual[name]}"
        elif isinstance(each, str) and not each.strip():
            yield f"`{one_line(name, 60)}` is empty"


def type_name(value: Any) -> str:
    """The type of a value in the words of JSON."""
    names: dict[type, str] = {
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return next((word for kind, word in names.items() if type(value) is kind), "null" if value is None else "another type")
