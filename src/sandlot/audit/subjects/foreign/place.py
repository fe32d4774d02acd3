"""Where foreign code runs: each worker in a new native sandbox without network, or in a plain child process.

The plain process is for machines without sandboxes and only on request: it has all rights of the user. Both are started with a
few environment variables and nothing else of ours.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio.abc import ByteReceiveStream

from sandlot.audit.subjects.foreign.python import Interpreter
from sandlot.audit.subjects.worker_process import start_child
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Backend, Command, Sandbox
from sandlot.wiring.parts import open_backend

_INSIDE = Path(__file__).parent / "inside"
_PROGRAMS = "/run/audit"
"""Folder of the programs of `inside/` in a sandbox."""


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A running `sandlot_serve.py`."""

    send: Callable[[bytes], Awaitable[None]]
    output: AsyncIterator[tuple[str, bytes]]
    """What it writes: the stream (`stdout` or `stderr`) and the bytes."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """A place to start `sandlot_serve.py` in."""

    confined: bool
    """True if it cannot reach other processes."""
    start: Callable[[dict[str, str]], AbstractAsyncContextManager[ForeignProcess]]
    """Start it with these variables; it is killed with everything it started when the context ends."""


@asynccontextmanager
async def _start_sandboxed(
    backend: Backend, image: str, python: str, variables: dict[str, str]
) -> AsyncGenerator[ForeignProcess]:
    """In a sandbox of its own."""
    async with backend.open(image, "none", Limits()) as sandbox:
        assert isinstance(sandbox, Sandbox)
        for path in _INSIDE.glob("*.py"):
            await sandbox.write(f"{_PROGRAMS}/{path.name}", path.read_bytes())
        argv = (python, "-u", f"{_PROGRAMS}/sandlot_serve.py")
        process = await sandbox.spawn(Command(argv=argv, env=variables, cwd="/tmp"))  # noqa: S108 - of the sandbox
        yield ForeignProcess(process.send, aiter(process.output()))


@asynccontextmanager
async def _start_unconfined(python: str, variables: dict[str, str]) -> AsyncGenerator[ForeignProcess]:
    """As a plain child process, in a temporary folder."""
    folder = tempfile.mkdtemp(prefix="sandlot-audit-")
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [python, "-u", str(_INSIDE / "sandlot_serve.py")]
    try:
        async with start_child(command, keep | variables, cwd=folder, stderr=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield ForeignProcess(process.stdin.send, _named_pieces(process.stdout))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _named_pieces(stdout: ByteReceiveStream) -> AsyncIterator[tuple[str, bytes]]:
    async for piece in stdout:
        yield "stdout", piece


@asynccontextmanager
async def open_place(python: Interpreter, folders: tuple[Path, ...], *, unconfined: bool = False) -> AsyncGenerator[WorkerPlace]:
    """Sandboxes that see these folders of the host. `ConfigError` if no sandbox can be opened: there is no silent fallback."""
    if unconfined:
        yield WorkerPlace(confined=False, start=partial(_start_unconfined, python.command))
        return
    seen = dict.fromkeys(folder.absolute() for folder in (*python.folders, *folders))
    image = ":".join(("host", *map(str, seen)))  # the host's `/usr` and the folders
    async with AsyncExitStack() as stack:
        try:
            backend = await stack.enter_async_context(open_backend("native"))
            async with backend.open(image, "none", Limits()):
                pass  # fails here, not in the middle of an audit
        except SandboxError as error:
            raise ConfigError(
                f"foreign code needs a sandbox, and none can be opened here: {error}. `sandlot doctor` says what is missing; "
                "`--without-sandbox` runs it with your own rights"
            ) from error
        yield WorkerPlace(confined=True, start=partial(_start_sandboxed, backend, image, python.command))
