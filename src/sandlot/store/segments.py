"""Segments: logs sealed into Parquet files, which DuckDB, pandas or polars can open.

    select outcome, count(*), avg(score) from 'runs/x/segments/*.parquet' group by outcome

Columns as in `columns.py`, then `trace`: msgpack of the trace. Row groups are small, so reading one trace takes milliseconds.
Sealing survives a crash at any point: the segment is written whole, then the log is removed; while both exist the segment counts.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from sandlot.core.disk import DISK, Disk, sync_folder, write_file
from sandlot.core.errors import StoreError, boundary
from sandlot.store.columns import Table, arrow, parquet, schema_of, table_of
from sandlot.store.entry import LogEntry, decode_entry
from sandlot.store.frames import read_frames

TRACE = "trace"
_GROUP_ROWS = 512
_GROUP_BYTES = 2 * 2**20
"""A row group ends at whichever limit comes first: reading one trace reads one group."""
_REPEATED = ["task", "split", "end", "outcome", "side", "kind", "message", "tags"]


def read_entries(log: Path) -> list[LogEntry]:
    """The complete traces of a log."""
    return [decode_entry(record.data, str(log)) for record in read_frames(log).records]


def seal(log: Path, segment: Path, disk: Disk = DISK) -> int:
    """Turn a closed log into a segment; return the number of traces. Blocking: for a worker thread."""
    with boundary(StoreError, f"`{log}` could not be sealed"):
        entries = read_entries(log)
        if entries:
            write_segment(entries, segment, disk)
        disk.remove(log)
        sync_folder(log.parent, disk)
        return len(entries)


def write_segment(entries: Sequence[LogEntry], segment: Path, disk: Disk = DISK) -> None:
    """Write a segment, whole and durable."""
    pa, pq = arrow(), parquet()
    schema = schema_of([entry.row for entry in entries])
    with_trace = schema.append(pa.field(TRACE, pa.binary()))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        with_trace,
        compression="zstd",
        use_dictionary=_REPEATED,
        write_statistics=schema.names,  # not of traces: minimum and maximum would be two whole traces per group
        write_page_checksum=True,
    ) as writer:
        for group in _groups(entries):
            table = table_of([entry.row for entry in group], schema)
            traces = pa.array([entry.trace for entry in group], type=pa.binary())
            writer.write_table(table.append_column(TRACE, traces), row_group_size=len(group))
    written = sink.getvalue()
    assert pq.read_metadata(pa.BufferReader(written)).num_rows == len(entries)
    write_file(segment, memoryview(written), disk)


def _groups(entries: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    start, size = 0, 0
    for index, entry in enumerate(entries):
        if index > start and (index - start >= _GROUP_ROWS or size + len(entry.trace) > _GROUP_BYTES):
            yield entries[start:index]
            start, size = index, 0
        size += len(entry.trace)
    yield entries[start:]


def _identity(path: Path) -> tuple[int, int, int]:
    """Equal as long as the file is the same."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


class Segment:
    """A sealed log open for reading. Only its footer is held; columns and traces are read on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with boundary(
            StoreError, f"segment `{path}` cannot be read; restore it from a copy, or move it away to run its rollouts again"
        ):
            self._file = _identity(path)
            self._metadata = parquet().read_metadata(path)
        sizes = [self._metadata.row_group(group).num_rows for group in range(self._metadata.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self.num_rows: int = self._starts[-1]
        self._scalars = [name for name in self._metadata.schema.to_arrow_schema().names if name != TRACE]
        self._held: tuple[int, Table] | None = None

    @property
    def is_current(self) -> bool:
        """False once the file was replaced because some of its rollouts were set aside (`aside.py`)."""
        try:
            return _identity(self.path) == self._file
        except FileNotFoundError:
            return False

    def table(self, columns: Sequence[str] | None = None) -> Table:
        """All rows; by default every column but `trace`."""
        return self._read(range(self._metadata.num_row_groups), columns, threads=True)

    def slice(self, start: int, stop: int, columns: Sequence[str] | None = None) -> Table:
        """Some rows; reads only their row groups."""
        first, last = self._group_of(start), self._group_of(stop - 1)
        table = self._read(range(first, last + 1), columns, threads=False)
        return table.slice(start - self._starts[first], stop - start)

    def traces(self) -> Iterator[bytes]:
        """All traces, one row group at a time."""
        for group in range(self._metadata.num_row_groups):
            yield from self._read([group], [TRACE], threads=False).column(TRACE).to_pylist()

    def trace(self, index: int) -> bytes:
        """One trace. Its row group is cached, since its neighbours are often read next."""
        group = self._group_of(index)
        if self._held is None or self._held[0] != group:
            self._held = (group, self._read([group], [TRACE], threads=False).column(TRACE))
        return self._held[1][index - self._starts[group]].as_py()

    def _group_of(self, index: int) -> int:
        return bisect_right(self._starts, index) - 1

    def _read(self, groups: Sequence[int], columns: Sequence[str] | None, *, threads: bool) -> Table:
        wanted = self._scalars if columns is None else [name for name in columns if name == TRACE or name in self._scalars]
        if not self.is_current:
            raise StoreError(
                f"segment `{self.path}` has changed since the run was opened, because the run was continued; open it again"
            )
        # Opened each time: a run may have more segments than a process may open files.
        with (
            boundary(StoreError, f"segment `{self.path}` cannot be read"),
            parquet().ParquetFile(self.path, metadata=self._metadata, page_checksum_verification=True) as file,
        ):
            return file.read_row_groups(list(groups), columns=wanted, use_threads=threads)
