"""Serve an ASGI application on a port or a unix socket, inside a context.

When the context ends, no new request is accepted; running ones have `drain_s` seconds to finish, then they are cancelled. Signals
are left to the caller, so several servers can run in one process.
"""

import os
import socket
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn

from sandlot.core.errors import ConfigError, unwrapped

_BACKLOG = 4096
_CLOSING_S = 5.0
"""Time for closing after the last request."""
_LONGEST_PATH = 107
"""Maximum length of a unix socket's path in bytes, set by the kernel."""


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers and without its polling loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopped = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the caller."""
        yield

    async def main_loop(self) -> None:
        """Serve until `stopped` is set."""
        await self.stopped.wait()


@asynccontextmanager
async def serve_app(
    app: Any, *, host: str = "127.0.0.1", port: int = 0, unix: Path | None = None, drain_s: float = 30.0
) -> AsyncGenerator[str]:
    """Serve the application; yields its base address, `http://HOST:PORT` or `unix:PATH`. Port 0 takes any free port."""
    config = uvicorn.Config(
        app, lifespan="off", log_level="error", access_log=False, date_header=False, server_header=False,
        timeout_keep_alive=75, ws="none", http="h11",  # h11 bounds headers, since clients may be hostile
    )  # fmt: skip
    config.timeout_graceful_shutdown = drain_s  # pyright: ignore[reportAttributeAccessIssue] - whole seconds by its type, a deadline by its use
    taken = _bind_path(unix) if unix is not None else _bind_port(host, port)
    with taken as (listener, address):
        server = _Server(config)
        life, ended = anyio.CancelScope(shield=True), anyio.Event()  # it drains also when we are cancelled

        async def serve() -> None:
            with life:
                await server.serve([listener])
                await _wait_idle(server)
            ended.set()

        try:
            async with anyio.create_task_group() as serving:
                serving.start_soon(serve)
                try:
                    yield address
                finally:
                    server.stopped.set()
                    with anyio.move_on_after(drain_s + _CLOSING_S, shield=True):
                        await ended.wait()
                    life.cancel()
        except BaseExceptionGroup as group:  # the server raises nothing itself: the one error in it is the caller's
            raise unwrapped(group) from None


async def _wait_idle(server: _Server) -> None:
    """Wait for tasks that uvicorn cancelled after the drain; it does not wait itself."""
    while server.server_state.tasks:  # noqa: ASYNC110 - there is no event to wait for
        await anyio.sleep(0.005)


@contextmanager
def _bind_port(host: str, port: int) -> Generator[tuple[socket.socket, str]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(f"cannot listen at {host} port {port}: {error}; choose another port; 0 takes any free one") from error
    with listener:
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        yield listener, f"http://{shown}:{listener.getsockname()[1]}"


@contextmanager
def _bind_path(path: Path) -> Generator[tuple[socket.socket, str]]:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(f"unix socket `{path}`: the path is longer than {_LONGEST_PATH} bytes; use a shorter one")
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()  # left by a server that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise ConfigError(f"cannot listen at unix socket `{path}`: {error}") from error
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        try:
            yield listener, f"unix:{path}"
        finally:
            path.unlink(missing_ok=True)
