"""Finished rollouts, stored exactly once.

`add` returns when the trace is durable in the log. A log that is large enough is closed, and a worker thread seals it into a
segment while the next log grows; the last one is sealed at close. Adding a second trace of the same (task, rollout) is an error,
even with the same content. Check with `in` first.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from sandlot.core.disk import DISK, Disk, sync_folder
from sandlot.core.errors import StoreError, boundary
from sandlot.core.trace import Trace
from sandlot.core.trace_row import TraceRow
from sandlot.store.aside import set_aside
from sandlot.store.columns import parquet
from sandlot.store.entry import ENTRY_TAG, decode_entry, encode_entry
from sandlot.store.frames import FrameLog, Scan, recover
from sandlot.store.layout import Layout, layout_of, log_file, segment_file
from sandlot.store.segments import Segment, read_entries, seal

log = logging.getLogger(__name__)

Key = tuple[str, int]
"""(task, rollout)."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """When a log is large enough to be sealed."""

    traces: int = 8192
    size_bytes: int = 64 * 2**20

    def due(self, num_traces: int, size_bytes: int) -> bool:
        """True if the log is large enough."""
        return num_traces >= self.traces or size_bytes >= self.size_bytes


def _doubled(trace: Trace) -> StoreError:
    return StoreError(f"rollout {trace.task}/{trace.rollout} is already stored; each is stored once", kind="doubled")


class TraceLog:
    """Writes the traces of a run."""

    def __init__(self, run: Path, found: "_Found", sealing: Sealing, disk: Disk) -> None:
        self._run = run
        self._sealing = sealing
        self._disk = disk
        self._keys = found.keys
        self._claimed: set[Key] = set()
        self._number = found.number
        self._log = FrameLog(log_file(run, found.number), after=found.tail, disk=disk)
        self._sealer = ThreadPoolExecutor(1, thread_name_prefix="seal")
        self._seals = [self._start_seal(number) for number in found.unsealed]

    async def add(self, trace: Trace, row: TraceRow) -> None:
        """Store a trace; returns when it is durable."""
        data = encode_entry(trace, row)
        key = trace.key
        if key in self._keys or key in self._claimed:
            raise _doubled(trace)
        self._claimed.add(key)
        current = self._log
        await current.append(ENTRY_TAG, data)
        self._keys.add(key)
        self._claimed.discard(key)
        if current is self._log and self._sealing.due(current.num_records, current.size_bytes):
            await self._start_next_log()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    async def retake(self, wanted: Callable[[TraceRow], bool]) -> int:
        """Set aside every rollout that is `wanted`, to be taken again, and return their number. Nothing is added meanwhile."""
        taken: set[Key] = set()

        def pick(row: TraceRow) -> bool:
            chosen = wanted(row)
            if chosen:
                taken.add((row.task, row.rollout))
            return chosen

        with anyio.CancelScope(shield=True), boundary(StoreError, f"run `{self._run}`: failed rollouts cannot be set aside"):
            await self._log.close()
            await anyio.to_thread.run_sync(lambda: [future.exception() for future in self._seals])
            await anyio.to_thread.run_sync(set_aside, self._run, pick, self._disk)
            self._number = max(self._number + 1, layout_of(self._run).next_number)
            self._log = FrameLog(log_file(self._run, self._number), disk=self._disk)
        self._keys -= taken
        return len(taken)

    def done_keys(self) -> set[Key]:
        """The stored rollouts."""
        return set(self._keys)

    async def _start_next_log(self) -> None:
        full, number = self._log, self._number
        self._number += 1
        self._log = FrameLog(log_file(self._run, self._number), disk=self._disk)
        await full.close()
        self._seals.append(self._start_seal(number))

    def _start_seal(self, number: int) -> Future[int]:
        return self._sealer.submit(seal, log_file(self._run, number), segment_file(self._run, number), self._disk)

    async def close(self) -> None:
        """Seal the rest. If sealing fails, the log stays and is sealed when the run is opened again."""
        with anyio.CancelScope(shield=True):
            broken = self._log.failed
            await self._log.close()
            if self._log.num_records and not broken:
                self._seals.append(self._start_seal(self._number))
            await anyio.to_thread.run_sync(self._sealer.shutdown, limiter=anyio.CapacityLimiter(1))
        for future in self._seals:
            error = future.exception()
            if error is not None:
                log.warning("seal failed; the log stays", extra={"run": str(self._run), "error": str(error)})


@dataclass(frozen=True, slots=True)
class _Found:
    """The state of the traces when opened for writing."""

    keys: set[Key]
    number: int
    """The log to append to."""
    tail: Scan | None
    """The content of that log; None if it is new."""
    unsealed: list[int]


@asynccontextmanager
async def open_traces(run: Path, sealing: Sealing, disk: Disk = DISK) -> AsyncGenerator[TraceLog]:
    """Open a run's traces for writing; the caller holds the lock.

    pyarrow, which sealing needs, is imported here: if the sealing thread imported it during the run, author code in other threads
    could see it and numpy half initialised.
    """
    with boundary(StoreError, f"run `{run}` cannot be opened for writing"):
        await anyio.to_thread.run_sync(parquet)
        found = await anyio.to_thread.run_sync(_recover, run, sealing, disk)
    traces = TraceLog(run, found, sealing, disk)
    try:
        yield traces
    finally:
        await traces.close()


def _recover(run: Path, sealing: Sealing, disk: Disk) -> _Found:
    """Repair what a crash left: afterwards every number is either a log or a segment, and every rollout is there once."""
    layout = layout_of(run)
    _drop_shadowed(layout, disk)
    keys = _Keys()
    for path in layout.segments.values():
        keys.add_all(_segment_keys(Segment(path)), path)
    scans = {number: recover(path, disk) for number, path in layout.logs.items()}
    for number, found in scans.items():
        path = layout.logs[number]
        rows = (decode_entry(record.data, str(path)).row for record in found.records)
        keys.add_all([(row.task, row.rollout) for row in rows], path)
        if found.torn_bytes:
            log.warning("torn tail cut off", extra={"file": str(path), "bytes": found.torn_bytes})
    last = max(scans, default=None)
    if last is None or last < layout.next_number - 1 or sealing.due(len(scans[last].records), scans[last].end):
        return _Found(keys=keys.found, number=layout.next_number, tail=None, unsealed=list(scans))
    return _Found(keys=keys.found, number=last, tail=scans[last], unsealed=[number for number in scans if number != last])


class _Keys:
    """The keys of all parts of a run; `StoreError` if one is there twice."""

    def __init__(self) -> None:
        self.found: set[Key] = set()

    def add_all(self, keys: list[Key], source: Path) -> None:
        before = len(self.found)
        self.found.update(keys)
        if len(self.found) != before + len(keys):
            raise StoreError(f"`{source}` has rollouts that another file has too; remove the copy", kind="doubled")


def _segment_keys(segment: Segment) -> list[Key]:
    """The rollouts of a segment, in order."""
    table = segment.table(["task", "rollout"])
    return list(zip(table.column("task").to_pylist(), table.column("rollout").to_pylist(), strict=True))


def _drop_shadowed(layout: Layout, disk: Disk) -> None:
    for number, path in layout.shadowed.items():
        segment = Segment(layout.segments[number])
        num_logged = len(read_entries(path))
        if segment.num_rows != num_logged:
            raise StoreError(
                f"`{segment.path}` has {segment.num_rows} traces and `{path}` {num_logged}; "
                "one of them is not of this run: move it away",
                kind="corrupt",
            )
        disk.remove(path)
        sync_folder(path.parent, disk)
