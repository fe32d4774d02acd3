"""The stored evidence of a rollout, as checks read it.

`gather` stores it. A check that asks for something that is not there gets `NotInEvidence` and is *not met*. Stored bytes that
cannot be found again are a `GradeError`.

If the agent left too much and the evidence is incomplete, it is not known whether a file exists: a check that asks is not met.

The evidence notes whether its answer was read. If it was not, another answer gets the same score, and an audit need not try.
"""

import copy
import mmap
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from sandlot.core.errors import GradeError, NotInEvidence
from sandlot.core.ports.grading import absolute_path
from sandlot.core.ports.world import World
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace

_OpenSandbox = Callable[[Mapping[str, bytes], frozenset[str]], AbstractAsyncContextManager[World]]

_SYSTEM = re.compile(r"/(bin|sbin|lib[^/]*|usr|etc|boot|dev|proc|sys)/")
"""Folders of programs, libraries and their configuration in an image."""
_LOADED = re.compile(
    r"(^|/)(site-packages|dist-packages)/|\.pth$|(^|/)((site|user)customize\.py|\.(bashrc|bash_\w+|profile|zshenv))$"
)
"""Files that interpreters and shells load automatically, in any folder."""


class _Mark:
    """Whether something was done, by this process or by one that was forked since."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)  # shared with forks: isolated checks run in one

    def set(self) -> None:
        self._byte[0] = 1

    def __bool__(self) -> bool:
        return self._byte[0] != 0

    def __reduce__(self) -> tuple[type["_Mark"], tuple[()]]:
        """Evidence that is pickled or copied deeply is read out of sight: that counts as done."""
        self.set()
        return _Mark, ()


class StoredEvidence:
    """The `Evidence` of one rollout, from its record and the stored bytes."""

    def __init__(
        self,
        record: EvidenceRecord,
        trace: Trace,
        load: Callable[[str], bytes] | Mapping[str, bytes],
        state_type: type[Any] | None = None,
        open_sandbox: _OpenSandbox | None = None,
        apps: Any = None,
    ) -> None:
        """`load` returns stored bytes by digest: a mapping, or a blocking function. `state_type` is the type of `world.state`.

        `open_sandbox` opens a grading sandbox with these files, some of which may replace the image's; None without a backend.
        `apps` are the apps at the end, as checks read them.
        """
        self._record = record
        self._trace = trace
        self._answer = record.answer
        self._answer_read = _Mark()
        self.penalties, self.crashed = record.penalties, record.crashed
        self.state = _rebuilt(record.state, state_type)
        self._load = load if callable(load) else load.__getitem__
        self._contents: dict[str, bytes] = {}
        self._open_sandbox = open_sandbox
        self.apps = apps

    @property
    def answer(self) -> str:
        """The agent's last message."""
        self._answer_read.set()
        return self._answer

    @property
    def trace(self) -> Trace:
        """The whole conversation. It has the answer, so reading it counts as reading the answer."""
        self._answer_read.set()
        return self._trace

    @property
    def record(self) -> EvidenceRecord:
        """The evidence as it is stored. It has the answer, so reading it counts as reading the answer."""
        self._answer_read.set()
        return self._record

    @property
    def answer_was_read(self) -> bool:
        """False if nobody has asked for the answer, or for the conversation or record that contain it."""
        return bool(self._answer_read)

    def with_answer(self, answer: str) -> "StoredEvidence":
        """The same evidence with another answer, for a check of one seat; reading it counts for both."""
        other = copy.copy(self)
        other._answer = answer  # noqa: SLF001 - its own class
        return other

    def read(self, path: str) -> bytes:
        """The bytes of a file; `NotInEvidence` if there is none."""
        whole = absolute_path(path)
        file = self._record.files.get(whole)
        if file is None:
            kind = self.kind(whole)
            raise NotInEvidence(f"no file `{whole}`" + (_is(whole, kind) or _nearby(whole, self._record.files)))
        if file.blob is None:
            raise NotInEvidence(
                f"`{whole}` has {file.size:,} bytes and was not stored: it exceeds `evidence_bytes`, or was not readable",
                kind="cut",
            )
        if file.blob not in self._contents:
            try:
                self._contents[file.blob] = self._load(file.blob)
            except (KeyError, OSError) as error:
                raise GradeError(
                    f"the bytes of `{whole}` ({file.blob[:12]}) are missing from the run directory; restore it from a copy"
                ) from error
        return self._contents[file.blob]

    def read_text(self, path: str) -> str:
        """A file as UTF-8 text; `NotInEvidence` if it is not."""
        data = self.read(path)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise NotInEvidence(
                f"`{absolute_path(path)}` is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
            ) from error

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths of the files below a folder, sorted."""
        self._require_whole(f"what is below `{absolute_path(folder)}`")
        start = absolute_path(folder).rstrip("/") + "/"
        return sorted(path for path in self._record.files if path.startswith(start))

    def exists(self, path: str) -> bool:
        """True if there is a regular file, stored or not. A folder or a link is not a file."""
        return self.kind(path) == "file"

    def kind(self, path: str) -> str | None:
        """What is at a path: `file`, `folder`, `link`, `other`, or None for nothing. A path below a link is also `link`.

        Files of the image are not in the evidence, and count as nothing.
        """
        whole = absolute_path(path)
        if whole in self._record.files:
            return "file"
        if whole in self._record.kinds:
            return self._record.kinds[whole]
        if any(self._record.kinds.get(parent) == "link" for parent in parent_folders(whole)):
            return "link"
        inside = whole.rstrip("/") + "/"
        if any(other.startswith(inside) for other in self._record.files):
            return "folder"
        self._require_whole(f"whether there is a `{whole}`")
        return None

    def _require_whole(self, what: str) -> None:
        """`NotInEvidence` if the evidence is incomplete, so that `what` is not known."""
        record = self._record
        if record.lost:
            raise NotInEvidence(f"{what} is not known: {record.lost}", kind="cut")
        if record.left_out:
            kept = len(record.files) + len(record.kinds)
            raise NotInEvidence(
                f"{what} is not known: the agent left {record.left_out:,} paths beyond the {kept:,} that were recorded",
                kind="cut",
            )

    def grading_sandbox(self, *paths: str, replace: Sequence[str] = ()) -> AbstractAsyncContextManager[World]:
        """Open a fresh sandbox of the image with these files of the agent, and nothing else of the agent's.

        A file that the image has, or that its programs load automatically, is copied only if `replace` names it.
        """
        if self._open_sandbox is None:
            raise GradeError("a check opens a grading sandbox, but the environment has no `image`; give it one", kind="config")
        allowed = frozenset(map(absolute_path, replace))
        wanted = dict.fromkeys(map(absolute_path, (*paths, *replace)))
        for path in wanted:
            if path not in allowed and _loaded_unasked(path):
                raise refused_file(path, "programs of the image load it automatically")
        return self._open_sandbox({path: self.read(path) for path in wanted}, allowed)

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """The files that changed since setup: path -> (before, after). A file that was not stored counts as changed.

        If the files after setup were not recorded, every file shows as new.
        """
        self._require_whole("what changed")
        before, after = self._record.initial, self._record.files
        changed: dict[str, tuple[FileRecord | None, FileRecord | None]] = {}
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old != new or (new is not None and new.blob is None):
                changed[path] = (old, new)
        return changed


def _loaded_unasked(path: str) -> bool:
    """True for a path from which programs of an image load code or settings automatically."""
    return bool(_SYSTEM.match(path) or _LOADED.search(path))


def refused_file(path: str, why: str) -> NotInEvidence:
    """The error for a file that is not copied into a grading sandbox. The agent chose the path, so the check is not met."""
    return NotInEvidence(
        f"`{path}` is not copied into the grading sandbox: {why}, and the agent could change its own grade; "
        f"if the task asks for this file, write `grading_sandbox(..., replace=[{path!r}])`",
        kind="cut",
    )


def parent_folders(path: str) -> Iterator[str]:
    """The parent folders of a path, without the root."""
    while (path := posixpath.dirname(path)) != "/":
        yield path


def _is(path: str, kind: str | None) -> str:
    """What is there instead of a file, as the end of a sentence; empty for nothing."""
    if kind == "link":
        return f"; `{path}` is a link or below one, and links are not followed"
    return f"; `{path}` is a {kind}" if kind == "folder" else f"; `{path}` is not a regular file" if kind else ""


def _nearby(path: str, files: Mapping[str, FileRecord]) -> str:
    """Some files of the same folder, as the end of a sentence."""
    folder = posixpath.dirname(path).rstrip("/") + "/"
    others = sorted(name for name in files if name.startswith(folder))[:3]
    return f"; files in `{folder}`: {', '.join(others)}" if others else ""


def _rebuilt(state: Any, state_type: type[Any] | None) -> Any:
    """The final state as the author's type. Always a copy, so that a check cannot change the record."""
    if state_type is None or state_type is dict:
        return msgspec.to_builtins(state)
    try:
        return msgspec.convert(state, state_type)
    except (msgspec.ValidationError, TypeError, NameError) as error:
        name = state_type.__qualname__
        raise GradeError(
            f"the stored state is not a `{name}`: {error}; its annotations must fit the values of the run"
        ) from error
