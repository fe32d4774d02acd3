"""The live world: what setup, tools and solutions hold while a rollout runs."""

import functools
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from sandlot.core.errors import AuthorError
from sandlot.core.ports.sandbox import Command, Completed, Files, Process, Sandbox, Stream
from sandlot.core.task import Task
from sandlot.core.trace import FileRecord
from sandlot.core.types import digest
from sandlot.sandbox.command import run_command
from sandlot.sandbox.service import start_service

_MAX_SHOWN = 1_000
"""Characters of a failed command, and of the end of its output, in an error."""


def _failed(command: str, done: Completed) -> str:
    shown = command if len(command) <= _MAX_SHOWN else f"{command[:_MAX_SHOWN]} ..."
    name, text = ("stderr", done.stderr) if done.stderr.strip() else ("stdout", done.stdout)
    said = f"{name} ends: {text.strip()[-_MAX_SHOWN:]}" if text.strip() else "it printed nothing"
    return f"the command `{shown}` failed with exit code {done.code}; {said}"


def sandbox_of(files: Files) -> Sandbox | None:
    """The files as the machine they are on; None if they are on none."""
    return cast("Sandbox", files) if _is_sandbox(type(files)) else None


@functools.cache
def _is_sandbox(kind: type) -> bool:
    return issubclass(kind, Sandbox)  # asking a Protocol takes a tenth of a millisecond: once for each class is enough


@dataclass(slots=True)
class LiveWorld:
    """`state` and files of one rollout; gone when it ends, except for what becomes evidence."""

    state: Any
    task: Task
    rng: Random
    files: Files
    written: dict[str, FileRecord] | None = None
    """What was written into a sandbox, for as long as nothing but writing has happened; None after that, and without one."""

    checks: bool = False
    """Whether `exec` raises for a command that fails where its caller does not say: True while setup runs."""

    async def read(self, path: str) -> bytes:
        """One file."""
        return await self.files.read(path)

    async def write(self, path: str, data: bytes | str) -> None:
        """Put one file, with the folders above it; text is written as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        await self.files.write(path, content)
        if self.written is not None:
            self.written[posixpath.normpath(path)] = FileRecord(size=len(content), blob=digest(content))

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        return await self.files.list(folder)

    async def exec(
        self,
        command: str,
        *,
        stdin: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        check: bool | None = None,
    ) -> Completed:
        """Run a shell command in the sandbox and wait for it; with `check`, raise unless its exit code is 0.

        Output beyond `output_bytes` (None: 8 MiB) is dropped and counted.
        """
        argv = ("/bin/sh", "-c", command)
        sandbox = self.sandbox("exec")
        done = await run_command(
            sandbox, Command(argv=argv, cwd=cwd, env=dict(env or {}), stdin=stdin.encode(), output_bytes=output_bytes)
        )
        if done.code != 0 and (self.checks if check is None else check):
            raise AuthorError(_failed(command, done) + ("; write `check=False` if that may happen" if check is None else ""))
        return done

    async def spawn(self, command: Command) -> Process:
        """Start a command in the sandbox, and hold its streams."""
        return await self.sandbox("spawn").spawn(command)

    async def start(self, command: str, *, ready: int | str | None = None, timeout_s: float = 30.0) -> Process:
        """Start a shell command and leave it running; with `ready`, wait until that port or unix socket takes connections."""
        return await start_service(self.sandbox("start"), command, ready=ready, timeout_s=timeout_s)

    async def connect(self, where: int | str) -> Stream:
        """Reach a port or a unix socket inside the sandbox, without opening the network."""
        return await self.sandbox("connect").connect(where)

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Stand behind a port of the sandbox's loopback: what programs inside connect to, the host answers."""
        return self.sandbox("listen").listen(port)

    def sandbox(self, what: str) -> Sandbox:
        """The machine behind the files, to act in: from here on, writing is not all that happens."""
        sandbox = sandbox_of(self.files)
        if sandbox is None:
            raise AuthorError(
                f'`world.{what}`: this environment has no sandbox to run commands in; give it an image, `image="host"`'
            )
        self.written = None
        return sandbox

    def take_written(self) -> Mapping[str, FileRecord] | None:
        """What was written so far, if nothing else has happened; nothing is written after this."""
        written, self.written = self.written, None
        return written
