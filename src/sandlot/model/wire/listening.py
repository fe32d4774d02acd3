"""An ASGI application at a port or a unix socket, for as long as a context lives.

Leaving the context drains: no new request is taken, running ones have `drain_s` to finish, then they are cancelled. Signals are
the caller's business, so that several servers can live in one process.
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
"""What closing may take after the last request is over."""
_LONGEST_PATH = 107
"""Bytes a unix socket's path may have; the kernel's own limit."""


class _Server(uvicorn.Server):
    """Uvicorn without its own signals and without asking ten times a second whether to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopped = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Whoever started us listens to them."""
        yield

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        await self.stopped.wait()


@asynccontextmanager
async def serve_app(
    app: Any, *, host: str = "127.0.0.1", port: int = 0, unix: Path | None = None, drain_s: float = 30.0
) -> AsyncGenerator[str]:
    """Serve the application; gives its base address, `http://HOST:PORT` or `unix:PATH`. Port 0 takes any free one."""
    config = uvicorn.Config(
        app, lifespan="off", log_level="error", access_log=False, date_header=False, server_header=False,
        timeout_keep_alive=75, ws="none", http="h11",  # the one that bounds headers: who speaks to us may be hostile
    )  # fmt: skip
    config.timeout_graceful_shutdown = drain_s  # pyright: ignore[reportAttributeAccessIssue] - whole seconds by its type, a deadline by its use
    taken = _bind_path(unix) if unix is not None else _bind_port(host, port)
    with taken as (listener, address):
        server = _Server(config)
        life, ended = anyio.CancelScope(shield=True), anyio.Event()  # it ends by draining, also when we are cancelled

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
        except BaseExceptionGroup as group:  # the server raises nothing of its own: the one error in it is the caller's
            raise unwrapped(group) from None


async def _wait_idle(server: _Server) -> None:
    """Uvicorn cancels what outlived the drain and does not wait for it."""
    while server.server_state.tasks:  # noqa: ASYNC110 - nobody would set an event
        await anyio.sleep(0.005)


@contextmanager
def _bind_port(host: str, port: int) -> Generator[tuple[socket.socket, str]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {host} port {port}: {error}; name another with --port, 0 for any free one"
        ) from error
    with listener:
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        yield listener, f"http://{shown}:{listener.getsockname()[1]}"


@contextmanager
def _bind_path(path: Path) -> Generator[tuple[socket.socket, str]]:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(f"unix socket `{path}`: the path is longer than {_LONGEST_PATH} bytes, which no socket's may be")
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()  # left behind by a server that was killed
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
