"""A run directory, open for writing: no rollout is lost, none is stored twice.

`async with open_run(path, manifest=...) as run:` creates or opens `runs/<id>/`, with a lock for one writer.
`await run.add(trace, row)` returns when the rollout is on disk. After `kill -9` at any point, `run.done_keys()` has every rollout
whose `add` had returned, once.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import msgspec

from sandlot.core.disk import DISK, DRAFT, Disk, make_folder, write_file
from sandlot.core.errors import ConfigError, StoreError, boundary
from sandlot.core.trace import Trace
from sandlot.core.trace_row import TraceRow
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
    """The manifest as first written; continuing a run does not change it."""
    blobs: DiskBlobs
    traces: TraceLog

    async def add(self, trace: Trace, row: TraceRow) -> None:
        """Returns when the trace is on disk. `StoreError` for a second trace of the same rollout."""
        await self.traces.add(trace, row)

    def __contains__(self, key: Key) -> bool:
        return key in self.traces

    def __len__(self) -> int:
        return len(self.traces)

    async def retake(self, wanted: Callable[[TraceRow], bool]) -> int:
        """Set aside every rollout that is `wanted`, to be taken again, and return their number. Nothing is added meanwhile."""
        return await self.traces.retake(wanted)

    def done_keys(self) -> set[Key]:
        """The (task, rollout) of every stored rollout."""
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
    """Create the run directory, or continue it. A new one needs a `manifest`; an existing one keeps its own.

    Rollouts for which `retake` is true are set aside first, to be taken again.
    """
    with boundary(StoreError, f"run `{path}` cannot be written"):
        await anyio.to_thread.run_sync(_create_folder, path, manifest, disk)
    with write_lock(path):
        with boundary(StoreError, f"run `{path}` cannot be written"):
            kept = await anyio.to_thread.run_sync(_prepare, path, manifest, disk)
            if retake is not None:
                await anyio.to_thread.run_sync(set_aside, path, retake, disk)
        async with open_blobs(blob_folder(path), disk) as blobs, open_traces(path, sealing or Sealing(), disk) as traces:
            yield RunDirectory(path=path, manifest=kept, blobs=blobs, traces=traces)


def read_manifest(path: Path) -> bytes:
    """The manifest of a run; `ConfigError` if there is no run there."""
    try:
        manifest = manifest_file(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"`{path}` is not a run: it has no manifest.json; name the folder of a run") from None
    _check_format(manifest, f"`{manifest_file(path)}`")
    return manifest


def _create_folder(path: Path, manifest: bytes | None, disk: Disk) -> None:
    """Create the folder; `ConfigError` if it is not a run and cannot become one."""
    if not manifest_file(path).exists():
        if manifest is None:
            raise ConfigError(f"`{path}` is not a run: it has no manifest.json")
        _check_format(manifest, "the manifest given")
        foreign = [item.name for item in path.iterdir() if not _ours(item)] if path.is_dir() else []
        if foreign:
            raise ConfigError(f"`{path}` is neither a run nor empty (it has `{foreign[0]}`); name a new folder")
    try:
        make_folder(path, disk)
    except (NotADirectoryError, FileExistsError) as error:
        raise ConfigError(f"cannot create a run at `{path}`: {error.strerror or error}; name another folder") from error


def _ours(item: Path) -> bool:
    """True for files that a crash while creating a run may leave."""
    return item.name.endswith(DRAFT) or item == lock_file(item.parent)


def _prepare(path: Path, manifest: bytes | None, disk: Disk) -> bytes:
    """Under the lock: remove drafts, write the manifest, then create the folders, which mark a complete run."""
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
        raise ConfigError(f"{name} has `format` {version}; this version of Sandlot uses `format` {_FORMAT}")


class _Head(msgspec.Struct):
    """The field of a manifest that the store reads."""

    format: int
