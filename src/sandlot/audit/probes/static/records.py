"""Records: rows of a sample of real data, and the lists in tasks' data that correspond to them.

A sample is a `.jsonl`, `.csv` or `.parquet` file of flat rows. In the tasks, every list of objects, and every object whose values
are objects, is a candidate; those at the same place of different tasks form one pool. The sample is compared with the pool whose
field names agree best, at least by half; a pool with the name of the file wins a tie.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.types import Json

_MOST_ROWS = 50_000
_AGREEING = 0.5


@dataclass(frozen=True, slots=True)
class Pool:
    """Records at the same place of many tasks."""

    place: str
    rows: list[Json]
    homes: list[str]
    """The task of each row."""

    @property
    def tasks(self) -> int:
        """Number of tasks that have such records."""
        return len(set(self.homes))

    @property
    def fields(self) -> set[str]:
        """All field names."""
        return {name for row in self.rows for name in row}


def read_records(path: Path) -> list[Json]:
    """The rows of a sample; `ConfigError` if the file is invalid."""
    try:
        rows = _rows(path)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, csv.Error, ValueError) as error:
        raise ConfigError(f"reference `{path}` cannot be read: {error}") from error
    if not rows or not all(isinstance(row, dict) for row in cast("list[Any]", rows)):
        raise ConfigError(f"reference `{path}`: give at least one row, each an object")
    return rows


def _rows(path: Path) -> list[Json]:
    if path.suffix == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415 - slow to import, rarely needed

        rows = cast("list[Json]", parquet.read_table(path).to_pylist())  # pyright: ignore[reportUnknownMemberType]
        return rows[:_MOST_ROWS]
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return [{name: text or None for name, text in row.items()} for row in islice(csv.DictReader(file), _MOST_ROWS)]
    if path.suffix in {".jsonl", ".ndjson"}:
        lines = path.read_bytes().splitlines()[:_MOST_ROWS]
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    raise ConfigError(f"reference `{path}`: give a .jsonl, .csv or .parquet file")


def pools_of(tasks: Sequence[Task]) -> list[Pool]:
    """Every kind of record in the tasks' data."""
    found: dict[str, Pool] = {}
    for task in tasks:
        for place, rows in _lists("", task.data, 4):
            pool = found.setdefault(place, Pool(place, [], []))
            kept = rows[: max(0, _MOST_ROWS - len(pool.rows))]
            pool.rows.extend(kept)
            pool.homes.extend([task.id] * len(kept))
    return list(found.values())


def _lists(place: str, value: Any, depth: int) -> Iterator[tuple[str, list[Json]]]:
    """Lists of objects with their paths, up to a depth."""
    inner: list[Any] = []
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        inner = list(named.values())
        if depth:
            for name, item in named.items():
                yield from _lists(f"{place}.{name}" if place else str(name), item, depth - 1)
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    if place and len(inner) > 1 and all(isinstance(item, Mapping) for item in inner):
        yield place, [dict(cast("Json", item)) for item in inner]


def matching_pool(pools: Sequence[Pool], sample: Sequence[Json], name: str) -> Pool | None:
    """The pool whose field names agree best with the sample's; None if none agrees by half."""
    wanted = {field for row in sample for field in row}
    rated = [
        (len(pool.fields & wanted) / len(pool.fields | wanted), pool.place.rpartition(".")[2] == name, len(pool.rows), pool)
        for pool in pools
    ]
    best = max(rated, key=lambda each: each[:3], default=None)
    return best[3] if best is not None and best[0] >= _AGREEING else None
