"""Rollouts set aside: removed from a run to be taken again, and kept in its folder.

    set_aside/NNNNNN-DIGEST.parquet  rollouts that were in segment NNNNNN, in the same columns

After a crash a rollout is in the run, or set aside, or both, never lost; the next call finishes the work. Readers and SQL over
`segments/` see only the rollouts of the run.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sandlot.core.disk import DISK, Disk, make_folder, sync_folder
from sandlot.core.trace import Trace
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import digest
from sandlot.store.columns import rows_of
from sandlot.store.entry import LogEntry, decode_trace
from sandlot.store.layout import aside_folder, layout_of, segment_file
from sandlot.store.segments import Segment, seal, write_segment


def set_aside(run: Path, wanted: Callable[[TraceRow], bool], disk: Disk = DISK) -> int:
    """Set aside every rollout that is `wanted`, and return their number. Blocking; the caller holds the run's lock."""
    layout = layout_of(run)
    for number, log in (layout.logs | layout.shadowed).items():
        if number in layout.segments:
            disk.remove(log)  # a crash left it; its segment is complete
            sync_folder(log.parent, disk)  # or it comes back beside a segment with fewer rollouts
        else:
            seal(log, segment_file(run, number), disk)
    return sum(_set_aside_of(run, number, path, wanted, disk) for number, path in layout_of(run).segments.items())


def rows_set_aside(run: Path) -> Iterator[TraceRow]:
    """The rows of all rollouts set aside."""
    for path in sorted(aside_folder(run).glob("*.parquet")):
        yield from rows_of(Segment(path).table())


def traces_set_aside(run: Path) -> Iterator[Trace]:
    """The traces of all rollouts set aside."""
    for path in sorted(aside_folder(run).glob("*.parquet")):
        yield from (decode_trace(data, str(path)) for data in Segment(path).traces())


def _set_aside_of(run: Path, number: int, path: Path, wanted: Callable[[TraceRow], bool], disk: Disk) -> int:
    segment = Segment(path)
    rows = list(rows_of(segment.table()))
    if not any(wanted(row) for row in rows):
        return 0
    entries = [LogEntry(row, trace) for row, trace in zip(rows, segment.traces(), strict=True)]
    out = [entry for entry in entries if wanted(entry.row)]
    make_folder(aside_folder(run), disk)
    write_segment(out, aside_folder(run) / f"{number:06d}-{_digest_of(out)}.parquet", disk)
    left = [entry for entry in entries if not wanted(entry.row)]
    if left:
        write_segment(left, path, disk)
    else:
        disk.remove(path)
        sync_folder(path.parent, disk)
    return len(out)


def _digest_of(entries: Sequence[LogEntry]) -> str:
    """Equal for the same rollouts, so that setting them aside again after a crash keeps them once."""
    return digest(b"".join(entry.trace for entry in entries))[:12]
