"""Gathering evidence: the files and state at the end of a rollout, with the bytes stored by hash.

`gather` runs while the world is still open and the agent's processes are dead. A rollout with too many files can still be graded:
the limit on bytes keeps small files first, so that a huge file does not displace a small one; the limit on paths keeps those
nearest to the root, folders with very many files last; and an event says what is missing. What cannot be listed or read in time
is missing too: the agent may have made it slow.
"""

import errno
import posixpath
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread

from sandlot.core.concurrency.clock import deadline, pause_limits, time_limit
from sandlot.core.errors import SandboxError, SandboxOutOfMemory, boundary
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Files, Snapshot, Survey
from sandlot.core.ports.store import Blobs
from sandlot.core.text import encodable
from sandlot.core.trace import Event, EvidenceRecord, FileRecord
from sandlot.core.types import digest
from sandlot.grade.evidence import parent_folders
from sandlot.grade.state import plain_data

PER_FILE_SHARE = 4
"""One file may take a quarter of the limit on all of them."""
_SMALL_BYTES = 64 * 1024
"""Of the files from setup, what is kept in memory of a rollout to show what changed in them."""
_BATCH_FILES = 32
_BATCH_BYTES = 2**20
"""Maximum files, and bytes, that are read and stored at the same time."""
_PER_FILE_S = 0.002
"""Added to the time for reading, per file. One takes about 0.2 ms."""
_ENDING_S = 150.0
"""For ending what the agent left running. A backend may wait a minute for what does not end, and then reads the files without."""
_LISTING_S = 120.0
"""For listing the files. The 200,000 paths that a sandbox may have took 10 s on two processors with eight tasks."""
_CHOSEN_ON_LOOP = 2000
"""Paths that are sorted on the event loop; more are sorted in a thread."""


class FinalFiles(NamedTuple):
    """The files at the end of a rollout."""

    snapshot: Snapshot | None
    """None if they are lost."""
    lost: str = ""
    """Why."""


async def freeze_final(files: Files) -> FinalFiles:
    """End the agent's processes and freeze the files. They are lost if it filled the memory or its processes do not end."""
    try:
        with deadline(_ENDING_S, SandboxError, "ending the agent's processes"):
            return FinalFiles(await files.freeze())
    except SandboxOutOfMemory as error:
        return FinalFiles(None, str(error))
    except SandboxError as error:
        if error.kind != "timeout":
            raise
        return FinalFiles(None, str(error))


class SmallFiles:
    """The content of small files, up to a limit for all of them together: they stay in memory for a whole rollout."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self._left = _SMALL_BYTES

    def has_room(self, size: int) -> bool:
        """True if a file of this size can be added."""
        return size <= self._left

    def add(self, path: str, data: bytes) -> None:
        """Keep the content of a file; one that has no room is dropped, also an earlier content of the same path."""
        self._left += len(self.contents.pop(path, b""))
        if self.has_room(len(data)):
            self.contents[path] = data
            self._left -= len(data)


async def gather(
    final: Snapshot | None,
    blobs: Blobs,
    limits: Limits,
    *,
    initial: Snapshot | Mapping[str, FileRecord] | None = None,
    state: Any = None,
    answer: str = "",
    penalties: Mapping[str, float] | None = None,
    lost: str = "",
) -> EvidenceRecord:
    """Store the bytes of the files in `blobs` and return the evidence record.

    `final` is None for a world without files, or one that has `lost` them. `initial` are the files after setup, as a snapshot or
    as records; without it the diff shows every file as new. `AuthorError` if the state is not plain data.
    """
    kept = plain_data(state)  # first: it is cheap, and wrong state is an error
    known: Mapping[str, object] = {}
    if initial is not None:
        known = initial if isinstance(initial, Mapping) else await _listing(initial)
    survey = Survey(sizes={})
    if final is not None:
        try:
            survey = await _chosen(await _surveyed(final), frozenset(known), limits.evidence_files)
        except SandboxError as error:
            if error.kind != "timeout":
                raise
            final, lost = None, str(error)  # the agent may have made it slow: it is graded without
    files = await _keep(final, survey.sizes, blobs, limits) if final is not None else {}
    if initial is None or isinstance(initial, Mapping):
        before = {encodable(path): file for path, file in (initial or {}).items()}
    else:
        small = SmallFiles()
        before = await _initial(initial, files, limits.evidence_bytes, small)
        await _keep_changed(small, before, files, blobs)
    return EvidenceRecord(
        answer=encodable(answer),
        state=kept,
        files=files,
        kinds={encodable(path): kind for path, kind in survey.kinds.items()},
        left_out=survey.left_out,
        lost=lost,
        initial=before,
        penalties=dict(sorted((penalties or {}).items())),
    )


async def keep_found(small: SmallFiles, record: EvidenceRecord, blobs: Blobs) -> None:
    """Store what small files held before the agent changed them, so that a reader can see the difference."""
    await _keep_changed(small, record.initial, record.files, blobs)


def cut_events(record: EvidenceRecord, turn: int) -> list[Event]:
    """The event that says what is missing from the evidence; empty if nothing is."""
    not_kept = sum(file.blob is None for file in record.files.values())
    detail = {"paths_left_out": record.left_out, "files_not_kept": not_kept, "lost": record.lost}
    return [Event(kind="evidence_cut", turn=turn, detail=detail)] if any(detail.values()) else []


async def _chosen(survey: Survey, known: frozenset[str], most: int) -> Survey:
    """The survey limited to the files from setup and `most` other paths."""
    if len(survey.sizes) + len(survey.kinds) <= _CHOSEN_ON_LOOP:
        return _first(survey, known, most)
    return await anyio.to_thread.run_sync(_first, survey, known, most)


def _first(survey: Survey, known: frozenset[str], most: int) -> Survey:
    """Files before folders, folders with many files last, and paths near the root first: tasks ask for results there."""
    above = {parent for path in known for parent in parent_folders(path)}
    new = [path for path in survey.sizes if path not in known]
    new += [path for path, kind in survey.kinds.items() if kind != "folder" or path not in above]
    if len(new) <= most:
        return survey
    beside = Counter(posixpath.dirname(path) for path in new)
    crowded = {folder for folder, count in beside.items() if count > most // 10}
    new.sort(
        key=lambda path: (survey.kinds.get(path) == "folder", posixpath.dirname(path) in crowded, path.count("/"), path),
    )
    dropped = frozenset(new[most:])
    return Survey(
        sizes={path: size for path, size in survey.sizes.items() if path not in dropped},
        kinds={path: kind for path, kind in survey.kinds.items() if path not in dropped},
        left_out=survey.left_out + len(dropped),
    )


async def _keep(snapshot: Snapshot, sizes: Mapping[str, int], blobs: Blobs, limits: Limits) -> dict[str, FileRecord]:
    """The record of every file; bytes are stored while they fit and the time lasts, smallest files first."""
    left = cap_bytes = limits.evidence_bytes
    files: dict[str, FileRecord] = {}

    async def keep(path: str, size: int) -> None:
        nonlocal left
        data = await _read(snapshot, path)
        if data is None:
            left += size
            files[encodable(path)] = FileRecord(size=size, blob=None)
            return
        if len(data) > size and len(data) - size > min(left, cap_bytes // PER_FILE_SHARE - size):
            left += size
            files[encodable(path)] = FileRecord(size=len(data), blob=None)  # the listing was wrong
            return
        left += size - len(data)
        files[encodable(path)] = FileRecord(size=len(data), blob=await blobs.put(data))

    fitting: list[tuple[str, int]] = []
    for path, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if size <= min(left, cap_bytes // PER_FILE_SHARE):
            left -= size
            fitting.append((path, size))
        else:
            files[encodable(path)] = FileRecord(size=size, blob=None)
    with pause_limits(), time_limit(limits.teardown_s + len(fitting) * _PER_FILE_S):
        await run_in_batches(fitting, keep)
    for path, size in fitting:
        files.setdefault(encodable(path), FileRecord(size=size, blob=None))
    return dict(sorted(files.items()))


async def run_in_batches(sized: Sequence[tuple[str, int]], act: Callable[[str, int], Coroutine[Any, Any, None]]) -> None:
    """Run `act` for small files at the same time, so that they share one sync, and for large ones alone, to save memory."""
    for batch in _batches(sized):
        if len(batch) == 1:
            await act(*batch[0])
            continue
        try:
            async with anyio.create_task_group() as group:
                for path, size in batch:
                    group.start_soon(act, path, size)
        except ExceptionGroup as errors:  # a sandbox that is gone fails all of them; report it once
            first: BaseException = errors
            while isinstance(first, ExceptionGroup):
                first = cast("tuple[Exception, ...]", first.exceptions)[0]
            raise first from errors


def _batches(sized: Sequence[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    batch: list[tuple[str, int]] = []
    total = 0
    for path, size in sized:
        if batch and (len(batch) == _BATCH_FILES or total + size > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append((path, size))
        total += size
    if batch:
        yield batch


async def _initial(
    snapshot: Snapshot, after: Mapping[str, FileRecord], cap_bytes: int, small: SmallFiles
) -> dict[str, FileRecord]:
    """Records of the files from setup. Only those that may be unchanged, and small ones, are read."""
    files: dict[str, FileRecord] = {}
    for path, size in sorted((await _listing(snapshot)).items()):
        now = after.get(encodable(path))
        same_size = now is not None and now.blob is not None and now.size == size and size <= cap_bytes // PER_FILE_SHARE
        data = await _read(snapshot, path) if same_size or small.has_room(size) else None
        if data is not None:
            small.add(path, data)
        files[encodable(path)] = FileRecord(size=size, blob=None if data is None else digest(data))
    return files


async def _keep_changed(
    small: SmallFiles, before: Mapping[str, FileRecord], after: Mapping[str, FileRecord], blobs: Blobs
) -> None:
    held = {encodable(path): data for path, data in small.contents.items()}
    changed = [
        (path, len(data))
        for path, data in held.items()
        if path in before and before[path] != after.get(path) and before[path].blob == digest(data)
    ]

    async def keep(path: str, _size: int) -> None:
        await blobs.put(held[path])

    await run_in_batches(changed, keep)


async def _surveyed(snapshot: Snapshot) -> Survey:
    """List the files under a separate deadline: the agent may have left many, which is not the sandbox's failure."""
    with pause_limits(), deadline(_LISTING_S, SandboxError, "listing the files of the rollout"):
        return await snapshot.survey()


async def _listing(snapshot: Snapshot) -> Mapping[str, int]:
    with boundary(SandboxError, "listing the files of the rollout"):
        return await snapshot.list()


async def _read(snapshot: Snapshot, path: str) -> bytes | None:
    """Read a listed file; None if the agent made it unreadable. A missing file or a disk error is the sandbox's failure."""
    with boundary(SandboxError, f"reading `{path}` from a snapshot that lists it"):
        try:
            return await snapshot.read(path)
        except OSError as error:
            if error.errno in {None, errno.ENOENT, errno.EIO}:
                raise
            return None
