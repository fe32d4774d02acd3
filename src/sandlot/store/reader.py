"""Reading a run, live or finished, without a lock.

A `RunReader` is the run at one moment: sealed segments, of which only the footers are held, and the open log, without its torn
end. Rows are in the order in which the traces were stored, and keep their position while the run goes on. One million traces open
in about a second.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Trace
from sandlot.core.trace_row import TraceRow
from sandlot.store.blobs import KeptBlobs
from sandlot.store.columns import Table, arrow, rows_of, schema_of, table_of
from sandlot.store.directory import read_manifest
from sandlot.store.entry import LogEntry, decode_trace
from sandlot.store.layout import blob_folder, layout_of
from sandlot.store.segments import TRACE, Segment, read_entries

_CHUNK_ROWS = 8192
"""Rows decoded at a time when streaming."""
_ATTEMPTS = 100
"""How often a log may vanish between listing and reading, because it was sealed, before it is an error."""


class _Part(Protocol):
    """A part of the run: a segment, or an open log."""

    num_rows: int

    def table(self, columns: Sequence[str] | None = None) -> Table: ...
    def slice(self, start: int, stop: int, columns: Sequence[str] | None = None) -> Table: ...
    def traces(self) -> Iterator[bytes]: ...
    def trace(self, index: int) -> bytes: ...


class _OpenLog:
    """An open log, as it was when read."""

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        self._entries = entries
        self.num_rows = len(entries)

    def table(self, columns: Sequence[str] | None = None) -> Table:
        return self.slice(0, self.num_rows, columns)

    def slice(self, start: int, stop: int, columns: Sequence[str] | None = None) -> Table:
        entries = self._entries[start:stop]
        rows = [entry.row for entry in entries]
        table = table_of(rows, schema_of(rows))
        if columns is None:
            return table
        if TRACE in columns:
            table = table.append_column(TRACE, arrow().array([entry.trace for entry in entries], type=arrow().binary()))
        return table.select([name for name in columns if name in table.column_names])

    def traces(self) -> Iterator[bytes]:
        return (entry.trace for entry in self._entries)

    def trace(self, index: int) -> bytes:
        return self._entries[index].trace


@dataclass(frozen=True, slots=True)
class _Index:
    """The row of each rollout, by sorted 64-bit keys of (task number, rollout)."""

    tasks: dict[str, int]
    keys: Any
    rows: Any

    def find(self, task: str, rollout: int) -> int | None:
        number = self.tasks.get(task)
        if number is None or not 0 <= rollout < 2**32:
            return None
        key = number << 32 | rollout
        at = int(self.keys.searchsorted(key))
        return int(self.rows[at]) if at < len(self.keys) and int(self.keys[at]) == key else None

    def rows_of(self, task: str) -> list[int]:
        """The rows of a task, by rollout number."""
        number = self.tasks.get(task)
        if number is None:
            return []
        first, last = (int(self.keys.searchsorted(each << 32)) for each in (number, number + 1))
        return [int(row) for row in self.rows[first:last]]


class RunReader:
    """A run as it was when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        self._parts = _gather(path)
        self._starts = [0, *accumulate(part.num_rows for part in self._parts)]

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def blobs(self) -> KeptBlobs:
        """The bytes that traces refer to."""
        return KeptBlobs(blob_folder(self.path))

    def table(self, columns: Sequence[str] | None = None) -> Table:
        """All rows as a `pyarrow.Table` (`.to_pandas()`, `polars.from_arrow`, DuckDB); by default every column but `trace`."""
        return _joined([part.table(columns) for part in self._parts], columns)

    def tables(self) -> Iterator[Table]:
        """The same part by part, so that a large run is never in memory at once; a part may have phases that others do not."""
        return (part.table() for part in self._parts)

    def rows(self) -> Iterator[TraceRow]:
        """All rows, a few thousand decoded at a time."""
        for start in range(0, len(self), _CHUNK_ROWS):
            yield from self.page(start, _CHUNK_ROWS)

    def page(self, start: int, count: int) -> list[TraceRow]:
        """Up to `count` rows from `start`; reads no others."""
        stop = min(start + count, len(self))
        pieces: list[Table] = []
        while start < stop:
            part, index = self._place(start)
            end = min(part.num_rows, index + stop - start)
            pieces.append(part.slice(index, end))
            start += end - index
        return list(rows_of(_joined(pieces, None)))

    def take(self, rows: Sequence[int], columns: Sequence[str]) -> Table:
        """These rows, given in ascending order; reads only the parts that have one."""
        tables: list[Table] = []
        for start, part in zip(self._starts, self._parts, strict=False):
            first, last = bisect_left(rows, start), bisect_left(rows, start + part.num_rows)
            if first < last:
                tables.append(part.table(columns).take([row - start for row in rows[first:last]]))
        return _joined(tables, columns)

    def trace(self, task: str, rollout: int) -> Trace:
        """One trace; `ConfigError` if the run does not have it."""
        row = self._index.find(task, rollout)
        if row is None:
            raise ConfigError(f"run `{self.path}` has no trace {task}/{rollout}; {self._nearest(task)}")
        return self.trace_at(row)

    def trace_at(self, row: int) -> Trace:
        """The trace of a row."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a run of {len(self)}")
        part, index = self._place(row)
        return decode_trace(part.trace(index), f"row {row} of {self.path}")

    def traces(self) -> Iterator[Trace]:
        """All traces in order, a few hundred in memory at a time."""
        for part in self._parts:
            for data in part.traces():
                yield decode_trace(data, str(self.path))

    def traces_of(self, keys: Iterable[tuple[str, int]]) -> Iterator[Trace]:
        """The traces of those rollouts that the run has, in stored order, so that neighbours are read together."""
        found = (self._index.find(task, rollout) for task, rollout in keys)
        return (self.trace_at(row) for row in sorted(row for row in found if row is not None))

    def task_rows(self, task: str) -> list[TraceRow]:
        """The rows of one task, by rollout number; `ConfigError` if the run has none."""
        found = self._index.rows_of(task)
        if not found:
            raise ConfigError(f"run `{self.path}` has no task `{task}`; {self._nearest(task)}")
        return [row for at in found for row in self.page(at, 1)]

    def done_keys(self) -> set[tuple[str, int]]:
        """The (task, rollout) of every stored rollout."""
        table = self.table(["task", "rollout"])
        return set(zip(table.column("task").to_pylist(), table.column("rollout").to_pylist(), strict=True))

    def _place(self, row: int) -> tuple[_Part, int]:
        at = bisect_right(self._starts, row) - 1
        return self._parts[at], row - self._starts[at]

    @cached_property
    def _index(self) -> _Index:
        table = self.table(["task", "rollout"])
        tasks = table.column("task").combine_chunks().dictionary_encode()
        keys = tasks.indices.to_numpy().astype("u8") << 32 | table.column("rollout").to_numpy().astype("u8")
        order = keys.argsort(kind="stable")
        names = {name: number for number, name in enumerate(tasks.dictionary.to_pylist())}
        return _Index(tasks=names, keys=keys[order], rows=order)

    def _nearest(self, task: str) -> str:
        names = list(self._index.tasks)
        if task in self._index.tasks:
            table = self.table(["task", "rollout"])
            theirs = [key[1] for key in zip(*(column.to_pylist() for column in table.columns), strict=True) if key[0] == task]
            return f"rollouts of `{task}`: {', '.join(map(str, sorted(theirs)[:10]))}"
        return f"tasks: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else "it has none yet"


def _gather(path: Path) -> list[_Part]:
    """Every part once, in order. If a log vanishes meanwhile, it was sealed: list again."""
    for attempt in range(_ATTEMPTS):
        layout = layout_of(path)
        try:
            logs = {number: _OpenLog(read_entries(log)) for number, log in layout.logs.items()}
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        segments = {number: Segment(segment) for number, segment in layout.segments.items()}
        parts: dict[int, _Part] = {**segments, **{number: log for number, log in logs.items() if log.num_rows}}
        return [part for _, part in sorted(parts.items())]
    raise AssertionError


def _joined(tables: list[Table], columns: Sequence[str] | None) -> Table:
    """One table; a phase that a part does not have is null there."""
    pa = arrow()
    if not tables:
        tables = [schema_of([]).empty_table()]
    joined = pa.concat_tables(tables, promote_options="default")
    if columns is None:
        return joined
    missing = [name for name in columns if name not in joined.column_names]
    if missing:
        known = schema_of([]).names
        raise ConfigError(f"no column `{missing[0]}`; columns: {', '.join(known)}, trace")
    return joined.select(list(columns))
