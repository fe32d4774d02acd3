"""Removing old runs, unreferenced blobs, and files and folders that a crash left half-written.

`collect` holds the run's lock, so that no writer uses what it removes; with `dry_run` it only lists. Runs that are being written
are skipped and listed. A run is renamed before its files are removed, so it never looks complete with files missing.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.core.disk import DISK, DRAFT, Disk, folder_drafts
from sandlot.core.errors import ConfigError
from sandlot.core.trace import OUTPUT_CUT, RECORDING, ImagePart, Tensor, ToolResult, Trace
from sandlot.store.aside import traces_set_aside
from sandlot.store.blobs import key_of
from sandlot.store.layout import blob_folder, drafts_of, layout_of, manifest_file, packs_of
from sandlot.store.lock import write_lock
from sandlot.store.packs import dead_blobs, repack
from sandlot.store.reader import RunReader


@dataclass(frozen=True, slots=True)
class Removable:
    """Something that can be removed, and why."""

    path: Path
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect` found or removed."""

    removable: tuple[Removable, ...]
    busy: tuple[Path, ...]
    """Runs that are being written, which were skipped."""

    @property
    def size_bytes(self) -> int:
        """Bytes that removal frees."""
        return sum(item.size_bytes for item in self.removable)


def collect(
    runs: Path,
    *,
    folders: Sequence[Path] = (),
    older_than_s: float | None = None,
    dry_run: bool,
    clock: Clock = SYSTEM_CLOCK,
    disk: Disk = DISK,
) -> Collected:
    """Find what can be removed in a folder of runs, and remove it unless `dry_run`.

    In `folders` too, what an import, an export or a conversion left half-written when it was killed.
    """
    removable: list[Removable] = []
    busy: list[Path] = []
    for draft in sorted({draft.resolve() for folder in (runs, *folders) for draft in folder_drafts(folder)}):
        removable.append(Removable(draft, _size_of(draft), "a half-written folder"))
        if not dry_run:
            shutil.rmtree(draft)
    for left in sorted(runs.glob(f"*{DRAFT}")):
        if left.is_dir() and manifest_file(left).exists():
            removable.append(Removable(left, _size_of(left), "a run whose removal was interrupted"))
            if not dry_run:
                shutil.rmtree(left)
    for run in sorted(path.parent for path in runs.glob("*/manifest.json") if not path.parent.name.endswith(DRAFT)):
        try:
            with write_lock(run):
                if older_than_s is not None and clock.wall() - last_change(run) > older_than_s:
                    removable += _remove_run(run, dry_run=dry_run, disk=disk)
                else:
                    removable += _collect_run(run, dry_run=dry_run, disk=disk)
        except ConfigError as error:
            if error.kind != "locked":
                raise
            busy.append(run)
    return Collected(removable=tuple(removable), busy=tuple(busy))


def _collect_run(run: Path, *, dry_run: bool, disk: Disk = DISK) -> list[Removable]:
    """The same inside one run; the caller holds its lock."""
    found = [Removable(draft, draft.stat().st_size, "half-written") for draft in drafts_of(run)]
    found += [Removable(log, log.stat().st_size, "already sealed") for log in layout_of(run).shadowed.values()]
    traces = chain(RunReader(run).traces(), traces_set_aside(run))
    live = {digest for trace in traces for digest in references(trace)}
    large = [path for path in (blob_folder(run) / "large").glob("??/*") if not path.name.endswith(DRAFT)]
    found += [Removable(path, path.stat().st_size, "an unreferenced blob") for path in large if path.name not in live]
    if not dry_run:
        for item in found:
            disk.remove(item.path)
    return found + list(_collect_packs(run, {key_of(digest) for digest in live}, dry_run=dry_run, disk=disk))


def _collect_packs(run: Path, live: set[bytes], *, dry_run: bool, disk: Disk) -> Iterator[Removable]:
    for pack in packs_of(blob_folder(run)).values():
        dead = dead_blobs(pack, live)
        if dead:
            if not dry_run:
                repack(pack, live, disk)
            yield Removable(pack, sum(dead.values()), f"{len(dead)} unreferenced blobs")


def _remove_run(run: Path, *, dry_run: bool, disk: Disk) -> list[Removable]:
    found = Removable(run, _size_of(run), "an old run")
    if not dry_run:
        doomed = run.with_name(run.name + DRAFT)
        disk.rename(run, doomed)
        shutil.rmtree(doomed)
    return [found]


def last_change(run: Path) -> float:
    """When a run was last written to, seconds since the epoch."""
    return max(path.stat().st_mtime for path in (manifest_file(run), run / "log", run / "segments") if path.exists())


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def references(trace: Trace) -> Iterator[str]:
    """The digests of all blobs that a trace refers to."""
    for node in trace.nodes:
        for part in node.message.parts:
            if isinstance(part, (ImagePart, Tensor)):
                yield part.artifact
            elif isinstance(part, ToolResult):
                yield from (image.artifact for image in part.images)
                if part.whole:
                    yield part.whole
    yield from (str(event.detail["artifact"]) for event in trace.events if event.kind == RECORDING)
    yield from (str(event.detail["whole"]) for event in trace.events if event.kind == OUTPUT_CUT)  # of a call without a message
    if trace.evidence:
        for files in (trace.evidence.files, trace.evidence.initial):
            yield from (record.blob for record in files.values() if record.blob)
        if trace.evidence.apps:
            yield from (*trace.evidence.apps.bases.values(), trace.evidence.apps.journal)
