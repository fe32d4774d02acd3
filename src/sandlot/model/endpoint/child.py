"""Engine processes: child processes that each serve one model over a unix socket.

The child runs `python -m sandlot serve --model SPEC --unix PATH`. It stops after its last user in this process has left, and also
when its standard input closes, so it never outlives us. Policies and judges of the same model share one engine. If an engine
dies, the errors of its users quote the end of its log.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampled, Sampling, TokenModel
from sandlot.model.wire.server_load import LoadOf, load_of

_READY_S = 600.0
"""Maximum time to load a model."""
_CLOSE_S = 15.0
"""Time for an engine to finish its step and exit."""
_PATIENCE_S = 5.0
"""How long requests to the socket are retried; after that the process is considered dead."""
AT_ONCE = 32
"""Concurrent requests of an engine. Further ones wait in this process, where waiting does not count as agent time."""
_SHOWN_CHARS = 2000
PREFIX = "sandlot-engine-"
_NEW_S = 60.0
"""A folder younger than this may belong to a process that has not locked it yet."""


@dataclass(slots=True)
class EngineProcess:
    """A running engine process."""

    spec: str
    folder: Path
    """Holds its socket and its log."""
    process: anyio.abc.Process
    lock: BinaryIO
    """Locked while this process lives, so that other processes recognise folders of dead ones."""
    num_users: int = 0
    ready: anyio.Event = field(default_factory=anyio.Event)
    dtype: str | None = None
    """The data type it computes in; known once it is ready."""

    @property
    def socket(self) -> Path:
        """The unix socket it listens on."""
        return self.folder / "engine.sock"

    def log_tail(self) -> str:
        """The end of its log."""
        text = (self.folder / "engine.log").read_text(errors="replace").strip()
        return text[-_SHOWN_CHARS:] or "its log is empty"

    def exit_error(self) -> ModelError | None:
        """The error to raise if the process has exited, else None."""
        if self.process.returncode is None:
            return None
        return ModelError(
            f"the engine of `{self.spec}` ended with code {self.process.returncode}: {self.log_tail()}", kind="engine"
        )


_running: dict[tuple[int, str, str], EngineProcess] = {}
"""Keyed by process id too: a fork must not use its parent's engines."""


@asynccontextmanager
async def open_engine(spec: str, options: Sequence[str] = ()) -> AsyncGenerator[EngineProcess]:
    """The engine of a model: started for its first user, stopped after its last."""
    key = os.getpid(), spec, " ".join(options)
    engine = _running.get(key)
    if engine is None:
        started = await _start(spec, options)
        engine = _running.setdefault(key, started)
        if engine is not started:  # a concurrent caller was faster
            started.process.kill()
            with anyio.move_on_after(_CLOSE_S + 5, shield=True):
                await _stop(started)
    engine.num_users += 1
    try:
        await _require_ready(engine)
        yield engine
    finally:
        engine.num_users -= 1
        if engine.num_users == 0:
            _running.pop(key, None)
            with anyio.move_on_after(_CLOSE_S + 5, shield=True):
                await _stop(engine)


async def _start(spec: str, options: Sequence[str]) -> EngineProcess:
    folder, lock = await anyio.to_thread.run_sync(_make_folder)
    command = [sys.executable, "-m", "sandlot", "serve", "--model", spec, "--unix", str(folder / "engine.sock"), "--until-eof"]
    command += ["--max-batch", str(AT_ONCE), *options]
    with (folder / "engine.log").open("wb") as log:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C goes to the run, which stops its engines itself
        )
    return EngineProcess(spec, folder, process, lock)


def _make_folder() -> tuple[Path, BinaryIO]:
    """Make a new folder and lock it; remove folders of processes that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            known = old.lstat()  # another user may own an entry of this name in the shared folder
            if known.st_uid == os.getuid() and time.time() - known.st_mtime > _NEW_S and _is_abandoned(old):
                shutil.rmtree(old)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / "lock").open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _is_abandoned(folder: Path) -> bool:
    """True if its lock is free."""
    with os.fdopen(os.open(folder / "lock", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def _require_ready(engine: EngineProcess) -> None:
    """Wait for the line that says it is ready; the first user reads it."""
    if engine.ready.is_set():
        return
    if engine.num_users > 1:
        await engine.ready.wait()
        return
    assert engine.process.stdout is not None
    output = b""
    try:
        with anyio.fail_after(_READY_S), suppress(anyio.EndOfStream):
            while b"\n" not in output:
                output += await engine.process.stdout.receive()
    except anyio.get_cancelled_exc_class():
        engine.process.kill()  # while it loads it reacts to nothing else
        raise
    except TimeoutError:
        raise ConfigError(f"the engine of `{engine.spec}` was not ready after {_READY_S:g} s: {engine.log_tail()}") from None
    finally:
        engine.ready.set()
    if b"\n" not in output:
        await engine.process.wait()
        raise ConfigError(f"the engine of `{engine.spec}` did not start: {engine.log_tail()}")
    engine.dtype = output.decode(errors="replace").partition(" at ")[0].rpartition(" in ")[2]


async def _stop(engine: EngineProcess) -> None:
    process = engine.process
    if process.stdin is not None:
        await process.stdin.aclose()
    with anyio.move_on_after(_CLOSE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(engine.folder, ignore_errors=True))
    engine.lock.close()


@dataclass(frozen=True, slots=True)
class _EngineTokens:
    """`ports.TokenModel` of an engine process; if the process has exited, the error says so."""

    engine: EngineProcess
    model: TokenModel

    @property
    def name(self) -> str:
        """The name given by the user."""
        return self.engine.spec

    @property
    def context(self) -> int:
        """The context length of the model."""
        return self.model.context

    @property
    def server_load(self) -> LoadOf | None:
        """As the model's."""
        return load_of(self.model)

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids."""
        try:
            sampled = await self.model.sample(ids, sampling, stop_ids=stop_ids, session=session)
            return msgspec.structs.replace(sampled, dtype=self.engine.dtype)
        except ModelError as error:
            raise self.engine.exit_error() or error from None

    async def release(self, session: str) -> None:
        """End the session of a rollout."""
        if self.engine.process.returncode is None:
            await self.model.release(session)


@asynccontextmanager
async def open_engine_tokens(
    spec: str, options: Sequence[str] = (), *, at_once: int = AT_ONCE, request_s: float = 3600.0
) -> AsyncGenerator[TokenModel]:
    """A token model served by an engine process; a request fails after `request_s` seconds."""
    from sandlot.model.endpoint.tokens import RemoteConfig, open_remote  # noqa: PLC0415 - only where needed

    async with open_engine(spec, options) as engine:
        config = RemoteConfig(
            unix=engine.socket, name=spec, at_once=min(at_once, AT_ONCE), request_s=request_s, patience_s=_PATIENCE_S
        )
        async with open_remote(config, environ={}) as remote:
            yield _EngineTokens(engine, remote)
