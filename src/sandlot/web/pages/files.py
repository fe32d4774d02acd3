"""The files that a rollout left: what changed since setup, as differences, and each file as what it is."""

import csv
import difflib
import io
import posixpath
import shlex
from collections.abc import Iterator
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.core.trace import FileRecord, Trace
from sandlot.run.results import Run
from sandlot.web.artifacts import artifact_of, read_blob
from sandlot.web.pages.messages import open_trace, place_of
from sandlot.web.site import Asked

_LISTED = 200
"""Changed files that the page of a trace names."""
_SHOWN = 12
"""Changed files whose differences it shows."""
_LARGEST = 200_000
"""Bytes of a file that are compared, or shown as text or table."""
_LINES = 2_000
"""Lines of a file that are compared: comparing takes more than linear time."""
_LINES_AT_FIRST = 120
"""Lines of difference for each file on the page of a trace."""
_ROWS, _COLUMNS, _CELL = 300, 40, 200


def show_files(run: Run, trace: Trace) -> dict[str, Any] | None:
    """What changed in the files of a rollout; None if its world has no files."""
    record = trace.evidence
    if record is None or not (record.files or record.initial or record.kinds or record.lost):
        return None
    changed = [path for path in sorted(record.files.keys() | record.initial.keys(), key=_order) if _state(trace, path) != "same"]
    return {
        "changed": [_entry(run, trace, path, shown=number < _SHOWN) for number, path in enumerate(changed[:_LISTED])],
        "num_changed": len(changed),
        "same": [path for path in sorted(record.files) if _state(trace, path) == "same"][:_LISTED],
        "num_same": len(record.files.keys() | record.initial.keys()) - len(changed),
        "others": [(path, kind) for path, kind in sorted(record.kinds.items()) if kind != "folder"][:_LISTED],
        "left_out": record.left_out,
        "lost": printable(record.lost, 500),
        "no_start": not record.initial,
    }


def _order(path: str) -> tuple[bool, str]:
    """What programs keep for themselves comes after what people read."""
    return any(part.startswith(".") or part == "__pycache__" for part in path.split("/")), path


def _state(trace: Trace, path: str) -> str:
    """What happened to a file: new, removed, changed or same. One whose bytes were not stored may have changed."""
    assert trace.evidence is not None
    old, new = trace.evidence.initial.get(path), trace.evidence.files.get(path)
    if old is None:
        return "new"
    if new is None:
        return "removed"
    return "same" if old == new and new.blob is not None else "changed"


def _entry(run: Run, trace: Trace, path: str, *, shown: bool) -> dict[str, Any]:
    assert trace.evidence is not None
    old, new = trace.evidence.initial.get(path), trace.evidence.files.get(path)
    entry: dict[str, Any] = {
        "path": path,
        "state": _state(trace, path),
        "size": new.size if new else None,
        "size_before": old.size if old else None,
        "id": new.blob if new else None,
        "kind": "",
        "lines": [],
        "more": 0,
        "why": "",
    }
    return entry | _difference(run, old, new, _LINES_AT_FIRST) if shown else entry


def _difference(run: Run, old: FileRecord | None, new: FileRecord | None, most: int | None = None) -> dict[str, Any]:
    """The kind of a file, and its difference as lines; `why` says what cannot be shown."""
    before, after = (_bytes(run, record) for record in (old, new))
    kind = artifact_of(after).kind if after is not None else ""
    if old is not None and before is None:
        return {"kind": kind, "why": "found"}
    if new is not None and after is None:
        return {"kind": kind, "why": "not_stored"}
    sides = [side for side in (before, after) if side is not None]
    if any(artifact_of(side).kind not in {"text", "svg"} for side in sides):
        return {"kind": kind, "why": "" if kind in {"image", "pdf"} else "binary"}
    if any(len(side) > _LARGEST or side.count(b"\n") > _LINES for side in sides):
        return {"kind": kind, "why": "large"}
    lines = list(diff_lines((before or b"").decode(), (after or b"").decode()))
    return {"kind": kind, "lines": lines[:most], "more": len(lines) - len(lines[:most])}


def _bytes(run: Run, record: FileRecord | None) -> bytes | None:
    """The bytes of a file, if they are stored. Of files before the rollout only those that some rollout left as they were are."""
    if record is None or record.blob is None:
        return None
    try:
        return read_blob(run, record.blob)
    except ConfigError:
        return None


def diff_lines(before: str, after: str, context: int = 3) -> Iterator[tuple[str, str]]:
    """The difference of two texts: each line with `add`, `del`, `at` or nothing."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=context)
    for number, line in enumerate(lines):
        if number >= 2:  # the first two name the files
            yield kinds.get(line[:1], ""), printable(line, 2000)


def _lines(text: str) -> list[str]:
    """Lines as the limits count them: `splitlines` would also part them at other characters."""
    return text.removesuffix("\n").split("\n") if text else []


def file_page(asked: Asked) -> dict[str, Any]:
    """One file of a rollout: its difference, and the file itself."""
    run, trace = open_trace(asked)
    path = asked.query.get("path", "")
    record = trace.evidence
    if record is None or (path not in record.files and path not in record.initial):
        raise ConfigError(f"rollout {trace.task}/{trace.rollout} has no file `{path[:200]}`")
    new = record.files.get(path)
    data = _bytes(run, new)
    return {
        "title": f"{path} / {trace.task} / {trace.rollout}",
        "name": asked.run.name,
        "task": trace.task,
        "rollout": trace.rollout,
        "file": _entry(run, trace, path, shown=False) | _difference(run, record.initial.get(path), new),
        "content": _content(path, data) if data is not None else None,
        "shell": shlex.join(("sandlot", "shell", place_of(run, trace), "--turn", "0")),
    }


def _content(path: str, data: bytes) -> dict[str, Any]:
    """A file as what it is: an image, a PDF, a table, a terminal recording, or text."""
    kind = artifact_of(data).kind
    shown: dict[str, Any] = {"kind": kind, "text": "", "rows": [], "more": 0}
    if kind not in {"text", "svg"}:
        return shown
    text = data[:_LARGEST].decode(errors="replace")
    shown |= {"text": printable(text), "more": max(0, len(data) - _LARGEST)}
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in {".csv", ".tsv"}:
        rows = _table(text, "\t" if suffix == ".tsv" else ",")
        return shown | {"kind": "table", "rows": rows} if rows else shown
    if suffix == ".cast" and text.startswith('{"version"'):
        return shown | {"kind": "recording"}
    return shown


def _table(text: str, separator: str) -> list[list[str]]:
    """The first rows and columns of a table; empty if it is none."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return [[printable(cell, _CELL) for cell in row[:_COLUMNS]] for row, _ in zip(reader, range(_ROWS), strict=False)]
    except csv.Error:
        return []
