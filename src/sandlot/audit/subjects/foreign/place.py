"""Where foreign code runs: each worker in a new native sandbox without network, or in a plain child process.

The plain process is for machines without sandboxes and only on request: it has all rights of the user. Both are started with a
few environment variables and nothing else of ours.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anyio.abc import Process as AnyioProcess

from sandlot.audit.subjects.foreign.python import Interpreter
from sandlot.audit.subjects.worker_process import kill_session, start_child
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Backend, Command, Process, Sandbox
from sandlot.wiring.parts import open_backend

_INSIDE = Path(__file__).parent / "inside"
_PROGRAMS = "/run/audit"
"""Folder of the programs of `inside/` in a sandbox."""


class WorkerPlace(Protocol):
    """A place to start `sandlot_serve.py` in."""

    @property
    def confined(self) -> bool:
        """True if it cannot reach other processes."""
        ...

    def process(self, variables: dict[str, str]) -> AbstractAsyncContextManager[Process]:
        """The running program; killed with everything it started when the context ends."""
        ...


@dataclass(frozen=True, slots=True)
class _Sandboxed:
    """Each worker in a sandbox of its own."""

    backend: Backend
    python: Interpreter
    folders: tuple[Path, ...]

    @property
    def confined(self) -> bool:
        """Yes: a sandbox."""
        return True

    @property
    def image(self) -> str:
        """The host's `/usr` and the folders."""
        return ":".join(("host", *(str(folder) for folder in self.folders)))

    @asynccontextmanager
    async def process(self, variables: dict[str, str]) -> AsyncGenerator[Process]:
        """Start it in a new sandbox."""
        async with self.backend.open(self.image, "none", Limits()) as sandbox:
            assert isinstance(sandbox, Sandbox)
            for path in _INSIDE.glob("*.py"):
                await sandbox.write(f"{_PROGRAMS}/{path.name}", path.read_bytes())
            argv = (self.python.command, "-u", f"{_PROGRAMS}/sandlot_serve.py")
            yield await sandbox.spawn(Command(argv=argv, env=variables, cwd="/tmp"))  # noqa: S108 - of the sandbox


class _PlainProcess:
    """A child process as port `Process`, as far as workers use it."""

    def __init__(self, process: AnyioProcess) -> None:
        self._process = process
        self.dropped = 0

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        assert self._process.stdout is not None
        async for piece in self._process.stdout:
            yield "stdout", piece

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(data)

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        kill_session(self._process.pid)
        await self._process.wait()


@dataclass(frozen=True, slots=True)
class _Unconfined:
    """Each worker in a plain child process, in a temporary folder."""

    python: Interpreter

    @property
    def confined(self) -> bool:
        """No: a plain process."""
        return False

    @asynccontextmanager
    async def process(self, variables: dict[str, str]) -> AsyncGenerator[Process]:
        """Start it as a child process."""
        folder = tempfile.mkdtemp(prefix="sandlot-audit-")
        keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command = [self.python.command, "-u", str(_INSIDE / "sandlot_serve.py")]
        try:
            async with start_child(command, keep | variables, cwd=folder, stderr=subprocess.DEVNULL) as process:
                yield _PlainProcess(process)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def open_place(python: Interpreter, folders: tuple[Path, ...], *, unconfined: bool = False) -> AsyncGenerator[WorkerPlace]:
    """Sandboxes that see these folders of the host. `ConfigError` if no sandbox can be opened: there is no silent fallback."""
    if unconfined:
        yield _Unconfined(python)
        return
    seen = tuple(dict.fromkeys(folder.absolute() for folder in (*python.folders, *folders)))
    async with AsyncExitStack() as stack:
        try:
            place = _Sandboxed(await stack.enter_async_context(open_backend("native")), python, seen)
            async with place.backend.open(place.image, "none", Limits()):
                pass  # fails here, not in the middle of an audit
        except SandboxError as error:
            raise ConfigError(
                f"foreign code needs a sandbox, and none can be opened here: {error}. `sandlot doctor` says what is missing; "
                "`--without-sandbox` runs it with your own rights"
            ) from error
        yield place
