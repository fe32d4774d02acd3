"""Runs written straight into a store, for tests that need rows and no rollouts."""

import json
from collections.abc import Iterable
from pathlib import Path

from builders.traces import make_trace
from sandlot.core.trace_row import TraceRow
from sandlot.store.entry import LogEntry, encode_trace
from sandlot.store.layout import folders
from sandlot.store.segments import write_segment


def store_rows(place: Path, manifest: Path, made: Iterable[TraceRow], *, size: int = 8192) -> Path:
    """A run with these rows, in segments of `size`, and the manifest of another run. All of its traces are the same."""
    for folder in folders(place):
        folder.mkdir(parents=True)
    every, trace = list(made), encode_trace(make_trace())
    (place / "manifest.json").write_text(json.dumps(json.loads(manifest.read_text()) | {"num_rollouts": len(every)}))
    for number, start in enumerate(range(0, len(every), size), start=1):
        entries = [LogEntry(row, trace) for row in every[start : start + size]]
        write_segment(entries, place / "segments" / f"{number:06d}.parquet")
    return place
