"""The live world: what setup, tools and solutions hold while a rollout runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sandlot.errors import AuthorError
from sandlot.ports import Command, Completed, Files, Sandbox
from sandlot.sandbox.command import run_command
from sandlot.task import Task


@dataclass(slots=True)
class LiveWorld:
    """`state` and files of one rollout; gone when it ends, except for what becomes evidence."""

    state: Any
    task: Task
    rng: Random
    files: Files

    async def read(self, path: str) -> bytes:
        """One file."""
        return await self.files.read(path)

    async def write(self, path: str, data: bytes | str) -> None:
        """Put one file, with the folders above it; text is written as UTF-8."""
        await self.files.write(path, data.encode() if isinstance(data, str) else data)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        return await self.files.list(folder)

    async def exec(self, command: str, *, stdin: str = "", cwd: str = "/", env: Mapping[str, str] | None = None) -> Completed:
        """Run a shell command in the sandbox and wait for it."""
        if not isinstance(self.files, Sandbox):
            raise AuthorError(
                '`world.exec`: this environment has no sandbox to run commands in; give it an image, `image="host"`'
            )
        argv = ("/bin/sh", "-c", command)
        return await run_command(self.files, Command(argv=argv, cwd=cwd, env=dict(env or {}), stdin=stdin.encode()))
