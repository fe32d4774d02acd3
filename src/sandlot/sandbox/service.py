"""Starts a service in a sandbox and waits until it is ready."""

from collections.abc import Callable

import anyio

from sandlot.core.errors import AuthorError, InsideError
from sandlot.core.ports.sandbox import Command, Process, Sandbox

_OUTPUT_BYTES = 64 << 10
"""Output kept of a service, for the message if it fails; the rest is dropped inside, so that the service never blocks."""
_ASK_AGAIN_S = 0.02


async def start_service(
    sandbox: Sandbox,
    command: str,
    *,
    ready: int | str | None = None,
    timeout_s: float = 30.0,
    as_user: Callable[[Command], Command] = lambda command: command,
) -> Process:
    """Start a shell command and leave it running; with `ready`, return when that port or unix socket accepts connections.

    To find out, connections are opened and closed at once. A service that ends or is not ready in time is the author's error;
    the message has its output. `as_user` sets the user it runs as.
    """
    if isinstance(ready, str) and not ready.startswith("/"):
        raise AuthorError(
            f"service `{command}`: ready={ready!r}; give a port as a number or the path of a unix socket", kind="config"
        )
    asked = Command(argv=("/bin/sh", "-c", command), stdin=b"", output_bytes=_OUTPUT_BYTES)
    process = await sandbox.spawn(as_user(asked))
    if ready is None:
        return process
    with anyio.move_on_after(timeout_s):
        while not await _takes_connections(sandbox, ready):
            await _require_running(process, command)
        return process
    with anyio.CancelScope(shield=True), anyio.move_on_after(5):
        await process.kill()
    raise InsideError(
        f"service `{command}` accepted no connections at {ready} within {timeout_s:g} s; {await _written(process)}",
        kind="timeout",
    )


async def _takes_connections(sandbox: Sandbox, where: int | str) -> bool:
    try:
        stream = await sandbox.connect(where)
    except OSError:
        return False
    await stream.aclose()
    return True


async def _require_running(process: Process, command: str) -> None:
    """Wait a moment; exit code 0 is allowed, for a service that goes into the background."""
    code = 0
    with anyio.move_on_after(_ASK_AGAIN_S) as scope:
        code = await process.wait()
    if code != 0:
        raise InsideError(f"service `{command}` ended with exit code {code}; {await _written(process)}", kind="server")
    if not scope.cancelled_caught:
        await anyio.sleep(_ASK_AGAIN_S)


async def _written(process: Process) -> str:
    said = b"".join([data async for _, data in process.output()]).decode(errors="replace").strip()
    return f"it wrote: {said[-2000:]}" if said else "it wrote nothing"
