"""What differs between a sandbox and its image, as snapshots report it."""

import anyio.to_thread
import msgspec

from sandlot.core.ports.sandbox import Survey
from sandlot.sandbox.link.machine import Entries
from sandlot.sandbox.link.wire import ListingEntry

_KINDS = {"f": "file", "d": "folder", "l": "link", "o": "other", "t": "too deep", "-": "nothing"}
_SORTED_ON_LOOP = 2000
"""Entries of a listing that are sorted on the event loop; more are sorted in a thread."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How one path differs from the image."""

    before: str
    """What the image has there: file, folder, link, other, nothing."""
    after: str
    """What is there now; `too deep` for a folder that was not looked into."""
    size_before: int
    size: int
    mode: int
    mtime_ns: int


def changes_of(entries: list[ListingEntry]) -> dict[str, Change]:
    """A CHANGED listing by path, sorted. A path in several layers is listed by each of them with the same, merged entry."""
    found = {entry.path: entry for entry in entries if entry.kind in _KINDS}
    return {path: _change_of(entry) for path, entry in sorted(found.items())}


def _change_of(entry: ListingEntry) -> Change:
    return Change(
        before=_KINDS.get(entry.image_kind, "other"),
        after=_KINDS.get(entry.kind, "other"),
        size_before=entry.image_size,
        size=entry.size,
        mode=entry.mode & 0o7777,
        mtime_ns=entry.mtime_ns,
    )


async def survey_of(entries: Entries) -> Survey:
    """A CHANGED listing by kind, sorted. Long ones are sorted in a thread, so that other rollouts go on."""
    if len(entries.found) <= _SORTED_ON_LOOP:
        return _survey(entries)
    return await anyio.to_thread.run_sync(_survey, entries)


def _survey(entries: Entries) -> Survey:
    found = {entry.path: entry for entry in sorted(entries.found, key=lambda entry: entry.path)}
    return Survey(
        sizes={path: entry.size for path, entry in found.items() if entry.kind == "f"},
        kinds={path: _KINDS["d" if entry.kind == "t" else entry.kind] for path, entry in found.items() if entry.kind in "dlot"},
        left_out=entries.left_out + sum(entry.kind == "t" for entry in found.values()),
    )
