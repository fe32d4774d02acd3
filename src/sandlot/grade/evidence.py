"""Evidence: what the agent left, stored by hash, as checks read it.

`gather` kept it; `StoredEvidence` reads only that. A check that asks for something that is not there gets `NotInEvidence`, which
means *not met*; bytes that were kept and cannot be found again are the store's fault and a `GradeError`.

Of evidence that is cut, because the agent left too much, nothing can be said to be absent: a check that asks for it is not met.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from sandlot.core.errors import GradeError, NotInEvidence
from sandlot.core.ports.world import World
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace

_OpenSandbox = Callable[[Mapping[str, bytes], frozenset[str]], AbstractAsyncContextManager[World]]

_SYSTEM = re.compile(r"/(bin|sbin|lib[^/]*|usr|etc|boot|dev|proc|sys)/")
"""Where an image keeps programs, libraries and their configuration."""
_LOADED = re.compile(
    r"(^|/)(site-packages|dist-packages)/|\.pth$|(^|/)((site|user)customize\.py|\.(bashrc|bash_\w+|profile|zshenv))$"
)
"""What interpreters and shells load by themselves, wherever it is."""


class StoredEvidence:
    """The `Evidence` of one rollout, over its record and the bytes kept by hash."""

    def __init__(
        self,
        record: EvidenceRecord,
        trace: Trace,
        load: Callable[[str], bytes] | Mapping[str, bytes],
        state_type: type[Any] | None = None,
        open_sandbox: _OpenSandbox | None = None,
    ) -> None:
        """`load` gives kept bytes by digest: a mapping, or a blocking function. `state_type` is what `world.state` was.

        `open_sandbox` makes a grading sandbox with these files in it, of which some may replace the image's own; None where there
        is no backend for one.
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
        whole = absolute_path(path)
        file = self.record.files.get(whole)
        if file is None:
            kind = self.kind(whole)
            raise NotInEvidence(f"there is no file `{whole}`" + (_is(whole, kind) or _nearby(whole, self.record.files)))
        if file.blob is None:
            raise NotInEvidence(
                f"`{whole}` has {file.size:,} bytes and was not kept: it is over the size cap of the evidence, or not readable",
                kind="cut",
            )
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
                f"`{absolute_path(path)}` is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
            ) from error

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths of the files below a folder, sorted."""
        self._require_whole(f"what is below `{absolute_path(folder)}`")
        start = absolute_path(folder).rstrip("/") + "/"
        return sorted(path for path in self.record.files if path.startswith(start))

    def exists(self, path: str) -> bool:
        """True if there is a regular file, kept or not. A folder or a link is none."""
        return self.kind(path) == "file"

    def kind(self, path: str) -> str | None:
        """What is at a path: `file`, `folder`, `link`, `other`, or None for nothing. Below a link there is `link` too.

        What only the image has is not in the evidence, and counts as nothing.
        """
        whole = absolute_path(path)
        if whole in self.record.files:
            return "file"
        if whole in self.record.kinds:
            return self.record.kinds[whole]
        if any(self.record.kinds.get(parent) == "link" for parent in parent_folders(whole)):
            return "link"
        inside = whole.rstrip("/") + "/"
        if any(other.startswith(inside) for other in self.record.files):
            return "folder"
        self._require_whole(f"whether there is a `{whole}`")
        return None

    def _require_whole(self, what: str) -> None:
        """Of evidence that is cut, nothing can be said to be absent."""
        record = self.record
        if record.lost:
            raise NotInEvidence(f"{what} is not known: {record.lost}", kind="cut")
        if record.left_out:
            kept = len(record.files) + len(record.kinds)
            raise NotInEvidence(
                f"{what} is not known: the agent left {record.left_out:,} paths beyond the {kept:,} that were recorded",
                kind="cut",
            )

    def grading_sandbox(self, *paths: str, replace: Sequence[str] = ()) -> AbstractAsyncContextManager[World]:
        """A fresh sandbox of the image with these files of the agent in it, and nothing else of the agent's.

        A file that the image has, or that programs of the image load by themselves, is brought only if `replace` names it.
        """
        if self._open_sandbox is None:
            raise GradeError(
                "a check asks for a grading sandbox, and the environment has no `image` to make one from", kind="config"
            )
        allowed = frozenset(map(absolute_path, replace))
        wanted = dict.fromkeys(map(absolute_path, (*paths, *replace)))
        for path in wanted:
            if path not in allowed and _loaded_unasked(path):
                raise refused_file(path, "programs of the image would load it")
        return self._open_sandbox({path: self.read(path) for path in wanted}, allowed)

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """What changed since setup: path -> (before, after). A file that was not kept counts as changed.

        If setup's files were not recorded, every file shows as new.
        """
        self._require_whole("what changed")
        before, after = self.record.initial, self.record.files
        changed: dict[str, tuple[FileRecord | None, FileRecord | None]] = {}
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old != new or (new is not None and new.blob is None):
                changed[path] = (old, new)
        return changed


def absolute_path(path: str) -> str:
    """A path as the record names it: from the root, without `.`, `..` and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _loaded_unasked(path: str) -> bool:
    """True for a path where programs of an image look for code or settings by themselves."""
    return bool(_SYSTEM.match(path) or _LOADED.search(path))


def refused_file(path: str, why: str) -> NotInEvidence:
    """Why a file is not brought into a grading sandbox. The agent chose the path, so the check is not met."""
    return NotInEvidence(
        f"`{path}` is not brought into the grading sandbox: {why}, and the agent would grade itself; "
        f"if the task asks for this file, write `grading_sandbox(..., replace=[{path!r}])`",
        kind="cut",
    )


def parent_folders(path: str) -> Iterator[str]:
    """The folders above a path, without the root."""
    while (path := posixpath.dirname(path)) != "/":
        yield path


def _is(path: str, kind: str | None) -> str:
    """What there is in a file's place, as the end of a sentence; empty if there is nothing."""
    if kind == "link":
        return f"; `{path}` is a link or behind one, and links are not followed"
    return f"; `{path}` is a {kind}" if kind == "folder" else f"; `{path}` is no regular file" if kind else ""


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
