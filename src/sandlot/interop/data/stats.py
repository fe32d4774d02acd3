"""What data is like: rows, files, and for every field its types, gaps, lengths, and most frequent values."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from sandlot.core.text import one_line
from sandlot.interop.data.rows import DataRow, row_hash
from sandlot.interop.data.validate import type_name

_TOP = 3
_MAX_VALUES = 100_000
"""Different values of a field that are counted."""
_LONGEST = 60


class FieldStats(msgspec.Struct, frozen=True, kw_only=True):
    """One field over all rows."""

    name: str
    present: int
    """Rows that have it, with a value that is not null and not empty."""
    types: dict[str, int]
    distinct: int
    """Different values; `distinct_is_least` if there are more."""
    distinct_is_least: bool = False
    low: float | None = None
    """Of numbers the smallest, of texts the fewest characters, of lists the fewest elements."""
    median: float | None = None
    high: float | None = None
    top: tuple[tuple[str, int], ...] = ()
    """Most frequent values, if any comes twice."""


class DataStats(msgspec.Struct, frozen=True, kw_only=True):
    """What data is like."""

    rows: int
    files: dict[str, int]
    """Rows by source file."""
    repeated_rows: int
    """Rows that are the same as an earlier one, value for value."""
    fields: tuple[FieldStats, ...]


def describe_rows(rows: Iterable[DataRow]) -> DataStats:
    """Describe rows."""
    listed = list(rows)
    hashes = Counter(row_hash(row.value) for row in listed)
    values: dict[str, list[Any]] = {}
    for row in listed:
        for name, value in row.value.items():
            values.setdefault(name, []).append(value)
    return DataStats(
        rows=len(listed),
        files=dict(Counter(row.origin.file for row in listed)),
        repeated_rows=len(listed) - len(hashes),
        fields=tuple(_field(name, each) for name, each in values.items()),
    )


def _field(name: str, values: list[Any]) -> FieldStats:
    there = [value for value in values if value is not None and value != ""]
    sizes = sorted(size for value in there if (size := _size(value)) is not None)
    counts: Counter[str] = Counter()
    for value in there:
        text = value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()
        if text in counts or len(counts) < _MAX_VALUES:
            counts[text] += 1
    return FieldStats(
        name=name,
        present=len(there),
        types=dict(Counter(type_name(value) for value in there).most_common()),
        distinct=len(counts),
        distinct_is_least=len(counts) >= _MAX_VALUES,
        low=sizes[0] if sizes else None,
        median=sizes[len(sizes) // 2] if sizes else None,
        high=sizes[-1] if sizes else None,
        top=tuple((one_line(text, _LONGEST), count) for text, count in counts.most_common(_TOP) if count > 1),
    )


def _size(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    return float(len(value)) if isinstance(value, str | list | dict) else None  # pyright: ignore[reportUnknownArgumentType]
