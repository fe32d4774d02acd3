"""Rows as Arrow columns and back: what tables, summaries and SQL read.

The columns are the fields of `TraceRow`, in order, with one column `phase_NAME` per phase. The usual phases are always there, so
that all segments of all runs have the same columns; others come after them. A phase that a rollout did not have is null, and
absent again when read back. pyarrow is imported only when a table is made or read.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, get_type_hints

from sandlot.core.trace_row import TraceRow

Table = Any
"""A `pyarrow.Table`; pyarrow comes without types."""

_PHASES = ("provision", "setup", "model", "tools", "gather", "grade", "teardown", "waiting")
PHASE = "phase_"
"""Begins the name of a phase's column."""

_FIELDS = {name: hint for name, hint in get_type_hints(TraceRow).items() if name != "phases"}
_LISTS = ("tags", "crashes")


def arrow() -> Any:
    """The pyarrow module, loaded on first use: importing it takes half a second."""
    return import_module("pyarrow")


def parquet() -> Any:
    """The pyarrow.parquet module, likewise."""
    return import_module("pyarrow.parquet")


def _arrow_type(hint: Any) -> Any:
    pa = arrow()
    types = {
        str: pa.string(),
        str | None: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        float | None: pa.float64(),
        bool | None: pa.bool_(),
        tuple[str, ...]: pa.list_(pa.string()),
    }
    return types[hint]


def schema_of(rows: Sequence[TraceRow]) -> Any:
    """The schema for these rows."""
    pa = arrow()
    others = sorted({phase for row in rows for phase in row.phases}.difference(_PHASES))
    return pa.schema(
        [pa.field(name, _arrow_type(hint)) for name, hint in _FIELDS.items()]
        + [pa.field(PHASE + phase, pa.float64()) for phase in (*_PHASES, *others)]
    )


def table_of(rows: Sequence[TraceRow], schema: Any) -> Table:
    """Rows as a table of this schema."""
    arrays = [
        [row.phases.get(name.removeprefix(PHASE)) for row in rows]
        if name.startswith(PHASE)
        else [getattr(row, name) for row in rows]
        for name in schema.names
    ]
    pa = arrow()
    columns = [pa.array(values, type=field.type) for values, field in zip(arrays, schema, strict=True)]
    return pa.table(columns, schema=schema)


def rows_of(table: Table) -> Iterator[TraceRow]:
    """The rows of a table."""
    values = {name: table.column(name).to_pylist() for name in table.column_names}
    phase_names = [name for name in values if name.startswith(PHASE)]
    phases = [(name.removeprefix(PHASE), values[name]) for name in phase_names]
    fields = {name: values[name] for name in _FIELDS if name not in _LISTS}
    names = list(fields)
    lists = [name for name in _LISTS if name in values]
    for index, scalars in enumerate(zip(*fields.values(), strict=True)):
        columns: dict[str, Any] = dict(zip(names, scalars, strict=True))
        columns |= {name: tuple(values[name][index]) for name in lists}
        yield TraceRow(**columns, phases={phase: column[index] for phase, column in phases if column[index] is not None})
