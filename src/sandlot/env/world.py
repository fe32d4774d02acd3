"""The live world: what setup, tools and solutions hold while a rollout runs."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sandlot.errors import AuthorError
from sandlot.ports import Command, Completed, Files, Sandbox
from sandlot.sandbox.command import run_command
from sandlot.task import Task
from sandlot.trace import FileRecord
from sandlot.types import digest


@dataclass(slots=True)
class LiveWorld:
    """`state` and files of one rollout; gone when it ends, except for what becomes evidence."""

    state: Any
    task: Task
    rng: Random
    files: Files
    noted: dict[str, FileRecord] | None = None
    """What was written into a sandbox, for as long as nothing but writing has happened; None after that, and without one."""

    async def read(self, path: str) -> bytes:
        """One file."""
        return await self.files.read(path)

    async def write(self, path: str, data: bytes | str) -> None:
        """Put one file, with the folders above it; text is written as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        await self.files.write(path, content)
        if self.noted is not None:
            self.noted[posixpath.normpath(path)] = FileRecord(size=len(content), blob=digest(content))

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        return await self.files.list(folder)

    async def exec(self, command: str, *, stdin: str = "", cwd: str = "/", env: Mapping[str, str] | None = None) -> Completed:
        """Run a shell command in the sandbox and wait for it."""
        argv = ("/bin/sh", "-c", command)
        sandbox = self.sandbox("exec")
        return await run_command(sandbox, Command(argv=argv, cwd=cwd, env=dict(env or {}), stdin=stdin.encode()))

    def sandbox(self, what: str) -> Sandbox:
        """The machine behind the files, to act in: from here on, writing is not all that happens."""
        if not isinstance(self.files, Sandbox):
            raise AuthorError(
                f'`world.{what}`: this environment has no sandbox to run commands in; give it an image, `image="host"`'
            )
        self.noted = None
        return self.files

    def stop_noting(self) -> Mapping[str, FileRecord] | None:
        """What was written so far, if nothing else has happened; nothing is noted after this."""
        noted, self.noted = self.noted, None
        return noted
