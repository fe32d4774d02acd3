"""The files of a run directory.

    manifest.json            what was run
    events.jsonl             what happened while it ran (observe/event_log.py)
    streams/*.json           how far that was streamed elsewhere (observe/event_stream.py)
    lock                     held by the writer, with its pid
    log/NNNNNN.log           traces as they finish (frames.py)
    segments/NNNNNN.parquet  a sealed log of the same number (segments.py)
    set_aside/*.parquet      rollouts that were taken again (aside.py)
    blobs/packs, blobs/large bytes by their hash (blobs.py)

A number is either a log or a segment. If a crash left both, the segment is complete and counts: it is renamed into place before
its log is removed. Files with other names are left alone.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.disk import DRAFT

_LOG = re.compile(r"(\d{6,})\.log\Z")
_SEGMENT = re.compile(r"(\d{6,})\.parquet\Z")
_PACK = re.compile(r"(\d{6,})\.pack\Z")


def manifest_file(run: Path) -> Path:
    """What was run."""
    return run / "manifest.json"


def lock_file(run: Path) -> Path:
    """The lock of the writer."""
    return run / "lock"


def log_file(run: Path, number: int) -> Path:
    """An open log."""
    return run / "log" / f"{number:06d}.log"


def segment_file(run: Path, number: int) -> Path:
    """A sealed log."""
    return run / "segments" / f"{number:06d}.parquet"


def aside_folder(run: Path) -> Path:
    """Rollouts that were taken again; the folder may not exist."""
    return run / "set_aside"


def blob_folder(run: Path) -> Path:
    """Bytes by their hash."""
    return run / "blobs"


def pack_file(blobs: Path, number: int) -> Path:
    """Many small blobs."""
    return blobs / "packs" / f"{number:06d}.pack"


def pack_index_file(pack: Path) -> Path:
    """The index of a full pack; it can be rebuilt from the pack."""
    return pack.with_suffix(".index")


def large_file(blobs: Path, digest: str) -> Path:
    """One large blob."""
    return blobs / "large" / digest[:2] / digest


def folders(run: Path) -> list[Path]:
    """The folders of a new run directory."""
    blobs = blob_folder(run)
    return [run / "log", run / "segments", blobs / "packs", blobs / "large"]


def _numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    found = ((pattern.match(path.name), path) for path in folder.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in found if match))


def packs_of(blobs: Path) -> dict[int, Path]:
    """The pack files by number, in order."""
    return _numbered(blobs / "packs", _PACK)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a run by number, in order."""

    logs: dict[int, Path]
    """Not sealed yet."""
    segments: dict[int, Path]
    shadowed: dict[int, Path]
    """Logs that a crash left although their segment is complete."""

    @property
    def next_number(self) -> int:
        """The first unused number."""
        return max((*self.logs, *self.segments, *self.shadowed), default=0) + 1


def layout_of(run: Path) -> Layout:
    """The files now. Logs are listed first, so that one sealed meanwhile shows as both, not as neither."""
    logs = _numbered(run / "log", _LOG)
    segments = _numbered(run / "segments", _SEGMENT)
    return Layout(
        logs={number: path for number, path in logs.items() if number not in segments},
        segments=segments,
        shadowed={number: path for number, path in logs.items() if number in segments},
    )


def drafts_of(run: Path) -> list[Path]:
    """Half-written files that a crash left behind."""
    places = [run, *folders(run), aside_folder(run), *(blob_folder(run) / "large").glob("??")]
    return [path for folder in places for path in folder.glob(f"*{DRAFT}")]
