"""The interfaces of grading: evidence and judges."""

import posixpath
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from sandlot.core.ports.world import World
from sandlot.core.trace import EvidenceRecord, FileRecord, ImagePart, Trace


class Evidence(Protocol):
    """What checks see: the first argument of a check. It is stored when the agent stops, so grading can be repeated.

    Reading a file that does not exist makes the check not met; it is not an error.

    ```python
    from sandlot import Environment, Evidence, Task

    env = Environment("report", image="host")


    @env.check(points=2)
    def total_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
        found = evidence.read_text("/out/total.txt").strip()
        return found == task.key["total"], f"found {found!r}"
    ```
    """

    state: Any
    """The final `world.state`, of the type that the environment's `state` makes."""
    apps: Any
    """The apps at the end, such as `evidence.apps.mail`; None without apps. See `sandlot.apps`."""

    @property
    def penalties(self) -> Mapping[str, float]:
        """Points lost to broken constraints, by constraint."""
        ...

    @property
    def crashed(self) -> Mapping[str, str]:
        """What crashed in an environment where that loses the rollout, by seat: no check of the seat is met."""
        ...

    @property
    def answer(self) -> str:
        """The agent's last message. Where several agents act, a check of one seat gets that seat's, any other the last of all."""
        ...

    @property
    def trace(self) -> Trace:
        """The whole conversation."""
        ...

    @property
    def record(self) -> EvidenceRecord:
        """The evidence as it is stored."""
        ...

    @property
    def answer_was_read(self) -> bool:
        """False if `answer` was not read, nor `trace` or `record`, which contain it: then another answer has the same score."""
        ...

    def with_answer(self, answer: str) -> "Evidence":
        """The same evidence with another answer, for a check of one seat. Reading it counts for both."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of a file from the end of the rollout."""
        ...

    def read_text(self, path: str) -> str:
        """A file as UTF-8 text. If it is not UTF-8, the check is not met."""
        ...

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths of all files below a folder, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """True if there is a regular file, even if it was too large to store. A folder or a link is not a file."""
        ...

    def kind(self, path: str) -> str | None:
        """What is at a path: `file`, `folder`, `link`, `other`, or None for nothing. A path below a link is also `link`."""
        ...

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """The files that changed since setup: path -> (before, after), None where the file did not exist."""
        ...

    def grading_sandbox(self, *paths: str, replace: Sequence[str] = ()) -> AbstractAsyncContextManager[World]:
        """Open a fresh sandbox of the image, without network, with these files of the agent and nothing else of the agent's.

        For checks that run the agent's code. Run the code in it, and compute the verdict outside. A file that the image has, or
        that its programs load automatically (`/usr/bin/python3`, `/etc/ld.so.preload`, `sitecustomize.py`), is copied only if
        `replace` names it; if not, the check is not met. Nor is it met if the code does not end in time or fills the memory.
        """
        ...


NO_IMAGES: Mapping[str, ImagePart] = MappingProxyType({})


def absolute_path(path: str) -> str:
    """A path as evidence has it: absolute, without `.`, `..` and double slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer to one question: one verdict and one reason per vote."""

    verdicts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    prompt_digest: str = ""
    """Identifies the question: equal digests mean the same question about the same view."""
    cached: bool = False
    """True if every vote came from the cache."""
    retries: int = 0
    """Replies that could not be parsed and were requested again."""


class Judge(Protocol):
    """Asks a grader model."""

    @property
    def name(self) -> str:
        """The model that judges."""
        ...

    async def ask(
        self,
        question: str,
        choices: Sequence[str],
        view: Mapping[str, str],
        votes: int,
        images: Mapping[str, ImagePart] = NO_IMAGES,
    ) -> Judgement:
        """One verdict per vote, each one of `choices` (worst to best); `GradeError` if a reply is anything else.

        `images` is given only if the check shows some; their bytes are stored with the run.
        """
        ...
