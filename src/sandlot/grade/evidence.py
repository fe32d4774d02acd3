"""Evidence: what the agent left, gathered once, stored by hash, and read by checks.

`gather` runs while the world is still open and the agent is dead; `StoredEvidence` reads only what it kept. A check that asks for
something that is not there gets `NotInEvidence`, which means *not met*; bytes that were kept and cannot be found again are the
store's fault and a `GradeError`.

The size cap keeps small files first, so that one huge file never pushes out the small one a check is about.
"""

import posixpath
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import anyio
import msgspec

from sandlot.errors import GradeError, NotInEvidence, SandboxError, boundary
from sandlot.grade.state import plain, readable
from sandlot.limits import Limits
from sandlot.ports import Blobs, World
from sandlot.sandboxes import Snapshot
from sandlot.trace import EvidenceRecord, FileRecord, Trace
from sandlot.types import digest

PER_FILE_SHARE = 4
"""One file may take this fraction of the cap on all of them: a quarter."""
BATCH_FILES = 32
BATCH_BYTES = 2**20
"""Files read and kept beside each other: so many at most, and so many bytes of them."""


class StoredEvidence:
    """The `Evidence` of one rollout, over its record and the bytes kept by hash."""

    def __init__(
        self,
        record: EvidenceRecord,
        trace: Trace,
        load: Callable[[str], bytes] | Mapping[str, bytes],
        state_type: type[Any] | None = None,
        open_sandbox: Callable[[Mapping[str, bytes]], AbstractAsyncContextManager[World]] | None = None,
    ) -> None:
        """`load` gives kept bytes by digest: a mapping, or a blocking function. `state_type` is what `world.state` was.

        `open_sandbox` makes a grading sandbox with these files in it; None where there is no backend for one.
        """
        self.record = record
        self.trace = trace
        self.answer = record.answer
        self.state = _rebuilt(record.state, state_type)
        self._load = load if callable(load) else load.__getitem__
        self._contents: dict[str, bytes] = {}
        self._open_sandbox = open_sandbox

    def read(self, path: str) -> bytes:
        """A file the agent left."""
        whole = absolute(path)
        file = self.record.files.get(whole)
        if file is None:
            raise NotInEvidence(f"there is no file `{whole}`" + _nearby(whole, self.record.files))
        if file.blob is None:
            raise NotInEvidence(f"`{whole}` has {file.size:,} bytes and was not kept: it is over the size cap of the evidence")
        if file.blob not in self._contents:
            try:
                self._contents[file.blob] = self._load(file.blob)
            except (KeyError, OSError) as error:
                raise GradeError(f"the bytes of `{whole}` ({file.blob[:12]}) are gone from the run directory") from error
        return self._contents[file.blob]

    def read_text(self, path: str) -> str:
        """The same as UTF-8 text."""
        data = self.read(path)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise NotInEvidence(
                f"`{absolute(path)}` is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
            ) from error

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths below a folder, sorted."""
        start = absolute(folder).rstrip("/") + "/"
        return sorted(path for path in self.record.files if path.startswith(start))

    def exists(self, path: str) -> bool:
        """True if the file is there, kept or not."""
        return absolute(path) in self.record.files

    def grading_sandbox(self, *paths: str) -> AbstractAsyncContextManager[World]:
        """A fresh sandbox of the pristine image with these of the agent's files in it (none named: all that were kept)."""
        if self._open_sandbox is None:
            raise GradeError(
                "a check asks for a grading sandbox, and the environment has no `image` to make one from", kind="config"
            )
        wanted = paths or tuple(path for path, file in self.record.files.items() if file.blob is not None)
        return self._open_sandbox({path: self.read(path) for path in wanted})

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """What changed since setup: path -> (before, after). A file too large to keep counts as changed: nobody can tell.

        If setup's files were not recorded, every file shows as new.
        """
        before, after = self.record.initial, self.record.files
        changed: dict[str, tuple[FileRecord | None, FileRecord | None]] = {}
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old != new or (new is not None and new.blob is None):
                changed[path] = (old, new)
        return changed


def absolute(path: str) -> str:
    """A path as the record names it: from the root, without `.`, `..` and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _nearby(path: str, files: Mapping[str, FileRecord]) -> str:
    """What else lies in the same folder, for whoever reads why a check was not met."""
    folder = posixpath.dirname(path).rstrip("/") + "/"
    others = sorted(name for name in files if name.startswith(folder))[:3]
    return f"; below `{folder}` there is: {', '.join(others)}" if others else ""


def _rebuilt(state: Any, state_type: type[Any] | None) -> Any:
    """The final state as the author's type; a copy in any case, so that no check can change what is stored."""
    if state_type is None or state_type is dict:
        return msgspec.to_builtins(state)
    try:
        return msgspec.convert(state, state_type)
    except (msgspec.ValidationError, TypeError, NameError) as error:
        name = state_type.__qualname__
        raise GradeError(
            f"the stored state is not a `{name}`: {error}; its annotations must fit what it holds, now as during the run"
        ) from error


async def gather(
    final: Snapshot | None,
    blobs: Blobs,
    limits: Limits,
    *,
    initial: Snapshot | Mapping[str, FileRecord] | None = None,
    state: Any = None,
    answer: str = "",
    penalties: Mapping[str, float] | None = None,
) -> EvidenceRecord:
    """What the agent left, as a record, with the bytes of its files in `blobs`.

    `final` is None for a world that has no files. `initial` is what was there after setup, as a snapshot or already as records;
    without it the diff shows every file as new. State that is not plain data is the author's error, named by its path.
    """
    kept = plain(state)  # first: it is cheap, and wrong state would make all the reading vain
    files = await _keep(final, blobs, limits.evidence_bytes) if final is not None else {}
    if initial is None or isinstance(initial, Mapping):
        before = {readable(path): file for path, file in (initial or {}).items()}
    else:
        before = await _initial(initial, files, limits.evidence_bytes)
    return EvidenceRecord(
        answer=readable(answer), state=kept, files=files, initial=before, penalties=dict(sorted((penalties or {}).items()))
    )


async def _keep(snapshot: Snapshot, blobs: Blobs, cap_bytes: int) -> dict[str, FileRecord]:
    """Every file's record; bytes are kept while they fit, smallest files first."""
    left = cap_bytes
    files: dict[str, FileRecord] = {}

    async def keep(path: str, size: int) -> None:
        nonlocal left
        data = await _read(snapshot, path)
        if len(data) > size and len(data) - size > min(left, cap_bytes // PER_FILE_SHARE - size):
            left += size
            files[readable(path)] = FileRecord(size=len(data), blob=None)  # the listing was wrong; what was read is the truth
            return
        left += size - len(data)
        files[readable(path)] = FileRecord(size=len(data), blob=await blobs.put(data))

    fitting: list[tuple[str, int]] = []
    for path, size in sorted((await _listing(snapshot)).items(), key=lambda item: (item[1], item[0])):
        if size <= min(left, cap_bytes // PER_FILE_SHARE):
            left -= size
            fitting.append((path, size))
        else:
            files[readable(path)] = FileRecord(size=size, blob=None)
    await in_batches(fitting, keep)
    return dict(sorted(files.items()))


async def in_batches(sized: Sequence[tuple[str, int]], act: Callable[[str, int], Coroutine[Any, Any, None]]) -> None:
    """Small files beside each other, so that they share one sync; large ones alone, so that memory stays small."""
    for batch in _batches(sized):
        if len(batch) == 1:
            await act(*batch[0])
            continue
        try:
            async with anyio.create_task_group() as group:
                for path, size in batch:
                    group.start_soon(act, path, size)
        except ExceptionGroup as errors:  # a sandbox that is gone fails every one of them, and is one failure
            first: BaseException = errors
            while isinstance(first, ExceptionGroup):
                first = cast("tuple[Exception, ...]", first.exceptions)[0]
            raise first from errors


def _batches(sized: Sequence[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    batch: list[tuple[str, int]] = []
    total = 0
    for path, size in sized:
        if batch and (len(batch) == BATCH_FILES or total + size > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append((path, size))
        total += size
    if batch:
        yield batch


async def _initial(snapshot: Snapshot, after: Mapping[str, FileRecord], cap_bytes: int) -> dict[str, FileRecord]:
    """The files setup left. Only those that may be unchanged are read, for their hash; nothing is kept of them."""
    files: dict[str, FileRecord] = {}
    for path, size in sorted((await _listing(snapshot)).items()):
        now = after.get(readable(path))
        same_size = now is not None and now.blob is not None and now.size == size and size <= cap_bytes // PER_FILE_SHARE
        files[readable(path)] = FileRecord(size=size, blob=digest(await _read(snapshot, path)) if same_size else None)
    return files


async def _listing(snapshot: Snapshot) -> Mapping[str, int]:
    with boundary(SandboxError, "listing the files that were left"):
        return await snapshot.list()


async def _read(snapshot: Snapshot, path: str) -> bytes:
    with boundary(SandboxError, f"reading `{path}` from a snapshot that lists it"):
        return await snapshot.read(path)
