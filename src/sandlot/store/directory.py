"""A run directory, opened for writing: everything a run keeps, and the promise that nothing is lost and nothing doubled.

`async with open_run(path, manifest=...) as run:` makes or re-opens `runs/<id>/`, under a lock of one writer.
`await run.add(trace, row)` returns when the rollout is on disk; after `kill -9` at any byte, opening again finds every rollout
that was ever acknowledged, once, in `run.done_keys()`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import msgspec

from sandlot.core.disk import DISK, DRAFT, Disk, make_folder, write_file
from sandlot.core.errors import ConfigError, StoreError, boundary
from sandlot.core.trace import Trace, TraceRow
from sandlot.store.aside import set_aside
from sandlot.store.blobs import DiskBlobs, open_blobs
from sandlot.store.layout import blob_folder, drafts_of, folders, lock_file, manifest_file
from sandlot.store.lock import write_lock
from sandlot.store.traces import Key, Sealing, TraceLog, open_traces

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run open for writing: its traces, and the blobs they refer to."""

    path: Path
    manifest: bytes
    """As it was first written: going on with a run does not change what was run."""
    blobs: DiskBlobs
    traces: TraceLog

    async def add(self, trace: Trace, row: TraceRow) -> None:
        """Returns when it is on disk: only then does the rollout count. A second trace of the same rollout is an error."""
        await self.traces.add(trace, row)

    def __contains__(self, key: Key) -> bool:
        return key in self.traces

    def done_keys(self) -> set[Key]:
        """The (task, rollout) of every rollout that is kept."""
        return self.traces.done_keys()


@asynccontextmanager
async def open_run(
    path: Path,
    *,
    manifest: bytes | None = None,
    retake: Callable[[TraceRow], bool] | None = None,
    sealing: Sealing | None = None,
    disk: Disk = DISK,
) -> AsyncGenerator[RunDirectory]:
    """Make the run directory, or go on with it. `manifest` is needed to make one; an existing one keeps its own.

    Rollouts for which `retake` is true are set aside first: they count as not taken.
    """
    with boundary(StoreError, f"run `{path}` cannot be written"):
        await anyio.to_thread.run_sync(_make_place, path, manifest, disk)
    with write_lock(path):
        with boundary(StoreError, f"run `{path}` cannot be written"):
            kept = await anyio.to_thread.run_sync(_settle, path, manifest, disk)
            if retake is not None:
                await anyio.to_thread.run_sync(set_aside, path, retake, disk)
        async with open_blobs(blob_folder(path), disk) as blobs, open_traces(path, sealing or Sealing(), disk) as traces:
            yield RunDirectory(path=path, manifest=kept, blobs=blobs, traces=traces)


def read_manifest(path: Path) -> bytes:
    """The manifest of a run; `ConfigError` if there is no run there."""
    try:
        manifest = manifest_file(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"`{path}` is not a run: it has no manifest.json") from None
    _check_format(manifest, f"`{manifest_file(path)}`")
    return manifest


def _make_place(path: Path, manifest: bytes | None, disk: Disk) -> None:
    """The folder to lock, if this may become or already is a run."""
    if not manifest_file(path).exists():
        if manifest is None:
            raise ConfigError(f"`{path}` is not a run: it has no manifest.json")
        _check_format(manifest, "the manifest given")
        foreign = [item.name for item in path.iterdir() if not _ours(item)] if path.is_dir() else []
        if foreign:
            raise ConfigError(f"`{path}` is not a run and not empty (it has `{foreign[0]}`); name a new directory")
    try:
        make_folder(path, disk)
    except (NotADirectoryError, FileExistsError) as error:
        raise ConfigError(f"there can be no run at `{path}`: {error.strerror or error}; name another place") from error


def _ours(item: Path) -> bool:
    """What a run that died at birth leaves behind."""
    return item.name.endswith(DRAFT) or item == lock_file(item.parent)


def _settle(path: Path, manifest: bytes | None, disk: Disk) -> bytes:
    """Under the lock: drafts gone, the manifest there, and only then the folders: what has them is a run."""
    for draft in drafts_of(path):
        disk.remove(draft)
    if manifest is not None and not manifest_file(path).exists():
        write_file(manifest_file(path), manifest, disk)
    kept = read_manifest(path)
    for folder in folders(path):
        make_folder(folder, disk)
    return kept


def _check_format(manifest: bytes, name: str) -> None:
    try:
        version = msgspec.json.decode(manifest, type=_Head).format
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is not a JSON object with a `format`: {error}") from error
    if version != _FORMAT:
        raise ConfigError(f"{name} has `format` {version}; this Sandlot reads and writes `format` {_FORMAT}")


class _Head(msgspec.Struct):
    """What the store itself reads of a manifest."""

    format: int
