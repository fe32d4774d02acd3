# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Rows of plain data as JSONL or Parquet files that read back exactly as written.

In a struct column, a key that an object lacks reads back as null, and chat templates treat `tool_calls: null` as a value. So if
objects of a column differ in their keys, or hold anything but text and numbers, they are stored as JSON values: Parquet's logical
type JSON, Arrow's `arrow.json`, which `datasets` (4.7 and newer) reads as objects. Messages with only role and content are an
ordinary struct, which every reader supports.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sandlot.core.types import Json

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 256
"""Rows written together."""

_PLAIN = {"role": str, "content": str}
"""A message that needs no JSON."""


def write_rows(file: Path, rows: Iterator[Json]) -> int:
    """Write the rows in the format of the file's ending, and return their number. The file is written whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    lines = file.with_name(f".{file.name}.lines")
    try:
        number, columns = _write_lines(lines, rows)
        if file.suffix == ".parquet":
            _write_parquet(draft, lines, columns)
            draft.replace(file)
        else:
            lines.replace(file)
    finally:
        draft.unlink(missing_ok=True)
        lines.unlink(missing_ok=True)
    return number


def _write_lines(file: Path, rows: Iterator[Json]) -> tuple[int, dict[str, str]]:
    """Write one line per row; returns their number, and the kind of each column."""
    number = 0
    columns: dict[str, str] = {}
    with file.open("wb") as out:
        for row in rows:
            out.write(msgspec.json.encode(row) + b"\n")
            number += 1
            for name, value in row.items():
                kind = _kind(value)
                columns[name] = kind if columns.get(name, kind) == kind else _either(columns[name], kind)
    return number, columns


def _kind(value: Any) -> str:
    if isinstance(value, list):
        kinds = {_kind_of_entry(entry) for entry in value}  # pyright: ignore[reportUnknownVariableType] - plain data
        return "empty" if not kinds else kinds.pop() if len(kinds) == 1 else "json"
    return {str: "text", int: "int", float: "float"}[type(value)]


def _kind_of_entry(entry: Any) -> str:
    if isinstance(entry, dict):
        return "messages" if {name: type(value) for name, value in entry.items()} == _PLAIN else "json"
    return {int: "ints", float: "floats"}.get(type(entry), "json")


def _either(one: str, other: str) -> str:
    """The kind that holds both: an empty list fits any list."""
    if "empty" in {one, other}:
        return one if other == "empty" else other
    return "float" if {one, other} == {"int", "float"} else "json"


def _write_parquet(file: Path, lines: Path, columns: dict[str, str]) -> None:
    import pyarrow as pa  # noqa: PLC0415 - JSONL does not need it
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    stored, schema = _schema(columns, as_text=True), _schema(columns, as_text=False)
    as_json = [name for name, kind in columns.items() if kind == "json"]
    with ExitStack() as stack:
        source = stack.enter_context(lines.open("rb"))
        writer: Any = stack.enter_context(pq.ParquetWriter(file, schema))
        while True:
            batch = [_with_json(msgspec.json.decode(line), as_json) for line in islice(source, BATCH)]
            writer.write_table(pa.Table.from_pylist(batch, schema=stored).cast(schema))
            if len(batch) < BATCH:
                return


def _with_json(row: Json, names: list[str]) -> Json:
    return {**row, **{name: [msgspec.json.encode(entry).decode() for entry in row[name]] for name in names}}


def _schema(columns: dict[str, str], *, as_text: bool) -> "pa.Schema":
    """The schema of the file; with `as_text`, that of the table before its texts are cast to JSON."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    message = pa.struct([(name, pa.string()) for name in _PLAIN])
    types = {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "ints": pa.list_(pa.int32()),
        "floats": pa.list_(pa.float32()),
        "messages": pa.list_(message),
        "empty": pa.list_(message),
        "json": pa.list_(pa.string() if as_text else pa.json_()),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
