"""What checks and judges see and answer."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from sandlot.core.ports.world import World
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace


class Evidence(Protocol):
    """What checks see: the first argument of a check. It was stored when the agent had ended, so grading can be repeated.

    Asking for a file that is not there ends the check as not met; it is no error.

    ```python
    from sandlot import Environment, Evidence, Task

    env = Environment("report", image="host")


    @env.check(points=2)
    def total_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
        found = evidence.read_text("/out/total.txt").strip()
        return found == task.key["total"], f"found {found!r}"
    ```
    """

    answer: str
    """The agent's last message."""
    state: Any
    """The last value of `world.state`, as the type that the environment's `state` makes."""
    trace: Trace
    """The whole conversation."""
    record: EvidenceRecord
    """The evidence as it is stored."""

    def read(self, path: str) -> bytes:
        """A file the agent left."""
        ...

    def read_text(self, path: str) -> str:
        """A file the agent left, as UTF-8 text."""
        ...

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths of the files below a folder."""
        ...

    def exists(self, path: str) -> bool:
        """True if there is a regular file, kept or not. A folder or a link is not a file."""
        ...

    def kind(self, path: str) -> str | None:
        """What is at a path: `file`, `folder`, `link`, `other`, or None for nothing. Below a link there is `link` too."""
        ...

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """What changed since setup: path -> (before, after)."""
        ...

    def grading_sandbox(self, *paths: str, replace: Sequence[str] = ()) -> AbstractAsyncContextManager[World]:
        """A fresh sandbox of the image, without network, with these files of the agent in it and nothing else of the agent's.

        For checks that run what the agent wrote. The code runs in there; compute the verdict outside. A file that the image has,
        or that its programs load by themselves (`/usr/bin/python3`, `/etc/ld.so.preload`, `sitecustomize.py`), is brought only if
        `replace` names it; otherwise the check is not met. So it is if the code does not end in time or fills the memory.
        """
        ...


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said to one question: one verdict and one reason a vote."""

    verdicts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    prompt_digest: str = ""
    """Names the question exactly: equal digests were asked the same thing about the same view."""
    cached: bool = False
    """True if no vote had to be asked for anew."""
    retries: int = 0
    """Replies that could not be read and were asked for once more."""


class Judge(Protocol):
    """Puts questions to a grader model."""

    @property
    def name(self) -> str:
        """The model that judges."""
        ...

    async def ask(self, question: str, choices: Sequence[str], view: Mapping[str, str], votes: int) -> Judgement:
        """One verdict a vote, each one of `choices` (worst to best); `GradeError` if a reply is anything else."""
        ...
